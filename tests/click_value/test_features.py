"""Features of clicks: C12's counts, each as a plain computation gives it, and what each click gives each ranker."""

import math
from collections import Counter as Tally
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from interleaf import DataError, MethodError, credit, interleave
from interleaf.click_value import FEATURES, ClickFeature, PageClicks
from interleaf.click_value.click_features import PUBLISHED, credit_clicks, default_features, feature, matrix
from interleaf.decode import Counting, Decoded, Decoding
from interleaf.methods.registry import resolve
from tests.oracles.logs import shown_of
from tests.support.log_rows import START, Row, made_event, made_row, table_of

SCHEMES = {
    "team_draft": ("normalized_deduped", "normalized"),
    "balanced": ("normalized", "normalized_direct"),
    "probabilistic": ("normalized",),
    "optimized": ("normalized",),
    "pairwise_preference": ("normalized",),  # of two clicked documents neither is preferred, and both say so
}
PAGES: tuple[tuple[tuple[int, float, float | None], ...], ...] = (  # (rank, seconds, dwell) of each click
    ((1, 3, 20.0),),
    ((3, 9, 130.0),),
    ((2, 4, None), (4, 60, 95.0)),
    ((4, 5, 29.0), (1, 50, 30.0), (2, 80, 61.0)),
    ((1, 2, 5.0), (2, 9, 5.0), (3, 20, 200.0), (4, 300, 119.0)),
    (),
)


def rows_of(method: str = "team_draft") -> list[Row]:
    rows = []
    for number, page in enumerate(PAGES * 5):
        row = made_row(number, (), method)
        row["events"] = [
            made_event(rank, row["time"], seconds, "click", **({} if dwell is None else {"dwell": dwell}))
            for rank, seconds, dwell in page
        ]
        rows.append(row)
    return rows


def decoded_of(rows: list[Row], counting: Counting | None = None) -> Decoded:
    (batch,) = table_of(rows).to_batches()
    (decoded,) = Decoding(batch, counting or Counting(), detailed=True)
    return decoded


def plain_features(page: Any, place: int, credited: int) -> dict[str, float]:
    """All of C12's features of one click, in plain words; `page` holds its clicks in the order of time."""
    rank, _, dwell = page[place]
    several, begun_below = len(page) > 1, len(page) > 1 and page[0][0] > 1
    found: dict[str, float] = {}
    for name, of in (("rank", float), ("log_rank", math.log), ("root_rank", math.sqrt)):
        total = sum(of(one) for one, _, _ in page)
        found[name] = of(rank)
        found[f"{name}_as_it_is"] = of(rank) * credited
        found[f"{name}_of_the_sum"] = of(rank) * credited / total if total else 0.0
    for one in range(1, 11):
        found[f"single_rank_{one}"] = rank == one and not several
        found[f"several_rank_{one}"] = rank == one and several
    for which, inside in (("single", not several), ("several", several)):
        for half, there in (("top_4", rank <= 4), ("below_4", rank > 4)):
            found[f"{which}_{half}"] = inside and there
            found[f"{which}_{half}_as_it_is"] = (inside and there) * credited
    marks = {
        "first": place == 0,
        "last": place == len(page) - 1,
        "regression": any(earlier > rank for earlier, _, _ in page[:place]),
        **{f"dwell_{seconds}": dwell is not None and dwell >= seconds for seconds in (30, 60, 90, 120)},
    }
    for name, mark in marks.items():
        found[name] = mark
        found[f"{name}_begun_below"] = mark and begun_below
    return {name: float(value) for name, value in found.items()}


def test_there_are_51_published_features_in_five_families_with_the_published_counts() -> None:
    assert len(PUBLISHED) == len(set(PUBLISHED)) == 51
    assert Tally(FEATURES[name].family for name in PUBLISHED) == {"A": 9, "B": 20, "C": 8, "D": 6, "E": 8}
    assert len({FEATURES[name].meaning for name in PUBLISHED}) == 51
    assert default_features(["click", "purchase"]) == ("click", *PUBLISHED, "kind purchase")


@pytest.mark.parametrize("method", ["team_draft", "balanced"])
def test_every_published_feature_is_what_plain_words_say(method: str) -> None:
    rows, chosen = rows_of(method), resolve(method)
    scheme = chosen.scheme(SCHEMES[method][0], 2)
    clicks, _ = credit_clicks(decoded_of(rows), ["click"], chosen, scheme)
    values = matrix(clicks, PUBLISHED)
    place = 0
    for number in range(len(rows)):
        page = sorted(PAGES[number % len(PAGES)], key=lambda click: click[1])
        for at in range(len(page)):
            number_credited = int(clicks.credited[place])
            assert dict(zip(PUBLISHED, values[place], strict=True)) == plain_features(page, at, number_credited)
            place += 1
    assert place == len(clicks.rank)
    assert clicks.credited.max() > 1


def each_page(found: PageClicks) -> Iterator[tuple[int, slice]]:
    for page in np.unique(found.page).tolist():
        start, end = np.searchsorted(found.page, [page, page + 1])
        yield page, slice(int(start), int(end))


