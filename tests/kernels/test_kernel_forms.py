"""One kernel, many forms: compiled and plain, single and in batches, drawn and enumerated, all give the same."""

import json
import os
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chisquare

from interleaf import Interleaving, credit, interleave
from interleaf.audit import distribution
from interleaf.interleaving import batch
from interleaf.interleaving.kernel_calls import Composing
from interleaf.interleaving.rankings import CheckedRankings
from interleaf.kernels import jit
from interleaf.kernels.arrays import Array, DrawnLists, EncodedRankings, Impression
from interleaf.kernels.jit import plain
from interleaf.kernels.randomness import Keyed, bytes_of, key_of
from interleaf.methods import loops
from interleaf.methods.registry import ResolvedMethod, resolve
from interleaf.methods.schemes import Scheme
from tests.support.paths import ROOT, VECTORS
from tests.support.worlds import COMPARING, EVERY_SPEC, TAUS, World, spec_and_world, specs_of, world

ROWS = json.loads((VECTORS / "lists.json").read_text(encoding="utf-8"))
FALSE_ALARM = 1e-6
SINGLE = ("single", "single(ranker=B)")
BATCH = {
    2: [world(text, 1).rankings for text in ("abcd bcda", "abcde abxyz", "ab cdefgh", "abcd ca", "- ab", "a a")],
    3: [world(text, 1).rankings for text in ("abc bca cab", "abcdef abxy z", "ab - cdefg", "a a a")],
}


def frozen(part: Any) -> Any:
    """JSON has no tuples."""
    return tuple(map(frozen, part)) if isinstance(part, list) else part


def lists_of_vectors() -> list[Any]:
    """The lists that the vectors ask for, as they come out now; also run where the compiler is off."""
    shown = [interleave(row["rankings"], row["method"], row["k"], frozen(row["key"])) for row in ROWS]
    return [[list(one.documents), None if one.teams is None else list(one.teams)] for one in shown]


PINNED = [[row["documents"], row["teams"]] for row in ROWS]


def test_lists_are_what_they_have_always_been() -> None:
    """These vectors never change: a list must come out again from its logged key, in every later version."""
    assert lists_of_vectors() == PINNED


def test_lists_are_the_same_where_nothing_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "is_compiled", lambda function: False)
    assert lists_of_vectors() == PINNED


def test_lists_are_the_same_where_the_compiler_is_switched_off() -> None:
    program = "import json; from tests.kernels.test_kernel_forms import *; print(json.dumps(lists_of_vectors()))"
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == PINNED


@pytest.mark.parametrize("name", COMPARING)
@given(data=st.data())
def test_compiled_and_plain_kernels_compose_the_same_lists(name: str, data: st.DataObject) -> None:
    spec, small = data.draw(spec_and_world(specs_of(name, TAUS), max_documents=6))
    key = key_of(data.draw(st.integers()))
    chosen = resolve(spec)
    work = Composing(chosen, CheckedRankings.of(small.rankings, chosen), small.k, exact=False)
    interpreted = work.run(plain(chosen.method.kernels.compose), Keyed(key))
    served = interleave(small.rankings, spec, small.k, key)
    assert (served.documents, served.teams) == interpreted[:2]


class Queries(NamedTuple):
    """Several queries stacked for a batch; `names[query]` are their documents by number."""

    names: list[list[Any]]
    given: EncodedRankings
    settings: Any


def stacked(chosen: ResolvedMethod, worlds: list[World]) -> Queries:
    works = [Composing(chosen, CheckedRankings.of(small.rankings, chosen), small.k, exact=False) for small in worlds]
    rankers, widest = len(worlds[0].rankings), max(work.encoded.rankings.shape[1] for work in works)
    rankings = np.full((len(works), rankers, widest), -1, np.int32)
    for query, work in enumerate(works):
        rankings[query, :, : work.encoded.rankings.shape[1]] = work.encoded.rankings
    depths = np.array([work.encoded.depths for work in works])
    documents = np.array([work.encoded.documents for work in works], np.int64)
    given, kernels = EncodedRankings(rankings, depths, documents), chosen.method.kernels
    if kernels.prepare_batch is not None:
        ranks = np.zeros((len(works), rankers, documents.max()), np.int32)
        for query, (small, work) in enumerate(zip(worlds, works, strict=True)):
            problem = CheckedRankings.of(small.rankings, chosen)
            ranks[query, :, : work.encoded.documents] = problem.ranks_or_next(work.names)
        settings = kernels.prepare_batch(given, ranks, np.arange(len(works)), worlds[0].k, chosen.parameters)
    elif kernels.prepare is not None:
        settings = works[0].settings
    else:
        longest = max(len(ranking) for small in worlds for ranking in small.rankings)
        settings = kernels.settings((longest,), chosen.parameters, False)
    return Queries([work.names for work in works], given, settings)


def words_of(names: list[str]) -> Array:
    return np.array([np.frombuffer(bytes_of(name), "<u8") for name in names])


def compose_batch(
    chosen: ResolvedMethod, queries: Queries, query_of: Array, keys: Array, k: int
) -> list[tuple[Any, Any]]:
    """The documents and teams of each row, from one call of the batch loop."""
    rows = len(query_of)
    lists = DrawnLists(np.full((rows, k), -1, np.int32), np.full((rows, k), -1, np.int8), np.zeros(rows, np.int64))
    chosen.method.kernels.compose_batch(queries.given, query_of, keys, k, lists, queries.settings)
    composed = []
    for query, numbers, owners, count in zip(query_of, *(array.tolist() for array in lists), strict=True):
        documents = tuple([queries.names[query][number] for number in numbers[:count]])
        composed.append((documents, tuple(owners[:count]) if chosen.method.has_teams else None))
    return composed


