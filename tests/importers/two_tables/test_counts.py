"""What cannot be joined is counted by a stable code, which the report shows."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from interleaf import DataError, analyze
from interleaf.importers.protocol import ImportOptions
from interleaf.importers.two_tables.convert import import_tables
from interleaf.log import read
from tests.support.log_rows import Row, made_rows, table_of
from tests.support.two_tables import RESULTS, as_lines, as_table, events_of, in_shape, numbers_of

ROWS = made_rows(10)
EVENTS = events_of(ROWS)


def totals(impressions: Any, events: Any, **options: Any) -> Any:
    return analyze(impressions=impressions, events=events, **options).totals


def dropped(change: Row, shape: str = "columns of a log", **options: Any) -> dict[str, int]:
    """What is dropped if the first row of the impressions is changed like this."""
    rows = in_shape(ROWS, shape)
    return dict(totals(as_table([rows[0] | change, *rows[1:]]), as_table(EVENTS), **options).dropped)


def lost(*events: Row) -> dict[str, int]:
    """What becomes of these events, each a change of the first one, beside those that count."""
    found = totals(as_table(in_shape(ROWS, "JSON")), as_table([*EVENTS, *(EVENTS[0] | event for event in events)]))
    counts = dict(found.events) | dict(found.dropped)
    assert counts.pop("counted") == len(EVENTS)
    return counts


@pytest.mark.parametrize(
    ("change", "shape", "reason"),
    [
        ({"impression": None}, "columns of a log", "no_id"),
        ({"time": None}, "columns of a log", "no_time"),
        ({"documents": '["a", '}, "JSON", "wrong_value:documents"),
        ({"teams": '{"a": 1}'}, "JSON", "wrong_value:owner"),
        ({"documents": None}, "columns of a log", "no_value:documents"),
        ({"impression": "i-1"}, "columns of a log", "repeated_impression"),
        ({"ranker": ["A", "B", "A"]}, "owners by name", "list_length"),
        ({"ranker": ["A", "B", "A", "C"]}, "owners by name", "unknown_owner"),
        ({"rankings": "{"}, "rankings by ranker", "wrong_value:rankings"),
        ({"position": 9}, RESULTS, "gaps_in_list"),
        ({"position": 2}, RESULTS, "two_at_position"),
        ({"item_id": None}, RESULTS, "gaps_in_list"),
        ({"team": 5}, RESULTS, "unknown_owner"),
    ],
)
def test_an_impression_that_cannot_be_used_is_counted(change: Row, shape: str, reason: str) -> None:
    assert dropped(change, shape) == {reason: 1}


def test_a_list_that_its_key_does_not_give_is_counted_and_the_others_get_their_owners() -> None:
    rows = [{name: value for name, value in row.items() if name != "teams"} for row in in_shape(ROWS, "JSON")]
    events = as_table(EVENTS)
    assert numbers_of(impressions=as_table(rows), events=events) == numbers_of(table_of(ROWS))
    rows[0] |= {"documents": '["g", "a"]'}
    assert totals(as_table(rows), events).dropped == {"not_reproduced": 1}


def test_a_result_that_came_twice_counts_once() -> None:
    rows = in_shape(ROWS, RESULTS)
    found = totals(as_table([*rows, rows[0], rows[0]]), as_table(EVENTS))
    assert dict(found.dropped) == {"repeated_impression": 1}
    assert found.impressions == 10


def test_every_event_that_does_not_count_says_why() -> None:
    assert lost({"request_id": "i-99"}) == {"unmatched": 1}
    assert lost({"doc_id": "zzz"}, {"doc_id": "yyy"}) == {"event_not_on_list": 2}
    assert lost({"request_id": None}) == {"no_event_value:impression": 1}
    assert lost({"ts": None}) == {"no_event_value:time": 1}
    assert lost({"doc_id": None}) == {"no_event_value:document": 1}
    assert lost({"ts": EVENTS[0]["ts"] - timedelta(days=1)}) == {"early": 1}
    assert lost({"action": "hover"}) == {"other_kind": 1}


def test_a_health_check_warns_of_events_that_are_on_no_list() -> None:
    events = [*EVENTS, EVENTS[0] | {"doc_id": "zzz"}]
    report = analyze(impressions=as_table(in_shape(ROWS, "JSON")), events=as_table(events))
    assert [check.status for check in report.health if check.code == "events_not_on_list"] == ["warning"]


def test_wrong_cells_of_text_are_counted_with_an_example(tmp_path: Path) -> None:
    (tmp_path / "i.jsonl").write_text(as_lines(in_shape(ROWS, "columns of a log")) + "{\n[1]\n")
    lines = [*EVENTS, EVENTS[0] | {"ts": "yesterday"}, EVENTS[0] | {"value": "much"}]
    (tmp_path / "e.jsonl").write_text(as_lines(lines))
    report = analyze(impressions=tmp_path / "i.jsonl", events=tmp_path / "e.jsonl")
    assert report.totals.dropped == {
        "wrong_event_value:time": 1,
        "wrong_event_value:value": 1,
        "not_json": 1,
        "not_an_object": 1,
    }
    assert any("'yesterday'" in note for note in report.notes)


def test_positions_start_where_the_option_says_or_where_they_must() -> None:
    impressions = as_table(in_shape(ROWS, "columns of a log"))
    from_0 = as_table([{"request_id": "i-1", "ts": EVENTS[1]["ts"], "position": rank} for rank in (0, 3)])
    assert totals(impressions, from_0).events == {"counted": 2}
    assert totals(impressions, from_0, ordinals=1).events == {"counted": 1, "event_not_on_list": 1}
    both = as_table([{"request_id": "i-1", "ts": EVENTS[1]["ts"], "position": rank} for rank in (0, 4)])
    with pytest.raises(DataError, match="--ordinals"):
        totals(impressions, both)


def test_numbers_for_owners_need_the_names_of_rankers() -> None:
    rows = [{name: value for name, value in row.items() if name != "rankers"} for row in in_shape(ROWS, "JSON")]
    with pytest.raises(DataError, match="--rankers production candidate"):
        totals(as_table(rows), as_table(EVENTS))
    report = analyze(impressions=as_table(rows), events=as_table(EVENTS), rankers=["old", "new"])
    assert report.rankers == ("old", "new")


def test_rankers_are_the_owners_of_the_same_experiment() -> None:
    rows = in_shape(ROWS, "owners by name")
    rows = [{name: value for name, value in row.items() if name != "rankers"} for row in rows]
    other = [
        row
        | {"experiment": "tea", "ranker": [None if one is None else f"tea {one}" for one in row["ranker"]]}
        | {"Request_ID": f"tea {row['Request_ID']}"}
        for row in rows
    ]
    tables = {"impressions": as_table([*rows, *other]), "events": as_table(EVENTS)}
    assert analyze(**tables, experiment="shop").rankers == ("A", "B")
    assert analyze(**tables, experiment="tea").rankers == ("tea A", "tea B")


def test_the_log_of_an_import_carries_its_counts(tmp_path: Path) -> None:
    events = [*EVENTS, EVENTS[0] | {"request_id": "i-99"}]
    tables = as_table(in_shape(ROWS, "JSON")), as_table(events)
    result = import_tables(*tables, tmp_path / "log.parquet", ImportOptions(experiment="experiment"))
    assert (result.impressions, result.events, result.counts["unmatched"]) == (10, len(EVENTS), 1)
    reading = read(tmp_path / "log.parquet")
    assert sum(len(batch) for batch in reading) == 10
    assert reading.events["unmatched"] == 1
    assert analyze(tmp_path / "log.parquet").to_dict() == analyze(impressions=tables[0], events=tables[1]).to_dict()


def test_tables_without_an_impression_are_an_error() -> None:
    with pytest.raises(DataError, match="no impression can be used"):
        totals(as_table([row | {"impression": None} for row in in_shape(ROWS, "JSON")]), as_table(EVENTS))


def refusal(impressions: Any, **options: Any) -> str:
    with pytest.raises(DataError) as refused:
        totals(impressions, as_table(EVENTS), **options)
    return str(refused.value)


def test_the_error_says_why_no_impression_can_be_used(tmp_path: Path) -> None:
    rows = in_shape(ROWS, "owners by name")
    named = [{name: value for name, value in row.items() if name != "rankers"} for row in rows]
    said = refusal(as_table(named), rankers=["x", "y", "z"])
    assert said.startswith("no impression can be used:\n  - unknown_owner (a document whose owner is not a ranker of")
    assert "): 10, such as impression 'i-0' with owner 'A', and rankers 'x', 'y', 'z'; correct the owner" in said
    numbers = {None: None, "A": 1, "B": 2}
    from_1 = [row | {"ranker": [numbers[owner] for owner in row["ranker"]]} for row in named]
    said = refusal(as_table(from_1), rankers=["old", "new"])
    assert (
        "with owner '2', and rankers 'old', 'new'; correct the owner or --rankers; numbers of rankers start at 0"
        in said
    )
    results = in_shape(ROWS, RESULTS)
    said = refusal(as_table([row | {"position": 2 * row["position"]} for row in results]))
    assert "gaps_in_list (results of a list with gaps in their positions): 10, such as impression 'i-0'" in said
    assert "with positions 2, 4, 6, 8; log every shown result once" in said
    texts = [row | {"documents": "a|b|c"} for row in in_shape(ROWS, "JSON")]
    (tmp_path / "i.jsonl").write_text(as_lines([*texts[1:], texts[0] | {"time": "soon"}]) + "{\n")
    said = refusal(tmp_path / "i.jsonl")
    assert "wrong_value:documents (wrong 'documents'): 9, such as " in said
    assert 'row 1: documents is \'a|b|c\'; write a JSON list of ids, such as ["d4", "d1"], or one row for' in said
    assert "time is 'soon'; write timestamps, ISO 8601, or numbers since 1970" in said
    assert "not_json (line is not JSON): 1, such as " in said
    assert "; give JSON lines, one record per line" in said


def test_equal_events_without_an_id_count_once() -> None:
    impressions = as_table(in_shape(ROWS, "JSON"))
    paid = [event | {"value": 5.0} for event in EVENTS]
    found = totals(impressions, as_table([*paid, *paid, paid[0] | {"value": 6.0}]))
    assert found.events == {"counted": len(EVENTS) + 1, "repeated": len(EVENTS)}
    report, once = (
        analyze(impressions=impressions, events=as_table(events), values=True) for events in ([*paid, *paid], paid)
    )
    assert report.comparisons == once.comparisons
    named = [event | {"event_id": f"e-{number}"} for number, event in enumerate([*paid, *paid])]
    assert totals(impressions, as_table(named)).events == {"counted": 2 * len(EVENTS)}


def test_an_event_of_a_page_is_on_the_whole_list() -> None:
    first, rest = ROWS[1], ROWS[2:]
    page = first | {"page": 1, "documents": first["documents"][:2], "teams": first["teams"][:2]}
    page["ranks"] = [ranks[:2] for ranks in first["ranks"]]
    rows = [page, first | {"page": 2}, *rest]
    impressions = as_table(
        [
            {name: value for name, value in row.items() if name != "unshown_ranks"}
            for row in in_shape(rows, "columns of a log")
        ]
    )
    found = totals(impressions, as_table(events_of([first, *rest])))
    assert found.impressions == len(rest) + 1
    assert found.events["counted"] == len(events_of([first, *rest]))


def test_a_few_events_at_position_0_are_no_start() -> None:
    seconds = map(timedelta, [0] * 200, range(200))
    events = [{"request_id": "i-1", "ts": EVENTS[1]["ts"] + second, "position": 1} for second in seconds]
    tables = as_table(in_shape(ROWS, "JSON")), as_table([*events, events[0] | {"position": 0}])
    with pytest.raises(DataError, match="1 of 201 events are at position 0"):
        totals(*tables)
    assert totals(*tables, ordinals=1).events == {"counted": 200, "event_not_on_list": 1}
    without = as_table([*events, events[0] | {"position": -1}])
    assert totals(tables[0], without).events == {"counted": 200, "event_not_on_list": 1}
