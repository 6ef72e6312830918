"""Scores of a whole log are those of `credit`, impression by impression: every method, scheme and way to count."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import DataError, MethodError, SchemeError, credit, methods
from interleaf.analysis.analyze import tally_log
from interleaf.decode import Counting, Decoding
from interleaf.decode.scoring import Scored, Scoring, score
from interleaf.methods.registry import METHODS, resolve
from tests.oracles.logs import Rules, counted_events, score_of, shown_of
from tests.support.log_rows import Row, made_event, made_row, made_rows, table_of

EVERY = [
    (row.name, scheme, rankers)
    for row in methods()
    for rankers in (2, 3)
    if rankers <= (row.rankers[1] or 3)
    for scheme in row.schemes_for(rankers)
]
SPECS = (
    "balanced(fill=False, depth=clicked)",
    "document_constraint(constraints=3)",
    "team_draft(fill=owned)",
    "team_draft(prefix=True)",
    "probabilistic(tau=1)",
    "optimized(credit=linear)",
    "sample_scored_only(tau=1)",
    "pairwise_preference(pairs=per_click)",
)


def scored(rows: list[Row], rules: Rules, table: Any = None) -> Scored:
    """All rows of one design, scored."""
    (batch,) = (table_of(rows) if table is None else table).to_batches()
    counting = Counting(rules.events, rules.dwell, rules.first, rules.window)
    (decoded,) = Decoding(batch, counting)
    return score(decoded, Scoring(rules.scheme, rules.method, counting))


def check(rows: list[Row], rules: Rules, table: Any = None) -> Scored:
    """Every score, whatever the form of its column, is that of the plain computation."""
    found = scored(rows, rules, table)
    for place, number in enumerate(found.decoded.rows.tolist()):
        truth = score_of(rows[number], rules)
        columns = found.columns[place].tolist()
        pairs = list(combinations(range(len(truth.credit)), 2))
        if found.linear:
            columns = [columns[one] - columns[other] for one, other in pairs]
        assert columns == [truth.pairs[pair] for pair in pairs]
        assert found.decoded.has_event[place] == truth.clicked
    return found


@pytest.mark.parametrize(("method", "scheme", "rankers"), EVERY)
def test_every_scheme_of_every_method_scores_as_credit_does(method: str, scheme: str, rankers: int) -> None:
    rows = made_rows(25, method, of=rankers)
    found = check(rows, Rules(scheme))
    assert len(found.decoded.rows) == 25
    for place, row in enumerate(rows):  # and directly, without the oracle in between
        outcome = credit(shown_of(row), [event["rank"] for event in row["events"]], scheme)
        if found.linear:
            assert found.columns[place].tolist() == pytest.approx(list(outcome.credit.values()), rel=1e-15, abs=0)
        else:
            assert found.columns[place].tolist() == outcome.preference[np.triu_indices(rankers, 1)].tolist()


@pytest.mark.parametrize("spec", SPECS)
def test_parameters_of_a_method_reach_its_credit(spec: str) -> None:
    check(made_rows(20, spec), Rules())


@pytest.mark.parametrize("composed", ["team_draft", "probabilistic", "pairwise_preference", "balanced", "optimized"])
def test_a_log_is_scored_again_by_every_method_whose_needs_it_holds(composed: str) -> None:
    rows = made_rows(20, composed)
    for name, method in METHODS.items():
        if not method.schemes or ("teams" in method.needs and not METHODS[composed].has_teams):
            continue
        table = table_of([row | {"choices": None} for row in rows])  # they follow from the rankings
        found = check(rows, Rules(method=name), table)
        assert len(found.decoded.rows) == 20, name


def test_a_log_without_teams_cannot_be_scored_by_them() -> None:
    found = scored(made_rows(10, "balanced"), Rules(method="team_draft"))
    assert len(found.decoded.rows) == 0
    assert found.decoded.dropped == {"no_teams": 10}


@pytest.mark.parametrize("method", [row.name for row in methods() if row.schemes])
def test_columns_that_a_method_does_not_need_may_be_missing(method: str) -> None:
    """Without them the scores are the same to the last digit, for every scheme."""
    rows = made_rows(40, method)
    needs = {"lengths": ("lengths", "union"), "union": ("lengths", "union")}
    kept = {name for need in METHODS[method].needs for name in needs.get(need, (need,))}
    dropped = [name for name in ("lengths", "union", "teams", "choices", "rankings") if name not in kept]
    for scheme in METHODS[method].schemes:
        check(rows, Rules(scheme), table_of(rows).drop(dropped))


@pytest.mark.parametrize("scheme", ["binary", "click", "normalized"])
def test_lists_from_elsewhere_with_teams_and_no_ranks_are_scored_by_teams(scheme: str) -> None:
    rows = made_rows(20)
    table = table_of(rows).drop(["ranks", "lengths", "union", "choices", "rankings"])
    assert len(check(rows, Rules(scheme), table).decoded.rows) == 20
    assert scored(rows, Rules(f"{scheme}_deduped"), table).decoded.dropped == {"no_ranks": 20}


# Events.


def busy_rows(count: int, method: str) -> list[Row]:
    """Clicks, purchases and views at several ranks and times, some with a dwell time."""
    rows = [made_row(number, (), method) for number in range(count)]
    for number, row in enumerate(rows):
        row["events"] = [
            made_event(
                1 + (number * 7 + place * 3) % 4, row["time"], 10 * (1 + (number + place) % 5), kind, dwell=dwell
            )
            for place, (kind, dwell) in enumerate(
                [("click", 12.0), ("purchase", None), ("click", 40.0), ("view", 30.0), ("click", None)][: number % 6]
            )
        ]
    return rows


WAYS = {
    "all clicks": Rules(),
    "purchases alone": Rules(events={"purchase": 1}),
    "weights": Rules(events={"click": 1, "purchase": 5}),
    "a weight below 0": Rules(events={"click": 1, "view": -0.5}),
    "three kinds": Rules(events={"view": 0.25, "click": 1, "purchase": 3}),
    "dwell": Rules(dwell=30),
    "first": Rules(first=True),
    "first of two kinds": Rules(events={"click": 1, "purchase": 5}, first=True),
    "window": Rules(window=30),
    "all of it": Rules(events={"click": 1, "view": 2}, dwell=20, first=True, window=45),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", ["team_draft", "balanced", "optimized", "pairwise_preference", "probabilistic"])
def test_events_are_counted_as_asked(way: str, method: str) -> None:
    rows = busy_rows(30, method)
    for scheme in METHODS[method].schemes:
        rules = replace(WAYS[way], scheme=scheme)
        if (method, scheme) == ("probabilistic", "binary") and len(rules.events) > 1:
            with pytest.raises(SchemeError, match="knows the expected sign of one kind of event"):
                scored(rows, rules)
        else:
            check(rows, rules)


def test_all_ways_to_count_differ_on_these_rows() -> None:
    """So that none of the tests above is about nothing."""
    rows = busy_rows(30, "team_draft")
    seen = {tuple(score_of(row, replace(rules, scheme="click")).pairs[0, 1] for row in rows) for rules in WAYS.values()}
    assert len(seen) == len(WAYS)
    assert any(len(counted_events(row)) > 1 for row in rows)


@given(st.data())
def test_any_clicks_on_any_of_the_lists_score_as_credit_does(data: st.DataObject) -> None:
    method, scheme, rankers = data.draw(st.sampled_from(EVERY))
    patterns = data.draw(st.lists(st.lists(st.integers(1, 4), max_size=5), min_size=1, max_size=4))
    check([made_row(number, clicks, method, of=rankers) for number, clicks in enumerate(patterns)], Rules(scheme))


# Refusals.


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"events": {}}, "no kind of event is named"),
        ({"events": {"click": 0}}, "the weight of 'click' is 0"),
        ({"events": {"click": float("nan")}}, "the weight of 'click' is nan"),
        ({"events": {"click": True}}, "the weight of 'click' is True"),
        ({"events": {"": 1}}, "a kind of event is a word"),
        ({"dwell": 0}, "dwell is 0"),
        ({"dwell": float("nan")}, "dwell is nan"),
        ({"window": -1}, "window is -1"),
        ({"window": float("inf")}, "window is inf"),
        ({"sessions": 0}, "sessions=0"),
        ({"sessions": float("nan")}, "sessions=nan"),
        ({"sessions": float("inf")}, "sessions=inf"),
        ({"sessions": 60, "by": ["device"]}, "cannot be combined with by"),
        ({"by": "device"}, "by is 'device', one text"),
    ],
)
def test_a_way_to_count_that_cannot_be_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        tally_log(table_of(made_rows(3)), **wrong)


def test_a_scheme_or_method_that_does_not_fit_is_refused() -> None:
    table = table_of(made_rows(5, of=3))
    with pytest.raises(SchemeError, match="team_draft does not offer scheme 'binary_direct'"):
        tally_log(table, "binary_direct")
    with pytest.raises(SchemeError, match="unknown scheme 'best'"):
        tally_log(table, "best")
    with pytest.raises(MethodError, match="balanced cannot score lists of 3 rankers"):
        tally_log(table, method="balanced")
    with pytest.raises(MethodError, match="unknown method 'team_craft'"):
        tally_log(table, method="team_craft")
    with pytest.raises(SchemeError, match="single compares nothing"):
        tally_log(table, method="single")
    assert resolve("single").method.schemes == ()
