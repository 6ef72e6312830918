"""Events go to the impressions they belong to; what belongs to none is kept apart, with the reason."""

from dataclasses import replace

import pytest

from interleaf.log.drop_reasons import EventFate
from interleaf.store import attribution
from interleaf.store.impression_rows import Writing
from interleaf.store.records import Event
from interleaf.store.sql import SqlStore
from tests.support.stores import HOUR, SECOND, START, address, check_sums, click, impression, running, store

__all__ = ["address", "store"]


def ranks_of(store: SqlStore, name: str = "shop") -> dict[str, list[int]]:
    """The ranks of the events of each impression."""
    return {
        row["impression"]: [event["rank"] for event in row["events"]] for row in store.examples(name) if row["events"]
    }


def test_each_reason_to_keep_an_event_apart(store: SqlStore) -> None:
    settings = running(store)
    fixed = {2: "pinned"}
    one, folded = impression(settings, 1, HOUR, fixed=fixed), impression(settings, 2)
    store.write([one, folded], [])
    store.fold(START + HOUR)
    document = one.row["documents"][1]
    events = {
        EventFate.UNKNOWN_IMPRESSION: click(one, impression="nobody", id="unknown"),
        EventFate.RANK_NOT_SHOWN: click(one, 5),
        EventFate.DOCUMENT_NOT_SHOWN: click(one, None, document="d99", id="d99"),
        EventFate.FIXED_SLOT: click(one, 2),
        EventFate.LATE: click(one, 1, HOUR + 1),
        EventFate.EARLY: click(one, 1, -60 * SECOND - 1),
        EventFate.FUTURE: click(one, 1, 400 * SECOND, received=one.time),
        EventFate.FOLDED: click(folded),
        EventFate.NOT_SHOWN_TO_UNIT: click(one, None, impression=None, unit=one.unit, document=document, id="by unit"),
    }
    _, fates = store.write([], list(events.values()))
    assert fates == list(events)
    belongs = [reason for reason in events if reason not in (EventFate.UNKNOWN_IMPRESSION, EventFate.NOT_SHOWN_TO_UNIT)]
    assert store.counts("shop").apart == dict.fromkeys(sorted(belongs), 1)
    assert store.count_unplaced() == dict.fromkeys(
        sorted((EventFate.UNKNOWN_IMPRESSION, EventFate.NOT_SHOWN_TO_UNIT)), 1
    )
    assert store.write([], list(events.values()))[1] == [EventFate.REPEATED] * len(events)
    check_sums(store, "shop")


def test_events_at_the_edges_of_the_window_count(store: SqlStore) -> None:
    one = impression(running(store), 1)
    edges = [click(one, 1, -60 * SECOND), click(one, 2, HOUR), click(one, 3, 300 * SECOND, received=one.time)]
    _, fates = store.write([one], edges)
    assert fates == [EventFate.ACCEPTED] * 3
    first, _, last = store.examples("shop")[0]["events"]
    assert (first["time"], last["time"]) == (one.time, one.closes)  # nobody clicks on what is not there yet
    assert store.tallies("shop")["click"].events == {"counted": 3}
    check_sums(store, "shop")


def test_ranks_are_of_the_list_as_people_saw_it(store: SqlStore) -> None:
    settings = running(store)
    one = impression(settings, 1, fixed={1: "pinned", 3: "sponsored"})
    first, second = one.row["documents"]
    events = [click(one, 2), click(one, 4), click(one, None, document=second, id="named"), click(one, None, id="no")]
    assert store.write([one], events)[1] == [EventFate.ACCEPTED] * 3 + [EventFate.RANK_NOT_SHOWN]
    assert ranks_of(store) == {one.id: [1, 2, 2]}
    assert store.write([], [click(one, None, document="sponsored", id="s")])[1] == [EventFate.FIXED_SLOT]
    assert first != second


def test_events_wait_for_impressions_that_come_later(store: SqlStore) -> None:
    settings = running(store)
    one, two = impression(settings, 1), impression(settings, 2)
    assert store.write([], [click(one), click(one, 9)])[1] == [EventFate.UNKNOWN_IMPRESSION] * 2
    store.write([two], [])
    assert store.count_unplaced() == {EventFate.UNKNOWN_IMPRESSION: 2}
    store.write([one], [click(one, 2)])
    assert ranks_of(store) == {one.id: [1, 2]}
    assert store.count_unplaced() == {}
    assert store.counts("shop").apart == {EventFate.RANK_NOT_SHOWN: 1}
    assert store.write([], [click(one)])[1] == [EventFate.REPEATED]
    check_sums(store, "shop")


