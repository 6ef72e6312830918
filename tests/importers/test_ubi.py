"""UBI logs come in: every trap of the format with a sample, its count and its remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from interleaf import analyze, interleave
from interleaf.errors import DataError
from interleaf.importers.protocol import ImportNote, ImportOptions, ImportResult
from interleaf.importers.solr_opensearch import import_opensearch, import_solr
from interleaf.importers.ubi import import_ubi
from interleaf.log.drop_reasons import DropReason
from tests.support.paths import SHARED, VECTORS

PUBLISHED = SHARED / "data" / "ubi_sample" / "ubi_queries_events.ndjson.gz"
Row = dict[str, Any]


def query(name: str = "q-1", hits: Sequence[Any] | None = ("a", "b", "c"), **more: Any) -> Row:
    found = {"application": "shop", "query_id": name, "client_id": "c-1", "user_query": "shoes"}
    shown = {} if hits is None else {"query_response_hit_ids": list(hits)}
    return found | {"timestamp": "2026-11-15T12:00:00Z", "query_attributes": {}} | shown | more


def event(document: Any = "b", ordinal: Any = 2, name: str = "q-1", seconds: int = 5, **more: Any) -> Row:
    thing = {} if document is None else {"object": {"object_id": document, "object_id_field": "sku"}}
    place = {} if ordinal is None else {"position": {"ordinal": ordinal}}
    about = {"application": "shop", "action_name": "click", "query_id": name, "client_id": "c-1"}
    return about | {"timestamp": f"2026-11-15T12:00:{seconds:02d}Z", "event_attributes": thing | place} | more


def imported(folder: Path, *records: Row | str, **options: Any) -> tuple[ImportResult, list[Row]]:
    source = folder / "ubi.ndjson"
    lines = (record if isinstance(record, str) else json.dumps(record) for record in records)
    source.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    found = import_ubi(source, folder / "log.parquet", ImportOptions(**options))
    return found, pq.read_table(folder / "log.parquet").to_pylist()


def ranks(row: Row) -> list[int]:
    return [one["rank"] for one in row["events"]]


def remedied(found: ImportResult, reason: str, count: int) -> bool:
    """The reason was met so often, and a note says so, with what to do."""
    known = next(one for one in (*ImportNote, *DropReason) if one == reason)
    begin = f"{count:,} × {known.text}"
    notes = [note.text for note in found.notes() if note.code == reason]
    return found.counts[reason] == count and len(notes) == 1 and notes[0].startswith(begin) and known.remedy in notes[0]


def test_a_plain_record_becomes_an_impression_with_its_event(tmp_path: Path) -> None:
    found, (row,) = imported(tmp_path, query(query_attributes={"device": "phone"}), event())
    assert (found.impressions, found.events, found.join_rate, found.unit) == (1, 1, 1.0, "client")
    assert (row["impression"], row["unit"], row["query"], row["documents"]) == ("q-1", "c-1", "shoes", ["a", "b", "c"])
    assert (row["method"], row["arm"], row["rankers"]) == ("single", "engine", ["engine"])
    assert dict(row["attributes"]) == {"application": "shop", "device": "phone"}
    assert ranks(row) == [2]
    assert not found.counts
    assert analyze(tmp_path / "log.parquet").totals.impressions == 1


def test_lucene_numbers_as_hits_are_a_low_join_rate_told_first_and_ordinals_are_used(tmp_path: Path) -> None:
    records = [query(f"q-{n}", ["17", "18", "19"]) for n in range(9)] + [event("sku-1", 3, f"q-{n}") for n in range(9)]
    found, rows = imported(tmp_path, *records)
    assert found.join_rate == 0
    assert found.notes()[0].code == ImportNote.JOIN_RATE
    assert found.notes()[0].text.startswith("0.0 % of events with an object_id have it among their query's hits: LOW.")
    assert found.ordinals == {"shop": 1}  # 3 of 3 hits: they cannot start at 0
    assert remedied(found, "placed_by_ordinal", 9)
    assert [ranks(row) for row in rows] == [[3]] * 9


def test_ordinals_of_ids_that_do_not_join_need_to_be_told_where_nothing_tells(tmp_path: Path) -> None:
    records = query("q-1", ["17", "18", "19"]), event("sku-1", 2)
    found, (row,) = imported(tmp_path, *records)
    assert (found.ordinals, ranks(row)) == ({"shop": None}, [])
    assert remedied(found, "unreadable_ordinal", 1)
    for start, rank in ((0, 3), (1, 2)):
        _, (row,) = imported(tmp_path, *records, ordinals=start)
        assert ranks(row) == [rank]


def test_internal_ids_join_where_hits_are_lucene_numbers(tmp_path: Path) -> None:
    inner = {"object": {"object_id": "sku-1", "internal_id": "18"}, "position": {"ordinal": 7}}
    found, (row,) = imported(tmp_path, query(hits=["17", "18"]), event(event_attributes=inner))
    assert ranks(row) == [2]
    assert remedied(found, "placed_by_internal_id", 1)


@pytest.mark.parametrize("count", [1, 200], ids=["one by one", "in blocks"])
@pytest.mark.parametrize("start", [0, 1, 5])
def test_a_rank_that_others_log_moves_no_event_and_hides_no_join_rate(tmp_path: Path, start: int, count: int) -> None:
    def logged(is_ranked: bool) -> tuple[ImportResult, list[Row], Any]:
        records = [query(f"q-{n}", client_id=f"c-{n}") for n in range(count)]
        for n in range(count):
            for kind, place in (("impression", 0), ("impression", 1), ("impression", 2), ("click", 1)):
                about = {"object": {"object_id": "abc"[place]}, "position": {"ordinal": place + 1}}
                about |= {"search_config": "xyx"[place]} | ({"rank": place + start} if is_ranked else {})
                records.append(event(name=f"q-{n}", action_name=kind, event_attributes=about))
        return *imported(tmp_path, *records), analyze(tmp_path / "log.parquet").to_dict()

    plain, ranked = logged(False), logged(True)
    assert plain[0].join_rate == 1
    assert ranked[0].notes() == plain[0].notes()
    assert ranked[1:] == plain[1:]


@pytest.mark.parametrize("start", [0, 1])
def test_where_ordinals_start_is_guessed_from_events_that_join(tmp_path: Path, start: int) -> None:
    found, (row,) = imported(
        tmp_path, query(), event("a", start), event("b", 1 + start, seconds=6), event(None, 1 + start, seconds=7)
    )
    assert found.ordinals == {"shop": start}
    assert ranks(row) == [1, 2, 2]


def test_each_application_has_its_own_ordinals(tmp_path: Path) -> None:
    found, rows = imported(
        tmp_path,
        *(query("q-1"), event("a", 0), event(None, 1, seconds=6)),
        *(query("q-2"), event("a", 1, "q-2", application="app"), event(None, 1, "q-2", 6, application="app")),
    )
    assert found.ordinals == {"app": 1, "shop": 0}
    assert [ranks(row) for row in rows] == [[1, 2], [1, 1]]


TIMES = {
    "2026-11-15T12:00:05.250Z": 0,
    "2026-11-15T13:00:05.250+01:00": 0,
    "2026-11-15T12:00:05.250+0000": 0,
    1794744005250: 1,
    "1794744005250": 1,
    "2026-11-15T12:00:05.250": 1,
}


@pytest.mark.parametrize("count", [1, 200], ids=["one by one", "in blocks"])
@pytest.mark.parametrize("time", TIMES)
def test_times_of_every_form_are_the_same_moment(tmp_path: Path, time: Any, count: int) -> None:
    events = [
        event(timestamp=time, event_attributes={"object": {"object_id": "b"}, "event": f"e{n}"}) for n in range(count)
    ]
    found, (row,) = imported(tmp_path, query(), *events)
    assert {one["time"].isoformat() for one in row["events"]} == {"2026-11-15T12:00:05.250000+00:00"}
    assert len(row["events"]) == count
    assert sum(found.counts.values()) == TIMES[time] * count
    assert all(reason.remedy for reason in found.counts)  # type: ignore[attr-defined]


def test_positions_of_the_index_and_of_the_schema_are_both_read(tmp_path: Path) -> None:
    thing = {"object": {"object_id": "c"}}
    flat = event(event_attributes=thing | {"position": {"ordinal": 3, "x": 1, "y": 2}})
    nested = event(event_attributes=thing | {"position": {"ordinal": 3, "xy": {"x": 1, "y": 2}}}, seconds=9)
    only = event(event_attributes=thing | {"position": {"xy": {"x": 1, "y": 2}}}, seconds=12)
    _, (row,) = imported(tmp_path, query(), flat, nested, only)
    assert ranks(row) == [3, 3, 3]


@pytest.mark.parametrize("count", [1, 200], ids=["one by one", "in blocks"])
def test_dwell_times_are_taken_and_told_of(tmp_path: Path, count: int) -> None:
    about = {"object": {"object_id": "b"}, "dwell_time": 12.5}
    more: tuple[Row, ...] = ({}, {"dwell": 3}, {"dwell_time": None})
    events = [
        event(seconds=second, event_attributes=about | one | {"event": f"{second}-{number}"})
        for number in range(count)
        for second, one in enumerate(more)
    ]
    found, (row,) = imported(tmp_path, query(), *events)
    assert [one["dwell"] for one in row["events"]] == [12.5] * count + [3] * count + [None] * count
    assert remedied(found, "dwell_time", count)


def test_records_that_break_the_schema_are_read_as_what_they_say(tmp_path: Path) -> None:
    found, (row,) = imported(
        tmp_path,
        query(hits=[1, 2, 3], query_attributes={"n": 5, "deep": {"a": 1}}, query_id=77),
        event(2, "2", name="77", user_id=""),
        event(None, None, name="77", event_attributes=None),
        {"message": "neither"},
        event(timestamp="yesterday"),
        event(query_id=None),
        "{ cut off",
        "[1]",
    )
    assert (row["impression"], row["documents"], ranks(row)) == ("77", ["1", "2", "3"], [2])
    assert dict(row["attributes"])["n"] == "5"
    assert remedied(found, "numeric_id", 5)
    assert remedied(found, "ordinal_not_whole", 1)
    assert remedied(found, "attribute_not_text", 1)
    assert remedied(found, "event_without_document", 1)
    assert remedied(found, "event_without_time", 1)
    assert remedied(found, "event_without_query", 1)
    assert found.counts["unknown_record"] == found.counts["not_json"] == 1
    assert found.examples["unknown_record"].endswith("ubi.ndjson:4")


def test_lists_without_hits_are_made_from_impression_events(tmp_path: Path) -> None:
    shown = [event(name, place, action_name="impression") for place, name in enumerate("xyz")]
    gaps = [event("x", place, "q-2", action_name="impression") for place in (0, 5)]
    found, (row,) = imported(
        tmp_path, query(hits=None), *shown, event("z", 2, seconds=9), query("q-2", None), *gaps, query("q-3", [])
    )
    assert (row["documents"], ranks(row)) == (["x", "y", "z"], [3])
    assert remedied(found, "list_rebuilt", 1)
    assert remedied(found, "gaps_in_list", 1)
    assert remedied(found, "nothing_shown", 1)
    assert remedied(found, "impression_event", 3)


def test_what_comes_twice_counts_once(tmp_path: Path) -> None:
    action = json.dumps({"index": {"_index": "ubi_events", "_id": "e-1"}})
    found, (row,) = imported(
        tmp_path, query(), query(), query(hits=["z"]), event(), event(), action, event(seconds=8), action, event("c", 3)
    )
    assert [(one["event"], one["rank"]) for one in row["events"]] == [(None, 2), ("e-1", 3)]
    assert remedied(found, "query_repeated", 1)
    assert remedied(found, "query_with_other_hits", 1)
    assert remedied(found, "event_repeated", 2)


def test_every_record_of_a_query_that_came_again_is_counted(tmp_path: Path) -> None:
    records = [query(), query(hits=None, user_id="u-1"), query(hits=None), query(hits=["z"]), query("q-2")]
    found, rows = imported(tmp_path, *records)
    assert (rows[0]["documents"], rows[0]["unit"], rows[1]["unit"]) == (["a", "b", "c"], "c-1", "c-1")
    assert remedied(found, "query_completed", 1)
    assert remedied(found, "query_repeated", 1)
    assert found.impressions + sum(found.counts[one] for one in ImportNote if "came again" in one.text) == len(records)


def test_events_that_find_nothing_are_counted(tmp_path: Path) -> None:
    found, (row,) = imported(
        tmp_path, query(hits=["a", "a"]), event("a", 1), event("ad-7", 1), event("a", 1, "elsewhere")
    )
    assert ranks(row) == [1]
    assert remedied(found, "event_not_on_list", 1)
    assert remedied(found, "query_not_found", 1)
    assert remedied(found, "document_twice", 1)
    assert found.join_rate == 0.5


def test_the_unit_is_the_first_that_nearly_all_queries_know(tmp_path: Path) -> None:
    known = [
        one for n in range(3) for one in (query(f"q-{n}"), event(name=f"q-{n}", user_id="u-1", session_id=f"s-{n}"))
    ]
    found, rows = imported(tmp_path, *known)
    assert (found.unit, {row["unit"] for row in rows}, rows[2]["session"]) == ("user", {"u-1"}, "s-2")
    found, rows = imported(tmp_path, *known, query("q-9"))
    assert (found.unit, {row["unit"] for row in rows}) == ("client", {"c-1"})
    found, rows = imported(tmp_path, *known, query("q-9", client_id=None), unit="user")
    assert [row["unit"] for row in rows] == ["u-1", "u-1", "u-1", None]
    assert remedied(found, "unknown_unit", 1)


@pytest.mark.parametrize("unit", [None, "user"])
def test_where_nobody_is_known_there_is_no_unit_and_that_is_told(tmp_path: Path, unit: str | None) -> None:
    found, rows = imported(tmp_path, query(client_id=None), query("q-2", client_id=""), unit=unit)
    assert (found.unit, [row["unit"] for row in rows]) == (None, [None, None])
    assert remedied(found, "unknown_unit", 2)
    assert ImportNote.UNIT not in [note.code for note in found.notes()]


def test_the_convention_of_the_chorus_shop_gives_teams(tmp_path: Path) -> None:
    found = import_ubi(VECTORS / "chorus.ndjson", tmp_path / "log.parquet")
    first, second = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert (first["rankers"], first["teams"], ranks(first)) == (["config-a", "config-b"], [0, 1, -1], [2])
    assert (first["method"], first["ranks"], second["teams"]) == ("team_draft", None, [-1])
    assert first["events"][0]["time"].isoformat() == "2026-11-15T12:00:07+00:00"
    assert found.without_ranks
    assert ImportNote.WITHOUT_RANKS in [note.code for note in found.notes()]
    report = analyze(tmp_path / "log.parquet")
    assert (report.totals.impressions, report.totals.events) == (2, {"counted": 1})


@pytest.mark.parametrize("is_shown", [False, True])
def test_lists_whose_owners_only_clicks_tell_are_counted_and_not_checked_for_fairness(
    tmp_path: Path, is_shown: bool
) -> None:
    """Nearly all click on what x has: a fair experiment with a winner, who owns nearly all that was clicked."""
    records = []
    for n in range(200):
        shown = interleave({"x": ["a", "c"], "y": ["b", "d"]}, k=2, key=n)
        owners = ["xy"[team] for team in shown.teams or ()]
        clicked = shown.documents.index("b" if n % 10 == 0 else "a")
        records.append(query(f"q-{n}", shown.documents, client_id=f"c-{n}"))
        for kind, place in [*(("impression", place) for place in range(2 * is_shown)), ("click", clicked)]:
            about = {"object": {"object_id": shown.documents[place]}, "search_config": owners[place]}
            records.append(event(name=f"q-{n}", action_name=kind, event_attributes=about))
    found, _ = imported(tmp_path, *records)
    (fair,) = [check for check in analyze(tmp_path / "log.parquet").health if check.code == "fair_lists"]
    assert fair.status == ("ok" if is_shown else "warning")
    assert is_shown or remedied(found, "owner_missing", 200)
    assert found.may_be_unmixed is not is_shown
    assert (ImportNote.MAY_BE_UNMIXED in [note.code for note in found.notes()]) is not is_shown


@pytest.mark.parametrize("names", ["A", "AB"])
def test_lists_of_one_configuration_each_are_arms_and_not_interleaved(tmp_path: Path, names: str) -> None:
    records = []
    for n in range(20):
        records.append(query(f"q-{n}", client_id=f"c-{n}"))
        for kind, place in (("impression", 0), ("impression", 1), ("impression", 2), ("click", n % 3)):
            about = {"object": {"object_id": "abc"[place]}, "search_config": names[n % len(names)]}
            records.append(event(name=f"q-{n}", action_name=kind, event_attributes=about))
    found, rows = imported(tmp_path, *records, query("untold", ["z"]))
    is_told = len(names) == 1  # where there is one configuration, it is that of every list
    told = [names[n % len(names)] for n in range(20)] + [names] * is_told
    assert [(row["arm"], row["method"]) for row in rows] == [(name, f"single(ranker={name})") for name in told]
    assert {tuple(row["rankers"]) for row in rows} == {tuple(names)}
    assert remedied(found, "one_configuration", len(told))
    assert is_told or remedied(found, "unknown_configuration", 1)
    assert not found.without_ranks
    report = analyze(tmp_path / "log.parquet")
    assert ([arm.name for arm in report.arms], report.comparisons) == (list(names), ())


def test_one_list_of_two_owners_shows_that_lists_were_mixed(tmp_path: Path) -> None:
    records = [query(f"q-{n}", ["a", "b"]) for n in range(20)]
    for n in range(20):
        for place, owner in enumerate("xy" if n == 7 else "xx"):
            about = {"object": {"object_id": "ab"[place]}, "search_config": owner}
            records.append(event(name=f"q-{n}", action_name="impression", event_attributes=about))
    _, rows = imported(tmp_path, *records)
    assert {row["arm"] for row in rows} == {"interleaved"}
    assert rows[7]["teams"] == [0, 1]


def test_answers_of_solr_and_a_click_log_give_teams(tmp_path: Path) -> None:
    found = import_solr([VECTORS / "solr.jsonl", VECTORS / "solr_clicks.jsonl"], tmp_path / "log.parquet")
    first, second = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert (first["rankers"], first["teams"]) == (["_OriginalRanking_", "candidate"], [1, 0, 1])
    assert [(one["kind"], one["rank"], one["value"]) for one in first["events"]] == [
        ("click", 1, None),
        ("purchase", 3, 30),
    ]
    assert (first["query"], second["query"], ranks(second)) == ("trail", "rain", [1])
    assert remedied(found, "no_owners", 1)
    assert remedied(found, "no_documents", 1)
    assert remedied(found, "event_not_on_list", 1)
    with pytest.raises(DataError, match="ranks"):
        analyze(tmp_path / "log.parquet", scheme="click_deduped")


def test_answers_of_opensearch_meet_their_queries_and_events(tmp_path: Path) -> None:
    found = import_opensearch(VECTORS / "opensearch.ndjson", tmp_path / "log.parquet")
    (row,) = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert (row["rankers"], row["teams"], ranks(row)) == (["config-a", "config-b"], [1, 0], [2])
    assert (row["unit"], row["query"], dict(row["attributes"])["device"]) == ("c-1", "trail", "phone")
    assert remedied(found, "event_repeated", 1)


def test_documents_without_their_key_are_told_of(tmp_path: Path) -> None:
    sources = [VECTORS / "solr.jsonl", VECTORS / "chorus.ndjson"]
    note = ImportNote.DOCUMENT_WITHOUT_ID
    with pytest.raises(DataError, match=f"3 × {note.text} .*: {re.escape(note.remedy)}"):
        import_solr(sources, tmp_path / "log.parquet", ImportOptions(id_field="sku"))


def test_owners_stay_with_the_hits_that_they_came_with(tmp_path: Path) -> None:
    hits = [{"_id": name, "_search_configuration_id": owner} for name, owner in (("b", "two"), ("a", "one"))]
    answer = {"query_id": "q-1", "timestamp": "2026-11-15T12:00:00Z", "response": {"hits": {"hits": hits}}}
    source = tmp_path / "mixed.ndjson"
    source.write_text("".join(json.dumps(one) + "\n" for one in (query(hits=["a", "b", "c"]), answer, event("a", 2))))
    found = import_opensearch(source, tmp_path / "log.parquet")
    (row,) = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert (row["documents"], row["teams"], row["rankers"], ranks(row)) == (["b", "a"], [1, 0], ["one", "two"], [2])
    assert remedied(found, "query_with_other_hits", 1)


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published UBI sample is not on this machine")
def test_the_published_sample_comes_in_and_is_told_of(tmp_path: Path) -> None:
    found = import_ubi(PUBLISHED, tmp_path / "log.parquet")
    assert (found.impressions, found.events, found.ordinals) == (278, 450, {"Chorus": 1, "esci_ubi_sample": 0})
    assert found.join_rate == pytest.approx(450 / 474)
    assert remedied(found, "query_not_found", 944)
    assert remedied(found, "numeric_time", 429)
    known = (
        "impression_event",
        "event_without_document",
        "event_not_on_list",
        "query_left_out",
    )
    parts = sum(found.counts[reason] for reason in (*known, "event_without_query"))
    assert found.events + parts + 944 == 3448
    assert analyze(tmp_path / "log.parquet").totals.impressions == 278


def test_a_block_without_an_event_that_can_be_used_is_no_trouble(tmp_path: Path) -> None:
    """Such as a file of queries that nobody clicked on."""
    path = tmp_path / "queries.ndjson"
    path.write_text(json.dumps(query()) + "\n")
    assert import_ubi(path, tmp_path / "log.parquet").impressions == 1


ANSWERS = {
    import_ubi: (query(timestamp="yesterday"), "query_without_time"),
    import_solr: (query() | {"response": {"response": {"docs": [{"id": "a"}]}}}, "no_owners"),
    import_opensearch: (query() | {"response": {"hits": {"hits": [{"_id": "a"}]}}}, "no_owners"),
}


@pytest.mark.parametrize("importing", ANSWERS)
def test_a_log_of_which_nothing_can_be_used_is_refused_with_the_reasons(tmp_path: Path, importing: Any) -> None:
    record, reason = ANSWERS[importing]
    (tmp_path / "log.ndjson").write_text(json.dumps(record) + "\n")
    with pytest.raises(DataError, match="no query to import") as refused:
        importing(tmp_path / "log.ndjson", tmp_path / "log.parquet")
    assert f"1 × {ImportNote(reason).text}" in str(refused.value)
    assert ImportNote(reason).remedy in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["log.ndjson"]