@pytest.mark.parametrize(("method", "scheme"), [(name, scheme) for name, some in SCHEMES.items() for scheme in some])
def test_what_clicks_give_adds_up_to_the_credit_of_the_page(method: str, scheme: str) -> None:
    rows, chosen = rows_of(method), resolve(method)
    clicks, shares = credit_clicks(decoded_of(rows), ["click"], chosen, chosen.scheme(scheme, 2))
    seen = 0
    for page, on_page in each_page(clicks):
        outcome = credit(shown_of(rows[page]), [rank for rank, _, _ in PAGES[page % len(PAGES)]], scheme)
        assert shares[on_page].sum(axis=0).tolist() == pytest.approx(list(outcome.credit.values()), abs=1e-12)
        seen += 1
    assert seen == sum(bool(page) for page in PAGES) * 5
    assert np.array_equal(clicks.by_page(shares, len(rows))[5::6], np.zeros((5, 2)))


def test_a_click_of_team_draft_is_its_owners_and_one_on_the_shared_prefix_nobodys() -> None:
    shared = {"rankings": [["a", "b", "c", "d"], ["a", "c", "b", "d"]]}
    row = made_row(0, (1, 2)) | shared | {"documents": ["a", "b", "c", "d"], "teams": [0, 0, 1, 1]}
    row |= {"ranks": [[1, 2, 3, 4], [1, 3, 2, 4]], "lengths": [4, 4], "union": 4}
    chosen = resolve("team_draft")
    clicks, deduped = credit_clicks(decoded_of([row]), ["click"], chosen, chosen.scheme("normalized_deduped", 2))
    _, plain = credit_clicks(decoded_of([row]), ["click"], chosen, chosen.scheme("normalized", 2))
    assert deduped.tolist() == [[0.0, 0.0], [0.5, 0.0]]
    assert plain.tolist() == [[0.5, 0.0], [0.5, 0.0]]
    assert clicks.credited.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("spec", "other", "key", "clicks"),
    [
        ("balanced(depth=clicked)", "adcb", "0", (2, 3, 4)),
        ("pairwise_preference(pairs=per_click)", "bcad", "1", (1, 3, 4)),
    ],
)
def test_credit_that_is_not_a_sum_over_clicks_is_refused(spec: str, other: str, key: str, clicks: Any) -> None:
    shown = interleave([list("abcd"), list(other)], spec, k=4, key=key).to_dict(rankings=True)
    decoded = decoded_of([made_row(0, clicks) | shown])
    chosen = resolve(spec)
    with pytest.raises(MethodError, match="its credit for several clicks is not the sum"):
        credit_clicks(decoded, ["click"], chosen, chosen.scheme("normalized", 2))


def test_a_result_clicked_twice_is_one_click_with_its_first_time_and_longest_dwell() -> None:
    row = made_row(0, ())
    times = ((2, 30, 4.0), (1, 40, 8.0), (2, 50, 70.0))
    row["events"] = [made_event(rank, START, seconds, dwell=dwell) for rank, seconds, dwell in times]
    chosen = resolve("team_draft")
    clicks, _ = credit_clicks(decoded_of([row]), ["click"], chosen, chosen.scheme("normalized", 2))
    assert clicks.rank.tolist() == [2, 1]
    assert clicks.seconds.tolist() == [30.0, 40.0]
    assert clicks.dwell.tolist() == [70.0, 8.0]
    assert clicks.regression.tolist() == [False, True]


def test_kinds_of_events_are_features() -> None:
    counting = Counting({"click": 1, "purchase": 1})
    row = made_row(0, ())
    row["events"] = [made_event(1, START), made_event(3, START, 9), made_event(3, START, 12, "purchase")]
    chosen = resolve("team_draft")
    scheme = chosen.scheme("normalized", 2)
    clicks, _ = credit_clicks(decoded_of([row], counting), ["click", "purchase"], chosen, scheme)
    assert matrix(clicks, ["kind purchase", "click"]).tolist() == [[0.0, 1.0], [1.0, 1.0]]


def test_a_user_can_add_a_row_and_what_it_gives_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = resolve("team_draft")
    clicks, _ = credit_clicks(decoded_of(rows_of()), ["click"], chosen, chosen.scheme("normalized", 2))
    with pytest.raises(DataError, match="unknown feature 'late'"):
        feature("late")
    monkeypatch.setitem(
        FEATURES, "late", ClickFeature("late", "own", "after a minute", lambda clicks: clicks.seconds > 60)
    )
    assert matrix(clicks, ["late"]).sum() == sum(seconds > 60 for page in PAGES * 5 for _, seconds, _ in page)
    monkeypatch.setitem(
        FEATURES, "late", ClickFeature("late", "own", "bad", lambda clicks: np.log(clicks.rank - 1.0 + 0j))
    )
    with np.errstate(divide="ignore"), pytest.raises(DataError, match="'late' should give one finite number"):
        matrix(clicks, ["late"])