def test_an_event_and_its_impression_that_do_not_see_each_other_are_matched_when_it_is_folded(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = running(store)
    one, two = impression(settings, 1), impression(settings, 2)
    store.write([], [click(one), click(two)])
    with monkeypatch.context() as blind:  # as if both were written at the same time
        blind.setattr(Writing, "find_awaiting", lambda self, rows: [])
        store.write([one], [])
    assert ranks_of(store) == {}
    store.fold(START + 20 * SECOND)
    assert ranks_of(store) == {one.id: [1]}
    assert store.count_unplaced() == {EventFate.UNKNOWN_IMPRESSION: 1}


@pytest.mark.parametrize("way", ["last_impression", "every_impression", "most_shown"])
def test_events_of_a_unit_wait_for_its_impressions(store: SqlStore, way: str) -> None:
    one = impression(running(store, attribution=way), 1)
    event = by_unit(one.row["documents"][2])
    assert store.write([], [event])[1] == [EventFate.NOT_SHOWN_TO_UNIT]
    store.write([impression(running(store, name="other"), 3)], [])
    store.write([one], [])
    assert ranks_of(store) == {one.id: [3]}


def by_unit(document: str, after: int = 10 * SECOND, unit: str = "u1", name: str = "purchase-1") -> Event:
    return Event(name, "click", START + after, START + after, unit=unit, document=document)


def test_the_last_impression_that_showed_it_gets_the_event(store: SqlStore) -> None:
    settings = running(store, attribution="last_impression", k=6)
    made = [impression(settings, number, number * SECOND, unit="u1") for number in range(4)]
    stranger = impression(settings, 9, 3 * SECOND, unit="u2")
    assert store.write([*made, stranger], [by_unit("d3", 2 * SECOND)])[1] == [EventFate.ACCEPTED]
    assert ranks_of(store) == {made[2].id: [made[2].row["documents"].index("d3") + 1]}
    assert store.write([], [by_unit("d3", -SECOND, name="another clock")])[1] == [EventFate.ACCEPTED]
    assert sorted(ranks_of(store)) == [made[2].id, made[3].id]


def test_what_the_last_impression_did_not_show_goes_to_one_that_did(store: SqlStore) -> None:
    settings = running(store, attribution="last_impression", k=6)
    one = impression(settings, 1, unit="u1")
    shorter = replace(one, id="later", time=one.time + SECOND)
    row = dict(one.row) | {"documents": [f"x{place}" for place in range(6)]}
    store.write([one, replace(shorter, row=row)], [by_unit("d0")])
    assert ranks_of(store) == {one.id: [one.row["documents"].index("d0") + 1]}


def test_every_impression_in_the_window_gets_the_event(store: SqlStore) -> None:
    settings = running(store, attribution="every_impression", k=6, window_minutes=1)
    made = [impression(settings, number, number * 40 * SECOND, unit="u1") for number in range(4)]
    store.write(made, [])
    event = by_unit("d3", 100 * SECOND)  # the first two closed after 60 and 100 seconds; the last came at 120
    assert store.write([], [event])[1] == [EventFate.ACCEPTED]
    assert list(ranks_of(store)) == [made[2].id, made[1].id]
    assert store.write([], [event])[1] == [EventFate.REPEATED]
    assert store.write([], [by_unit("d3", 300 * SECOND, name="late")])[1] == [EventFate.LATE]
    check_sums(store, "shop")


def test_the_ranker_that_showed_it_most_often_gets_the_event(store: SqlStore) -> None:
    settings = running(store, attribution="most_shown", k=6)
    one = impression(settings, 1, unit="u1")
    place = one.row["documents"].index("d3")

    def owned(number: int, team: int) -> object:
        teams = list(one.row["teams"])
        teams[place] = team
        at = one.time + number * SECOND
        return replace(one, id=f"i{number}", time=at, row=dict(one.row) | {"teams": teams})

    store.write([owned(0, 0), owned(1, 1), owned(2, 1), owned(3, 0), owned(4, 1), owned(5, 0), owned(6, 0)], [])  # type: ignore[list-item]
    store.write([], [by_unit("d3")])
    assert ranks_of(store) == {"i6": [place + 1]}
    store.write([owned(7, 1), owned(8, 1)], [by_unit("d3", name="again")])  # type: ignore[list-item]
    assert ranks_of(store) == {"i6": [place + 1], "i8": [place + 1]}


def test_without_teams_the_rankers_that_have_it_highest_showed_it(store: SqlStore) -> None:
    settings = running(store, attribution="most_shown", k=6, method="probabilistic", scheme="click")
    one = impression(settings, 1, unit="u1")
    place = one.row["documents"].index("d3")

    def ranked(number: int, *ranks: int) -> object:
        rows = [list(row) for row in one.row["ranks"]]
        for row, rank in zip(rows, ranks, strict=True):
            row[place] = rank
        return replace(one, id=f"i{number}", time=one.time + number, row=dict(one.row) | {"ranks": rows, "teams": None})

    store.write([ranked(0, 2, 1), ranked(1, 1, 2), ranked(2, 0, 5), ranked(3, 4, 6)], [])  # type: ignore[list-item]
    store.write([ranked(4, 3, 3)], [by_unit("d3")])  # type: ignore[list-item]
    assert ranks_of(store) == {"i4": [place + 1]}  # both: 3 times each, and both in the last
    store.write([ranked(5, 2, 1), ranked(6, 2, 1), ranked(7, 1, 2)], [by_unit("d3", name="e2")])  # type: ignore[list-item]
    assert ranks_of(store) == {"i4": [place + 1], "i6": [place + 1]}


def test_an_event_of_a_unit_counts_in_every_experiment_that_looks_for_it(store: SqlStore) -> None:
    made = []
    for name, way in (("one", "last_impression"), ("two", "every_impression"), ("three", "same_impression")):
        settings = running(store, name=name, attribution=way, k=6)
        made += [impression(settings, number, unit="u1") for number in range(2)]
    store.write(made, [])
    assert store.write([], [by_unit("d3")])[1] == [EventFate.ACCEPTED]
    assert [len(ranks_of(store, name)) for name in ("one", "two", "three")] == [1, 2, 0]
    for name in ("one", "two", "three"):
        check_sums(store, name)


def test_an_event_is_looked_for_in_the_latest_impressions_of_a_crawler(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution, "MAX_SHOWINGS", 3)
    settings = running(store, attribution="every_impression", k=6)
    made = [impression(settings, number, number, unit="u1") for number in range(6)]
    other = impression(settings, 9, unit="u2")
    store.write([other, *made], [by_unit("d3"), by_unit("d3", unit="u2", name="e2")])
    assert sorted(ranks_of(store)) == sorted([other.id, *(one.id for one in made[3:])])


def test_an_event_that_every_impression_gets_goes_to_the_latest_ones(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution, "MAX_MATCHES", 2)
    settings = running(store, attribution="every_impression", k=6)
    made = [impression(settings, number, number, unit="u1") for number in range(5)]
    assert store.write(made, [by_unit("d3")])[1] == [EventFate.ACCEPTED]
    assert sorted(ranks_of(store)) == [made[3].id, made[4].id]


@pytest.mark.parametrize("way", ["last_impression", "every_impression", "most_shown"])
def test_impressions_that_are_left_out_get_no_events_of_units(store: SqlStore, way: str) -> None:
    settings = running(store, attribution=way, k=6)
    one, crawled = impression(settings, 1, unit="u1"), impression(settings, 2, SECOND, unit="u1", excluded="a crawler")
    only = impression(settings, 3, unit="u2", excluded="a crawler")
    events = [by_unit("d3"), by_unit("d3", unit="u2", name="e2")]
    assert store.write([one, crawled, only], events)[1] == [EventFate.ACCEPTED, EventFate.NOT_SHOWN_TO_UNIT]
    assert list(ranks_of(store)) == [one.id]
    assert store.write([], [click(crawled)])[1] == [EventFate.ACCEPTED]  # who names it means it


def test_a_window_may_be_over_before_the_impression_is_folded(store: SqlStore) -> None:
    settings = running(store, attribution="last_impression", k=6)
    one = replace(impression(settings, 1, unit="u1"), until=START + 60 * SECOND)
    events = [
        *(click(one, 1, 60 * SECOND), click(one, 2, 60 * SECOND + 1)),
        *(by_unit("d3", 60 * SECOND), by_unit("d3", 60 * SECOND + 1, name="late")),
    ]
    assert store.write([one], events)[1] == [EventFate.ACCEPTED, EventFate.LATE] * 2
    assert store.fold(one.closes - 1) == 0
    assert store.write([], [click(one, 3, 10 * SECOND)])[1] == [EventFate.ACCEPTED]
    assert store.fold(one.closes) == 1
    assert store.counts("shop").apart == {EventFate.LATE: 2}
    check_sums(store, "shop")


def test_an_event_that_waited_is_matched_within_the_window_only(store: SqlStore) -> None:
    settings = running(store, attribution="last_impression", k=6)
    one = replace(impression(settings, 1, unit="u1"), until=START + 60 * SECOND)
    store.write([], [by_unit("d3", 60 * SECOND), by_unit("d3", 60 * SECOND + 1, name="late")])
    store.write([one], [])
    assert [event["event"] for event in store.examples("shop")[0]["events"]] == ["purchase-1"]


def test_events_of_a_unit_that_come_too_late_are_told_to_the_experiment(store: SqlStore) -> None:
    settings = running(store, attribution="last_impression", k=6)
    running(store, name="other", attribution="last_impression", k=6)
    old, young = impression(settings, 1, unit="u1"), impression(settings, 2, 3 * HOUR, unit="u1")
    store.write([old], [])
    assert store.write([], [by_unit("d3", HOUR + 1, name="late")])[1] == [EventFate.LATE]
    assert store.fold(START + HOUR) == 1
    fates = store.write(
        [young],
        [
            *(by_unit("d3", HOUR - 1, name="folded"), by_unit("d3", 2 * HOUR, name="later")),
            *(by_unit("d3", -HOUR, name="early"), by_unit("d9", 3 * HOUR, name="unseen")),
        ],
    )[1]
    assert fates == [EventFate.FOLDED, EventFate.LATE, EventFate.EARLY, EventFate.NOT_SHOWN_TO_UNIT]
    assert store.counts("shop").apart == {EventFate.FOLDED: 1, EventFate.LATE: 2, EventFate.EARLY: 1}
    assert store.count_unplaced() == {EventFate.NOT_SHOWN_TO_UNIT: 1}
    assert store.counts("other").apart == {}


def test_what_was_too_late_for_one_impression_waits_for_one_that_was_shown_before(store: SqlStore) -> None:
    settings = running(store, attribution="last_impression", k=6)
    seconds = 0, 7230, 7190
    old, after, before = (impression(settings, number, at * SECOND, unit="u1") for number, at in enumerate(seconds))
    store.write([old], [])
    assert store.write([], [by_unit("d3", 7200 * SECOND)])[1] == [EventFate.LATE]
    store.write([after], [])
    assert ranks_of(store) == {}  # it came before what was shown half a minute later
    store.write([before], [])
    assert list(ranks_of(store)) == [before.id]
    assert store.counts("shop").apart == {}


def test_events_of_two_impressions_may_have_the_same_id(store: SqlStore) -> None:
    one, other = impression(running(store), 1), impression(running(store, name="other"), 2)
    store.write([one, other], [])
    order = click(one, id="order-1001")
    assert store.write([], [order])[1] == [EventFate.ACCEPTED]
    foreign = click(other, id="order-1001", dwell=9999.0, value=1e12, scope="other")
    assert store.write([], [foreign])[1] == [EventFate.ACCEPTED]
    assert store.write([], [replace(order, dwell=3.0), foreign])[1] == [EventFate.REPEATED, EventFate.REPEATED]
    (mine,), (theirs,) = (store.examples(name)[0]["events"] for name in ("shop", "other"))
    assert (mine["event"], mine["dwell"], mine["value"]) == ("order-1001", 3, None)
    assert (theirs["event"], theirs["dwell"], theirs["value"]) == ("order-1001", 9999, 1e12)
    for name in ("shop", "other"):
        check_sums(store, name)


def test_waiting_events_of_two_impressions_and_units_may_have_the_same_id(store: SqlStore) -> None:
    settings = running(store, attribution="last_impression")
    shown = [impression(settings, number, unit=f"u{number}") for number in range(3)]
    named = [click(one, id="same", value=float(number)) for number, one in enumerate(shown[:2])]
    document = shown[2].row["documents"][0]
    by_unit = [click(shown[2], None, id="same", impression=None, unit=unit, document=document) for unit in ("u2", "u9")]
    assert (
        store.write([], [*named, *by_unit])[1] == [EventFate.UNKNOWN_IMPRESSION] * 2 + [EventFate.NOT_SHOWN_TO_UNIT] * 2
    )
    store.write([], [replace(named[0], dwell=5.0)])
    store.write(shown[:1], [])
    assert store.count_unplaced() == {EventFate.NOT_SHOWN_TO_UNIT: 2, EventFate.UNKNOWN_IMPRESSION: 1}
    store.write(shown[1:], [])
    assert store.count_unplaced() == {EventFate.NOT_SHOWN_TO_UNIT: 1}
    events = {row["impression"]: row["events"] for row in store.examples("shop")}
    assert [len(events[one.id]) for one in shown] == [1, 1, 1]
    assert [(events[one.id][0]["dwell"], events[one.id][0]["value"]) for one in shown[:2]] == [(5, 0), (None, 1)]
    assert store.write([], [*named, *by_unit])[1] == [EventFate.REPEATED] * 4
    check_sums(store, "shop")
