"""Properties over generated requests and rankings: pages, scores, merge patches, cookies, hostile input."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from interleaf.experiment import Experiment
from interleaf.proxy.codes import BypassError
from interleaf.proxy.config import ProxyConfig
from interleaf.proxy.config_file import parse_config
from interleaf.proxy.fan_out import FanOutResult
from interleaf.proxy.json_pointer import Pointer, find_value
from interleaf.proxy.opensearch import OpenSearchSearch
from interleaf.proxy.recorders import Running
from interleaf.proxy.search import Searches, ServedLists
from interleaf.proxy.search_requests import Incoming, RankerAnswer, decrease, find_unit, merge_patch
from interleaf.proxy.solr import SolrSearch
from interleaf.proxy.tokens import Signer
from tests.support.proxies import config_text

values = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)

# RFC 7396, appendix A: original, patch, result.
APPENDIX: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.fixture(scope="module")
def config() -> ProxyConfig:
    return parse_config(config_text("http://127.0.0.1:9200", Path("/tmp"), requests="depth = 8"), "proxy.toml")


@pytest.mark.parametrize(("original", "patch", "result"), APPENDIX)
def test_merge_patches_of_the_rfc(original: Any, patch: Any, result: Any) -> None:
    before = json.dumps([original, patch])
    assert merge_patch(original, patch) == result
    assert json.dumps([original, patch]) == before  # neither is changed


@given(values, values)
def test_a_merge_patch_applied_twice_changes_nothing_more(original: Any, patch: Any) -> None:
    once = merge_patch(original, patch)
    assert merge_patch(once, patch) == once


@given(st.lists(st.floats(-1e6, 1e6), max_size=50))
def test_scores_decrease_and_do_not_depend_on_what_follows(scores: list[float]) -> None:
    decreasing = decrease(scores)
    assert all(first is not None and second is not None and first > second for first, second in pairwise(decreasing))
    assert all(decrease(scores[:count]) == decreasing[:count] for count in range(len(scores)))
    assert all(new is not None and new <= old for new, old in zip(decreasing, scores, strict=True))


documents = st.permutations(range(14)).flatmap(lambda order: st.integers(0, 14).map(lambda count: order[:count]))


def page_of(config: ProxyConfig, old: list[str], new: list[str] | None, method: str, first: int, size: int) -> Any:
    """A page as the proxy composes it of the whole rankings of an engine."""
    incoming = Incoming(b"POST", "/products/_search", b"", [(b"content-type", b"application/json")], unit="u")
    incoming.plain = json.dumps({"from": first, "size": size}).encode()
    searches = Searches(config, lambda _: search, None, None, ServedLists(), Signer())  # type: ignore[arg-type]
    search = OpenSearchSearch(incoming, config.requests)
    settings = Experiment.of({"name": "shop", "rankers": ["production", "candidate"], "method": method})
    result = FanOutResult()
    for name, ranking in (("production", old), ("candidate", new)):
        if ranking is not None:
            asked = json.loads(searches._make_requests(search)[name].body)["size"]
            result.answers[name] = RankerAnswer(ranking[:asked], None, None, 0)
    try:
        return searches._mix(search, Running(settings, 1), incoming, result).documents
    except BypassError as problem:
        return problem.code.value


@given(
    documents,
    documents | st.none(),
    st.integers(1, 7),
    st.sampled_from(["competitive_pairs", "team_draft", "balanced", "probabilistic"]),
)
def test_pages_are_a_list_of_all_documents_of_the_control_without_repeats(
    config: ProxyConfig, old: list[int], new: list[int] | None, size: int, method: str
) -> None:
    control, candidate = ([f"d{one}" for one in some or []] for some in (old, new))
    pages = [
        page_of(config, control, None if new is None else candidate, method, first, size)
        for first in range(0, 40, size)
    ]
    if not control:
        assert pages[0] == "no_results"
        return
    shown = [name for page in pages if isinstance(page, list) for name in page]
    assert len(shown) == len(set(shown))
    missing = set(control) - set(shown)
    assert not missing
    assert set(shown) <= set(control) | set(candidate[:8])


@given(st.dictionaries(st.sampled_from(["from", "size", "sort", "aggs", "query", "ext", "pit", "explain"]), values))
def test_any_json_object_is_a_search_or_is_bypassed(config: ProxyConfig, body: dict[str, Any]) -> None:
    incoming = Incoming(b"POST", "/products/_search", b"", [(b"content-type", b"application/json")])
    incoming.plain = json.dumps(body).encode()
    try:
        search = OpenSearchSearch(incoming, config.requests)
    except BypassError:
        return
    requests = [search.request_of(ranker, 8, ranker.name == "production") for ranker in config.rankers]
    assert all(json.loads(request.body)["size"] == 8 for request in requests)
    combined = search.combine(requests)
    assert combined is not None
    assert combined.body.count(b"\n") == 4


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_as_parameters_are_a_search_or_are_bypassed(config: ProxyConfig, query: bytes, form: bytes) -> None:
    headers = [(b"content-type", b"application/x-www-form-urlencoded")]
    incoming = Incoming(b"POST", "/solr/a/select", query, headers)
    incoming.plain = form
    try:
        search = SolrSearch(incoming, config.requests)
    except BypassError:
        return
    assert b"\n" not in search.request_of(config.rankers[0], 8, True).target


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_header_and_cookie_give_a_unit_that_the_log_takes(
    config: ProxyConfig, header: bytes, cookie: bytes
) -> None:
    unit = find_unit(config.unit, [(b"x-user", header), (b"cookie", cookie)])
    assert unit.id
    assert len(unit.id) <= 250
    assert "\0" not in unit.id


@given(values, st.lists(st.text(max_size=3), min_size=1, max_size=3))
def test_json_pointers_find_what_was_put_there(value: Any, names: list[str]) -> None:
    data: Any = value
    for name in reversed(names):
        data = {name: data}
    text = "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
    assert find_value(data, Pointer.parse(text)) == value