@pytest.mark.parametrize("spec", [*EVERY_SPEC, *SINGLE])
def test_a_batch_composes_each_row_as_alone(spec: str) -> None:
    chosen = resolve(spec)
    for rankers in BATCH if chosen.rankers[1] is None else (2,):
        for k in (2, 4, 9):
            worlds = [World(rankings, k) for rankings in BATCH[rankers]]
            queries = stacked(chosen, worlds)
            query_of = np.arange(30) % len(worlds)
            keys = [key_of(("row", row)) for row in range(30)]
            composed = compose_batch(chosen, queries, query_of, words_of(keys), k)
            for query, key, row in zip(query_of, keys, composed, strict=True):
                alone = interleave(worlds[query].rankings, spec, k, key)
                assert row == (alone.documents, alone.teams)


def impressions_of(shown: list[Interleaving]) -> tuple[Impression, Array]:
    """Several shown lists stacked, the shorter ones padded, and how long each is."""
    counts = np.array([len(one.documents) for one in shown])
    singles = [one.impression() for one in shown]
    ranks = np.zeros((len(shown), len(shown[0].rankers), counts.max()), np.int32)
    teams, choices = np.full((len(shown), counts.max()), -1, np.int8), np.zeros((len(shown), counts.max()), np.int32)
    for row, (single, count) in enumerate(zip(singles, counts, strict=True)):
        ranks[row, :, :count], teams[row, :count], choices[row, :count] = single.ranks, single.teams, single.choices
    lengths = np.array([single.lengths for single in singles])
    width = max(single.unshown_ranks.shape[1] for single in singles)
    unshown = np.zeros((*ranks.shape[:2], width), np.int32)
    for row, single in enumerate(singles):
        unshown[row, :, : single.unshown_ranks.shape[1]] = single.unshown_ranks
    known = ranks, teams, lengths, np.array([single.union for single in singles]), choices, unshown
    return Impression.of(*known, np.array([single.words for single in singles])), counts


def credit_batch(
    chosen: ResolvedMethod, scheme: Scheme, impressions: Impression, counts: Array, clicks: Array
) -> tuple[Array, Array]:
    """The credit and the preferences of each row, from one call of each batch loop."""
    rows, rankers, _ = impressions.ranks.shape
    credits, credited, kernels = np.zeros((rows, rankers)), np.zeros(rows, np.int64), chosen.method.kernels
    settings = kernels.settings((int(impressions.lengths.max()),), chosen.parameters, False)
    loop = loops.credit_batch(kernels.credit_of(scheme.variant))
    loop(impressions, counts, clicks, scheme.variant, credits, credited, settings)
    if scheme.form.divides:
        credits /= np.maximum(credited, 1)[:, None]
    return credits, batch.preferences(chosen, scheme, impressions, counts, clicks)


@pytest.mark.parametrize("spec", EVERY_SPEC)
def test_a_batch_credits_each_row_as_alone(spec: str) -> None:
    chosen = resolve(spec)
    for rankers in BATCH if chosen.rankers[1] is None else (2,):
        worlds = BATCH[rankers]
        shown = [interleave(worlds[row % len(worlds)], spec, 1 + row % 7, ("row", row)) for row in range(40)]
        shown = [one for one in shown if one.documents]
        impressions, counts = impressions_of(shown)
        clicks = np.random.default_rng(5).random((len(shown), counts.max())) < 0.4
        for name in chosen.method.schemes_for(rankers):
            credits, preferences = credit_batch(chosen, chosen.scheme(name, rankers), impressions, counts, clicks)
            for row, one in enumerate(shown):
                alone = credit(one, np.flatnonzero(clicks[row, : counts[row]]) + 1, name)
                assert credits[row].tolist() == list(alone.credit.values()), (row, name)
                assert preferences[row].tolist() == alone.preference.tolist(), (row, name)


def expected_lists(chosen: ResolvedMethod, small: World) -> dict[Any, Fraction]:
    if chosen.method.name != "optimized":
        return dict(distribution(small.rankings, chosen.text, small.k))
    settings = Composing(chosen, CheckedRankings.of(small.rankings, chosen), small.k, exact=False)
    rows = settings.settings.lists.tolist()
    lists = [tuple(settings.names[number] for number in row) for row in rows]
    return {(shown, None): Fraction(p) for shown, p in zip(lists, settings.settings.weights.tolist(), strict=True)}


@pytest.mark.parametrize("small", [world("abcd bcda", 3), world("abc ca", 3)], ids=["shifted", "short"])
@pytest.mark.parametrize("spec", EVERY_SPEC)
def test_lists_are_drawn_as_often_as_enumerated(spec: str, small: World) -> None:
    """A chi-square test on seeded draws; a false alarm has a chance of one in a million."""
    chosen, rows = resolve(spec), 20_000
    queries = stacked(chosen, [small])
    keys = np.random.default_rng(11).integers(0, 2**64, (rows, 2), np.uint64)
    drawn = Counter(compose_batch(chosen, queries, np.zeros(rows, np.int64), keys, small.k))
    expected = {outcome: float(p) * rows for outcome, p in expected_lists(chosen, small).items()}
    assert drawn.keys() <= expected.keys()
    common = [outcome for outcome, count in expected.items() if count >= 5]
    observed = [drawn[outcome] for outcome in common] + [rows - sum(drawn[outcome] for outcome in common)]
    wanted = [expected[outcome] for outcome in common] + [rows - sum(expected[outcome] for outcome in common)]
    if wanted[-1] < 1e-6:
        assert observed.pop() == 0
        wanted.pop()
    assert len(wanted) == 1 or chisquare(observed, np.array(wanted) * rows / sum(wanted)).pvalue > FALSE_ALARM
