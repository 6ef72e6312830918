"""Live experiments: settings that are checked, traffic that is split, lists that stay the same."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import credit, interleave
from interleaf.errors import ExperimentError, RankingError
from interleaf.experiment import Experiment, Request, assign, extend_list, show
from interleaf.experiment.assignment import OUTSIDE, free_place
from interleaf.experiment.serving import build_whole_list
from interleaf.experiment.settings import ATTRIBUTIONS, CHOOSE, MODES, SETTINGS
from interleaf.interleaving.api import Interleaving
from interleaf.log.schema import FALLBACK, HOLDOUT, INTERLEAVED
from interleaf.methods.registry import methods

SHOES: dict[str, Any] = {"name": "shoes", "rankers": ["production", "candidate"], "k": 3}
OLD, NEW = list("abcdefgh"), list("hgfedcba")
RANKINGS = {"production": OLD, "candidate": NEW}


def shoes(**more: Any) -> Experiment:
    return Experiment.of(SHOES | more)


def asked(unit: str | None = "user-7", query: str = "trail", **more: Any) -> Request:
    return Request("i-1", unit, query, more.pop("rankings", RANKINGS), **more)


# Settings.


def test_what_is_left_out_has_a_default_and_what_is_said_comes_back() -> None:
    plain = Experiment.of({"name": "shoes", "rankers": ["production", "candidate"]})
    assert (plain.control, plain.k, plain.primary) == ("production", 10, "click")
    assert Experiment.of(plain.to_dict()) == plain
    assert set(plain.to_dict()) == set(SETTINGS)


@pytest.mark.parametrize(
    ("field", "value", "remedy"),
    [
        ("name", "", "1 to 100 characters"),
        ("name", "../etc/passwd", "letters, digits"),
        ("name", "a\nb", "letters, digits"),
        ("owner", "a\nb", "control characters"),
        ("rankers", ["one"], "2 to 1,000"),
        ("rankers", ["same", "same"], "each of them once"),
        ("rankers", "production", "give a list"),
        ("rankers", {"production", "candidate"}, "give a list"),
        ("rankers", ["production", ""], "'' is invalid; give a list of 2 to 1,000, each a text of 1 to 100"),
        ("control", "nobody", "'production' or 'candidate'"),
        ("method", "magic", "unknown method 'magic'"),
        ("method", "team_draft(fill=never)", "fair"),
        ("scheme", "lucky", "unknown scheme"),
        ("k", 0, "from 1 to 200"),
        ("k", True, "whole number"),
        ("k", 2.5, "whole number"),
        ("k", 10**400, "whole number"),
        ("share", 10**400, "from 0.0001 to 1"),
        ("share", float("inf"), "from 0.0001 to 1"),
        ("events", {"a=b": 1.0}, "command line"),
        ("share", 0, "from 0.0001 to 1"),
        ("holdout", 1.5, "from 0 to 0.9"),
        ("holdout", float("nan"), "from 0 to 0.9"),
        ("events", {}, "1 to 20 kinds"),
        ("events", {"click": "much"}, "number"),
        ("events", {"": 1.0}, "1 to 100 characters"),
        ("k", "\ud800", "whole number"),
        ("hypothesis", "a\x00", "control characters"),
        ("events", {"click": 0.0, "purchase": 0}, "other than 0"),
        ("events", {"weighted": 1.0, "click": 1.0}, "another"),
        ("primary", "purchase", "'click'"),
        ("attribution", "whoever", "same_impression"),
        ("mode", "fun", "compare"),
        ("window_minutes", -1, "from 0.01"),
        ("confidence", 1, "from 0.5"),
        ("bot_rate", 0, "from 1"),
        ("surprise", 1, "no such setting"),
        ("shar", 1, "did you mean 'share'?"),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_its_remedy(field: str, value: Any, remedy: str) -> None:
    with pytest.raises(ExperimentError, match=remedy) as error:
        shoes(**{field: value})
    assert error.value.field == field


VALUES: dict[str, Any] = {"events": {"click": 1.0, "purchase": 5.0}, "values": ["purchase"]}


@pytest.mark.parametrize(
    ("settings", "field", "remedy"),
    [
        ({"value_cap": 100.0}, "value_cap", "name the kinds of events with a value"),
        ({"value_margin": 1.0}, "value_margin", "name the kinds of events with a value"),
        (
            {**VALUES, "primary": "value of purchase", "stop_when": ["alike"]},
            "value_margin",
            "'alike' needs a margin of 'value of purchase'; give value_margin",
        ),
        ({"margin": 1}, "margin", "'binary' a preference is at most 1, so all rankers would be alike; give a number"),
        ({"margin": 5.0, "stop_when": ["alike"]}, "margin", "below 1, such as 0.01"),
        ({"margin": 1.0, "mode": "aa"}, "margin", "'binary' a preference is at most 1"),
        ({"margin": 1.0, "mode": "choose", "rankers": ["a", "b", "c"]}, "margin", "a preference is at most 1"),
        ({"epoch_minutes": 5}, "epoch_minutes", "for the purpose .mode. 'choose', the best of many"),
        ({"mode": "one_list", "planned_days": 5}, "planned_days", "give that one, or leave this out"),
        ({"planned_units": 1}, "planned_units", "there are 2 rankers; plan for many more units"),
        ({"rankers": [f"r{n}" for n in range(50)], "planned_units": 49}, "planned_units", "there are 50 rankers"),
    ],
)
def test_settings_without_an_effect_are_refused(settings: dict[str, Any], field: str, remedy: str) -> None:
    with pytest.raises(ExperimentError, match=remedy) as error:
        shoes(**settings)
    assert error.value.field == field


def test_settings_with_an_effect_are_taken() -> None:
    value = {**VALUES, "primary": "value of purchase", "stop_when": ["alike"], "value_margin": 1.0, "value_cap": 9.0}
    assert shoes(**value).value_margin == 1.0
    assert shoes(**VALUES, stop_when=["alike"]).value_margin is None  # the primary metric is not of values
    for more in ({"scheme": "click"}, {"mode": "one_list"}):  # these scores have any size
        assert shoes(margin=5.0, **more).margin == 5.0
    assert shoes(margin=0.99, planned_units=2).planned_units == 2


@pytest.mark.parametrize("missing", ["name", "rankers"])
def test_name_and_rankers_may_not_be_left_out(missing: str) -> None:
    with pytest.raises(ExperimentError, match="it is required"):
        Experiment.of({name: value for name, value in SHOES.items() if name != missing})


@pytest.mark.parametrize("data", [None, [], "shoes", 7])
def test_settings_are_an_object(data: Any) -> None:
    with pytest.raises(ExperimentError, match="give an object"):
        Experiment.of(data)


@given(st.dictionaries(st.sampled_from(sorted(SETTINGS)), st.none() | st.integers() | st.text() | st.lists(st.text())))
def test_whatever_is_given_is_an_experiment_or_an_error_with_its_field(data: dict[str, Any]) -> None:
    try:
        found = Experiment.of(SHOES | data)
    except ExperimentError as error:
        found = None
        field = error.field
    assert field if found is None else Experiment.of(found.to_dict()) == found


@pytest.mark.parametrize("field", sorted(SETTINGS))
def test_arrays_and_deeply_nested_data_are_refused(field: str) -> None:
    nested: Any = 1
    for _ in range(800):
        nested = {"a": nested}
    for value in (nested, {"click": nested}, np.array(["a", "b"])):
        with pytest.raises(ExperimentError) as error:
            Experiment.of(SHOES | {field: value})
        assert error.value.field == field


def test_every_choice_of_mode_and_attribution_is_taken() -> None:
    for mode in MODES:
        three = {"rankers": ["production", "candidate", "other"]} if mode == CHOOSE else {}
        assert shoes(mode=mode, **three).mode == mode
    for attribution in ATTRIBUTIONS:
        assert shoes(attribution=attribution).attribution == attribution


def test_an_a_a_of_a_method_that_scores_no_ownership_is_relabelled() -> None:
    with pytest.raises(ExperimentError, match="aa_relabelled"):
        shoes(method="pairwise_preference", mode="aa")


def test_one_list_per_unit_mixes_nothing_and_counts_clicks() -> None:
    experiment = shoes(mode="one_list")
    assert (experiment.method, experiment.scheme_of("click"), experiment.needed_rankers) == (
        "one_list",
        None,
        experiment.rankers,
    )
    assert Experiment.of(experiment.to_dict()) == experiment
    assert shoes(mode="one_list", rankers=["one", "two", "three"]).method == "one_list"
    wrong: dict[str, dict[str, Any]] = {
        "mode": {"method": "one_list"},
        "method": {"mode": "one_list", "method": "probabilistic"},
        "scheme": {"mode": "one_list", "scheme": "click"},
        "rankers": {"mode": "one_list", "rankers": ["production", "holdout"]},
    }
    for field, data in wrong.items():
        with pytest.raises(ExperimentError, match="one_list") as error:
            shoes(**data)
        assert error.value.field == field


# Traffic.


def test_shares_of_units_are_as_asked_and_do_not_depend_on_each_other() -> None:
    experiment = shoes(share=0.5, holdout=0.2)
    arms = Counter(assign(experiment, f"user-{number}") for number in range(20_000))
    assert abs(arms[OUTSIDE] - 10_000) < 5 * 71  # five standard deviations
    assert abs(arms[HOLDOUT] - 2_000) < 5 * 43
    assert arms[INTERLEAVED] == 20_000 - arms[OUTSIDE] - arms[HOLDOUT]


def test_experiments_of_one_lane_never_share_a_unit() -> None:
    first = shoes(lane="search", share=0.3)
    second = shoes(name="boots", lane="search", share=0.7)
    second = Experiment.of(second.to_dict() | {"offset": free_place(second, [first])})
    assert second.offset == 0.3
    for number in range(2000):
        places = [assign(experiment, f"user-{number}") != OUTSIDE for experiment in (first, second)]
        assert sum(places) == 1


def test_a_lane_without_room_says_who_is_there() -> None:
    with pytest.raises(ExperimentError, match="next to shoes"):
        free_place(shoes(name="boots", lane="search", share=0.5), [shoes(lane="search", share=0.6)])
    with pytest.raises(ExperimentError, match=r"'shoes' has 0 to 0\.6"):
        free_place(shoes(name="boots", lane="search", share=0.3, offset=0.5), [shoes(lane="search", share=0.6)])
    assert free_place(shoes(name="boots", lane="ads", share=0.5), [shoes(lane="search", share=0.6)]) == 0


def test_without_a_lane_everybody_has_all_of_the_room() -> None:
    assert free_place(shoes(name="boots"), [shoes()]) == 0


# Lists.


@pytest.mark.parametrize("method", [row.name for row in methods() if row.schemes])
def test_the_list_is_that_of_the_documented_key(method: str) -> None:
    """(experiment, version, unit, query), as anybody can compose it who knows them."""
    shown = show(shoes(method=method), 4, asked())
    expected = interleave(RANKINGS, method, 3, key=("shoes", 4, "user-7", "trail"))
    assert shown.row is not None
    assert shown.arm == INTERLEAVED
    assert shown.documents == list(expected.documents)
    assert Interleaving.from_dict(shown.row) == expected


@pytest.mark.parametrize("method", [row.name for row in methods() if row.schemes and not row.depends_on_k])
def test_a_second_page_goes_on_in_the_same_list(method: str) -> None:
    experiment = shoes(method=method)
    first = show(experiment, 1, asked(query="trail shoes"))
    assert first.row is not None
    second = extend_list(first.row, 2)
    assert second.row is not None
    assert second.row["documents"] == first.documents + second.documents
    assert second.row["page"] == 2
    assert extend_list(second.row, 1).documents == first.documents
    assert extend_list(second.row, 2).documents == second.documents
    assert show(experiment, 1, asked(query="trail shoes", page=2)).documents == second.documents
    assert second.row["ranks"] == interleave(RANKINGS, method, 6, key=first.row["key"]).ranks.tolist()


def test_optimized_is_refused_a_second_page() -> None:
    row = show(shoes(method="optimized"), 1, asked(query="running")).row
    assert row is not None
    with pytest.raises(ExperimentError, match="larger k"):
        extend_list(row, 2)


@pytest.mark.parametrize("lost", ["candidate", "production"])
@pytest.mark.parametrize("how", [None, "left out"])
def test_a_ranking_that_is_missing_makes_a_fallback(lost: str, how: Any) -> None:
    rankings: dict[str, Any] = {name: ranking for name, ranking in RANKINGS.items() if name != lost}
    shown = show(shoes(), 1, asked(rankings=rankings if how == "left out" else rankings | {lost: how}))
    left = next(name for name in RANKINGS if name != lost)
    assert shown.arm == FALLBACK
    assert shown.documents == RANKINGS[left][:3]
    assert shown.row is not None
    assert shown.row["fallback_reason"] == f"no ranking of {lost}"
    assert shown.row["method"] == f"single(ranker={left})"


@pytest.mark.parametrize("rankings", [{}, {"production": None}, {"production": None, "candidate": None}])
def test_where_every_ranker_failed_nothing_is_logged(rankings: dict[str, Any]) -> None:
    shown = show(shoes(), 1, asked(rankings=rankings))
    assert (shown.documents, shown.row) == ([], None)


MIXING = [one for one in methods() if one.schemes]


@pytest.mark.parametrize("method", MIXING, ids=lambda method: method.name)
@pytest.mark.parametrize(("old", "new"), [([], NEW), (OLD, []), ([], [])])
def test_a_ranker_that_found_nothing_has_answered(method: Any, old: list[str], new: list[str]) -> None:
    experiment, found = shoes(method=method.name, holdout=0.3), set[str]()
    for number in range(20):
        request = asked(f"user-{number}", rankings={"production": old, "candidate": new})
        shown = show(experiment, 1, request)
        found.add(shown.arm)
        assert shown.row is not None
        assert (shown.row["arm"], shown.row["fallback_reason"]) == (shown.arm, None)
        assert shown.row["documents"] == shown.documents
        assert [len(ranks) for ranks in shown.row["ranks"]] == [len(shown.documents)] * 2
        if shown.arm == HOLDOUT:
            assert shown.documents == old[:3]
        else:
            assert len(shown.documents) == 3 * any((old, new))
            assert set(shown.documents) <= {*old, *new}
    assert found == {INTERLEAVED, HOLDOUT}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != CHOOSE])
def test_further_pages_of_an_empty_list_are_empty(mode: str) -> None:
    shown = show(shoes(mode=mode), 1, asked(rankings={"production": [], "candidate": []}, fixed={1: "ad"}))
    assert shown.documents == ["ad"]
    assert shown.row is not None
    second = extend_list(shown.row, 2)
    assert (second.documents, second.row) == ([], {**shown.row, "page": 2})


def test_a_unit_keeps_the_empty_list_of_its_ranker() -> None:
    experiment, arms = shoes(mode="one_list"), set[str]()
    empty: list[dict[str, list[str]]] = [{"production": []}, {"candidate": []}, {"production": [], "candidate": []}]
    for number in range(20):
        arm = show(experiment, 1, asked(f"user-{number}")).arm
        for rankings in (RANKINGS | one for one in empty):
            shown = show(experiment, 1, asked(f"user-{number}", rankings=rankings))
            assert (shown.arm, shown.documents) == (arm, rankings[arm][:3])
            assert shown.row is not None
            assert (shown.row["arm"], shown.row["method"]) == (arm, "one_list")
        arms.add(arm)
    assert arms == set(RANKINGS)


@pytest.mark.parametrize("method", ["team_draft(fill=stop)", "balanced(fill=False)"])
@pytest.mark.parametrize("rankings", [{"candidate": []}, {"production": []}, {"production": [], "candidate": []}])
def test_where_one_empty_ranking_would_empty_the_list_it_is_a_fallback(method: str, rankings: dict[str, Any]) -> None:
    for number in range(20):
        request = asked(f"user-{number}", rankings=RANKINGS | rankings)
        shown = show(shoes(method=method, holdout=0.3), 1, request)
        assert (shown.arm, shown.documents) == (FALLBACK, rankings.get("production", OLD)[:3])


def test_outside_and_in_a_fallback_the_empty_list_of_the_control_stays() -> None:
    rankings = {"production": [], "candidate": NEW, "third": None}
    names = ["production", "candidate", "third"]
    assert show(shoes(rankers=names), 1, asked(rankings=rankings)).documents == []
    assert show(shoes(rankers=names, control="third"), 1, asked(rankings=rankings)).documents == NEW[:3]
    unit = next(f"user-{n}" for n in range(1000) if assign(shoes(share=0.001), f"user-{n}") == OUTSIDE)
    outside = show(shoes(share=0.001), 1, asked(unit, rankings=RANKINGS | {"production": []}))
    assert (outside.documents, outside.arm, outside.row) == ([], OUTSIDE, None)


def test_a_ranker_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ExperimentError, match="'production' or 'candidate'"):
        show(shoes(), 1, asked(rankings=RANKINGS | {"stranger": ["a"]}))


def test_a_document_that_is_ranked_twice_is_refused() -> None:
    with pytest.raises(RankingError, match="twice"):
        show(shoes(), 1, asked(rankings=RANKINGS | {"candidate": ["a", "a"]}))


def test_who_is_outside_sees_the_control_and_is_not_logged() -> None:
    experiment = shoes(share=0.001)
    unit = next(f"user-{n}" for n in range(1000) if assign(experiment, f"user-{n}") == OUTSIDE)
    shown = show(experiment, 1, asked(unit))
    assert (shown.documents, shown.arm, shown.row) == (OLD[:3], OUTSIDE, None)


def test_who_is_held_out_sees_the_control_and_is_logged() -> None:
    experiment = shoes(holdout=0.5, control="candidate")
    unit = next(f"user-{n}" for n in range(1000) if assign(experiment, f"user-{n}") == HOLDOUT)
    shown = show(experiment, 1, asked(unit))
    assert (shown.documents, shown.arm) == (NEW[:3], HOLDOUT)
    assert shown.row is not None
    assert shown.row["method"] == "single(ranker=candidate)"


def test_fixed_documents_stand_where_they_are_and_belong_to_nobody() -> None:
    shown = show(shoes(), 1, asked(fixed={1: "ad", 3: "h"}))
    assert shown.documents[0] == "ad"
    assert shown.documents[2] == "h"
    assert shown.row is not None
    assert shown.row["documents"] == [shown.documents[1]]
    assert "h" not in shown.row["rankings"][1]
    assert build_whole_list(shown.row) == shown.documents
    further = extend_list(shown.row, 2)
    assert "ad" not in further.documents
    assert "h" not in further.documents
    assert len(further.documents) == 3


def test_a_fixed_document_has_one_place() -> None:
    with pytest.raises(ExperimentError, match="one rank"):
        show(shoes(), 1, asked(fixed={1: "ad", 2: "ad"}))


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != CHOOSE])
@pytest.mark.parametrize("lost", ["production", "candidate"])
def test_whatever_is_on_trial_a_missing_ranking_leaves_no_page_empty(mode: str, lost: str) -> None:
    rankings = {name: ranking for name, ranking in RANKINGS.items() if name != lost}
    ((left, ranking),) = rankings.items()
    for number in range(20):
        shown = show(shoes(mode=mode), 1, asked(f"user-{number}", rankings=rankings))
        if mode in ("aa", "known_loser") and lost == "candidate":
            assert shown.arm == INTERLEAVED
            continue
        assert (shown.arm, shown.documents) == (FALLBACK, ranking[:3])
        assert shown.row is not None
        assert shown.row["method"] == f"single(ranker={left})"


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != CHOOSE])
def test_who_is_held_out_sees_the_control_whatever_is_on_trial(mode: str) -> None:
    experiment = shoes(mode=mode, holdout=0.9)
    for number in range(40):
        shown = show(experiment, 1, asked(f"user-{number}"))
        if shown.arm == HOLDOUT:
            assert shown.documents == OLD[:3]


def test_where_every_slot_is_fixed_nothing_is_mixed_or_logged() -> None:
    shown = show(shoes(), 1, asked(fixed={1: "x", 2: "y", 3: "z", 4: "w"}))
    assert (shown.documents, shown.row) == (["x", "y", "z"], None)


# Modes that put the set-up on trial.


def test_an_a_a_mixes_the_control_with_itself() -> None:
    row = show(shoes(mode="aa"), 1, asked()).row
    assert row is not None
    assert row["rankings"] == [OLD, OLD]
    assert shoes(mode="aa").scheme_of("click") == "binary"
    assert shoes(mode="aa").method == "team_draft"  # the default would give no document an owner
    with pytest.raises(ExperimentError, match="identical rankings always tie; give 'aa_relabelled', or method"):
        shoes(mode="aa", method="competitive_pairs")


def test_a_relabelled_a_a_swaps_names_for_half_of_the_units_and_always_the_same() -> None:
    experiment = shoes(mode="aa_relabelled")
    firsts = []
    for number in range(400):
        rows = [show(experiment, 1, asked(f"user-{number}", query)).row for query in ("one", "two")]
        assert rows[0] is not None
        assert rows[1] is not None
        assert rows[0]["rankings"] == rows[1]["rankings"]
        firsts.append(rows[0]["rankings"][0] == OLD)
    assert abs(sum(firsts) - 200) < 5 * 10


@pytest.mark.parametrize("query", ["relabelled", "trail"])
def test_the_relabelling_coin_is_independent_of_the_list_of_every_query(query: str) -> None:
    both = Counter[tuple[bool, int]]()
    for number in range(400):
        row = show(shoes(mode="aa_relabelled"), 1, asked(f"user-{number}", query)).row
        assert row is not None
        both[row["rankings"][0] == OLD, row["teams"][0]] += 1
    assert len(both) == 4
    assert all(abs(count - 100) < 5 * 9 for count in both.values()), both


def test_a_known_loser_is_the_control_upside_down() -> None:
    row = show(shoes(mode="known_loser"), 1, asked()).row
    assert row is not None
    assert row["rankings"] == [OLD, [*"cba", *"defgh"]]


def test_of_a_known_loser_only_the_control_is_needed() -> None:
    assert show(shoes(mode="known_loser"), 1, asked(rankings={"production": OLD})).arm == INTERLEAVED


def arm_of_unit(experiment: Experiment, unit: str, query: str = "trail", version: int = 1) -> str:
    shown = show(experiment, version, asked(unit, query))
    assert shown.row is not None
    assert shown.documents == RANKINGS[shown.arm][:3]
    assert shown.row["rankings"] == [OLD, NEW]
    assert shown.row["arm"] == shown.arm == experiment.rankers[shown.row["teams"][0]]
    return shown.arm


def test_with_one_list_per_unit_a_fair_coin_of_the_unit_decides_for_all_queries() -> None:
    experiment = shoes(mode="one_list")
    arms = Counter[str]()
    for number in range(1000):
        unit = f"user-{number}"
        arm = arm_of_unit(experiment, unit)
        assert arm_of_unit(experiment, unit, "another") == arm_of_unit(experiment, unit, "") == arm
        arms[arm] += 1
    assert abs(arms["candidate"] - 500) < 5 * 16


def test_another_version_or_experiment_tosses_another_coin() -> None:
    units = [f"user-{number}" for number in range(400)]
    coins = [
        [arm_of_unit(experiment, unit, version=version) == "candidate" for unit in units]
        for experiment, version in ((shoes(mode="one_list"), 1), (shoes(mode="one_list"), 2))
    ]
    coins.append([arm_of_unit(shoes(mode="one_list", name="boots"), unit) == "candidate" for unit in units])
    for one, other in ((0, 1), (0, 2), (1, 2)):
        same = sum(a == b for a, b in zip(coins[one], coins[other], strict=True))
        assert abs(same - 200) < 5 * 10


def test_with_one_list_per_unit_of_several_rankers_each_is_equally_likely() -> None:
    rankings = {"one": list("abcd"), "two": list("bcda"), "three": list("cdab")}
    experiment = shoes(mode="one_list", rankers=list(rankings))
    arms = Counter(show(experiment, 1, asked(f"user-{n}", rankings=rankings)).arm for n in range(900))
    assert set(arms) == set(rankings)
    assert all(abs(number - 300) < 5 * 14.2 for number in arms.values()), arms


def test_with_one_list_per_unit_further_pages_are_of_the_same_ranker() -> None:
    experiment = shoes(mode="one_list")
    for number in range(10):
        first = show(experiment, 1, asked(f"user-{number}", fixed={2: "ad"}))
        assert first.row is not None
        second = extend_list(first.row, 2)
        expected = [*RANKINGS[first.arm][:1], "ad", *RANKINGS[first.arm][1:5]]
        assert first.documents + second.documents == expected
        assert second.arm == first.arm


@given(st.integers(1, 5), st.integers(1, 4), st.sets(st.integers(1, 12), max_size=4))
def test_pages_are_cut_from_one_list_whatever_stands_fixed(k: int, pages: int, ranks: set[int]) -> None:
    fixed = {rank: f"fixed {rank}" for rank in ranks}
    experiment = shoes(k=k)
    whole: list[str] = []
    for page in range(1, pages + 1):
        whole += show(experiment, 1, asked(page=page, fixed=fixed)).documents
    assert len(set(whole)) == len(whole)
    for rank, document in fixed.items():
        if rank <= len(whole):
            assert whole[rank - 1] == document
    organic = [document for document in whole if document not in fixed.values()]
    expected = interleave(RANKINGS, experiment.method, len(OLD), key=("shoes", 1, "user-7", "trail")).documents
    assert tuple(organic) == expected[: len(organic)]


def test_clicks_on_the_logged_row_are_credited_as_ever() -> None:
    row = show(shoes(), 1, asked()).row
    assert row is not None
    outcome = credit(Interleaving.from_dict(row), [1])
    assert set(outcome.credit) == {"production", "candidate"}
