"""The stored form of a row: binary numbers for scoring, which many rows are decoded from at once, and JSON.

`design` is JSON of columns that are equal in many rows, so that each distinct value is parsed once. `body` is JSON of
everything else. `numbers` are 32-bit integers: the union, whether the list was relaxed, the number of rankers with
ranks, the sizes of five lists (-1: null), and these lists in sequence; the last one, latencies, as 32-bit floats. If
`WITH_UNSHOWN` is added to the number of rankers, their ranks of unshown documents follow.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import nan
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from interleaf.errors import DataError
from interleaf.experiment import Experiment
from interleaf.experiment.serving import Noted
from interleaf.interleaving.rankings import unshown_rank_lists
from interleaf.kernels.arrays import Array
from interleaf.log import schema
from interleaf.log.validation import RULES
from interleaf.store.database import Row

LISTS = ("ranks", "teams", "lengths", "choices", "latency")
WITH_UNSHOWN = 2**16
HEADER = 3 + len(LISTS)
DESIGN = ("arm", "method", "rankers", "fallback_reason", "excluded", "attributes")
_ELSEWHERE = {"experiment", "version", "impression", "unit", "time", "open", "events"}  # stored in other columns
_IN_BODY = (
    {column.name for column in schema.COLUMNS} - {*DESIGN, *LISTS, "union", "relaxed", "unshown_ranks"} - _ELSEWHERE
)
_NOTHING = dict.fromkeys((*DESIGN, *sorted(_IN_BODY)))
_NEEDED = ("arm", "method", "rankers", "documents")
_plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False).encode
_quick = msgspec.json.Encoder().encode


class EncodedRow(NamedTuple):
    """The three parts of a row."""

    design: str
    numbers: bytes
    body: bytes


def encode_row(row: Mapping[str, Any]) -> EncodedRow:
    """The parts of a row, after checks that it can be read back and exported."""
    try:
        values = {
            name: RULES[name].check(value) if name in RULES else value
            for name, value in row.items()
            if value is not None and name not in _ELSEWHERE
        }
        for name in _NEEDED:
            if name not in values:
                raise ValueError(f"it has no {name!r}, which may not be left out")
        design = _plain({name: values[name] for name in DESIGN if name in values})
        body = {name: value for name, value in values.items() if name in _IN_BODY or name not in RULES}
        for name in ("ranks", "unshown_ranks"):
            if len(set(map(len, values.get(name, ())))) > 1:
                raise ValueError(f"its {name.replace('_', ' ')} are of different lengths")
        if "unshown_ranks" in values and len(values["unshown_ranks"]) != len(values.get("ranks", ())):
            raise ValueError("its ranks and unshown ranks have different numbers of rankers")
        names = "ranks", "unshown_ranks"
        flat = [array("i", chain(*values[name])).tobytes() if name in values else None for name in names]
        of_list = map(values.get, ("latency", "teams", "lengths", "choices"))
        numbers = _pack(values.get("union"), values.get("relaxed"), len(values.get("ranks", ())), *flat, *of_list)
        parts = EncodedRow(design, numbers, _plain(body).encode())
        design.encode()
        if "\0" in design:
            raise ValueError("it holds a null character")
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise DataError(f"impression {row.get('impression')!r} cannot be stored: {problem}") from None
    return parts


def encode_note(
    noted: Noted,
    *,
    attributes: Mapping[str, str] | None = None,
    excluded: str | None = None,
    latency: Sequence[float | None] | None = None,
    captions: Mapping[str, Any] | None = None,
    **more: Any,
) -> EncodedRow:
    """The parts of a list that was just drawn for a request. Nothing is checked, because the request was checked.

    `more` replaces or extends the body.
    """
    drawn, problem, about = noted.drawn, noted.drawn.problem, noted.about
    union, ranks, unshown = drawn.union, drawn.ranks, drawn.unshown_ranks
    if ranks is None or unshown is None:  # it was drawn alone
        union, ranks = problem.union, problem.ranks_of(drawn.documents)
        unshown = np.array(unshown_rank_lists(problem.rankings, drawn.documents), np.int32)
    logged = unshown.tobytes() if drawn.chosen.method.logs_unshown_ranks else None
    lists = ranks.tobytes(), logged, latency, drawn.teams, problem.lengths, drawn.choices
    numbers = _pack(union, drawn.relaxed, len(problem.rankers), *lists)
    body: dict[str, Any] = {"query": about["query"], "key": drawn.key, "page": about["page"], "k": about["k"]}
    if drawn.log_probability is not None:
        body["log_probability"] = drawn.log_probability
    if "fixed" in about:
        body["fixed"] = about["fixed"]
    body |= {"documents": drawn.documents, "rankings": problem.rankings, **more}
    if captions:
        body["captions"] = [captions.get(str(document)) for document in drawn.documents]
    pairs = tuple(attributes.items()) if attributes else None
    design = _design(about["arm"], drawn.chosen.text, problem.rankers, about["fallback_reason"], excluded, pairs)
    return EncodedRow(design, numbers, _quick(body))


@lru_cache(maxsize=128)
def _design(*values: Any) -> str:
    """JSON of the columns that are equal in many rows."""
    return _quick({name: value for name, value in zip(DESIGN, values, strict=True) if value is not None}).decode()


def _pack(union: int | None, relaxed: bool | None, rankers: int, *lists: Any) -> bytes:
    """The numbers of a row as bytes; `lists` are ranks and unshown ranks as bytes, latency, teams, lengths, choices."""
    ranks, unshown, latency, *others = lists
    numbers = [-1 if union is None else union, -1 if relaxed is None else int(relaxed)]
    numbers += rankers if unshown is None else rankers + WITH_UNSHOWN, -1 if ranks is None else len(ranks) // 4
    numbers += [-1 if one is None else len(one) for one in (*others, latency)]
    flat: list[int] = []
    for one in others:
        flat += one or ()
    floats = array("f", [nan if number is None else number for number in latency]) if latency else b""
    return b"".join((array("i", numbers), ranks or b"", array("i", flat), floats, unshown or b""))


def decode_row(parts: EncodedRow) -> dict[str, Any]:
    """The row, without what is stored in other columns and tables."""
    row: dict[str, Any] = _NOTHING | json.loads(parts.body) | json.loads(parts.design)
    row["attributes"] = dict(row["attributes"] or ())
    numbers = array("i", parts.numbers)
    union, relaxed, rankers, *sizes = numbers[:HEADER]
    row["union"] = None if union < 0 else union
    row["relaxed"] = None if relaxed < 0 else bool(relaxed)
    start = HEADER
    for name, size in zip(LISTS, sizes, strict=True):
        end = start + max(size, 0)
        values = array("f", numbers[start:end].tobytes()) if name == "latency" else numbers[start:end]
        row[name] = None if size < 0 else values.tolist()
        start = end
    row["unshown_ranks"] = numbers[start:].tolist() if rankers >= WITH_UNSHOWN else None
    rankers %= WITH_UNSHOWN
    for name in ("ranks", "unshown_ranks"):
        if row[name] is not None and rankers:
            flat, width = row[name], len(row[name]) // rankers
            row[name] = [flat[place * width : (place + 1) * width] for place in range(rankers)]
    if row["latency"] is not None:
        row["latency"] = [None if number != number else number for number in row["latency"]]
    return row


CLICKED_ALL = "clicked everything"
_TYPES = {column.name: column.type for column in schema.COLUMNS}
_BODY_COLUMNS = ("session", "query", "key", "page", "log_probability", "documents", "rankings", "captions", "grades")
_BODY = pa.schema([pa.field(name, _TYPES[name]) for name in _BODY_COLUMNS])
COLUMNS = "id, unit, time, folded, design, numbers"
EVENT_COLUMNS = "impression, id, kind, rank, time, dwell, value"


def batch_of(
    rows: Sequence[Row], events: Sequence[Row], asked: Mapping[str, bytes], settings: Experiment, version: int
) -> pa.RecordBatch:
    """A record batch of rows of `COLUMNS`: all columns of a log if the rows have a body, else those that scoring reads.

    `events` are rows of `EVENT_COLUMNS`. `asked` are the bodies of some impressions, from which their query is read.
    """
    ids, units, times, folded, designs, numbers, *bodies = zip(*rows, strict=True)
    event_lists, clicks = _events(ids, events, settings)
    columns: dict[str, pa.Array] = {
        "experiment": pa.repeat(pa.scalar(settings.name, pa.string()), len(rows)),
        "version": pa.repeat(pa.scalar(version, pa.int32()), len(rows)),
        "impression": pa.array(ids, pa.string()),
        "time": pa.array(np.array(times, np.int64)).cast(schema.TIME),
        "unit": pa.array(units, pa.string()),
        "open": pa.array(np.array(folded, np.int64) == 0),
        "events": event_lists,
        **_designs(designs),
    }
    number_columns, shown = _numbers(numbers)
    columns |= number_columns
    if settings.bot_clicks is not None:
        is_bot = (shown >= settings.bot_clicks) & (clicks == shown)
        reasons = columns["excluded"]  # an earlier reason to exclude a row has priority
        columns["excluded"] = pc.if_else(pc.and_(pa.array(is_bot), reasons.is_null()), CLICKED_ALL, reasons)
    if bodies:
        columns |= _bodies(bodies[0])
    elif asked:
        places = {name: place for place, name in enumerate(asked)}
        queries = _bodies(list(asked.values()), ("query",))["query"]
        columns["query"] = queries.take(pa.array([places.get(name) for name in ids], pa.int64()))
    fields = [field for field in schema.SCHEMA if field.name in columns]
    return pa.RecordBatch.from_pydict(columns, schema=pa.schema(fields, schema.SCHEMA.metadata))


def _designs(designs: Sequence[str]) -> dict[str, pa.Array]:
    """The columns in `design`; each distinct value is parsed once."""
    different: dict[str, int] = {}
    codes = pa.array([different.setdefault(design, len(different)) for design in designs], pa.int32())
    parsed = [json.loads(design) for design in different]
    columns = {name: [one.get(name) for one in parsed] for name in DESIGN}
    columns["attributes"] = [[tuple(pair) for pair in one.get("attributes", ())] for one in parsed]
    return {name: pa.array(values, _TYPES[name]).take(codes) for name, values in columns.items()}


def _numbers(blobs: Sequence[bytes]) -> tuple[dict[str, pa.Array], Array]:
    """The columns in `numbers`, decoded for all rows at once; and the number of documents of each row."""
    data = np.frombuffer(b"".join(blobs), np.int32)
    lengths = np.fromiter(map(len, blobs), np.int64, len(blobs)) // 4
    last = np.cumsum(lengths)
    starts = last - lengths
    header = data[starts[:, None] + np.arange(HEADER)]
    union, relaxed, rankers = header[:, :3].T
    columns = {"union": pa.array(union, mask=union < 0), "relaxed": pa.array(relaxed == 1, mask=relaxed < 0)}
    has_unshown, rankers = rankers >= WITH_UNSHOWN, rankers % WITH_UNSHOWN
    starts, shown = starts + HEADER, np.zeros(0, np.int64)
    for name, sizes in zip((*LISTS, "unshown_ranks"), (*header[:, 3:].T, None), strict=True):
        sizes = np.where(has_unshown, last - starts, -1) if sizes is None else sizes
        counts = np.maximum(sizes, 0).astype(np.int64)
        ends = np.cumsum(counts)  # of the lists, one after the other
        values = data[np.repeat(starts - (ends - counts), counts) + np.arange(counts.sum())]
        values = values.view(np.float32) if name == "latency" else values
        starts = starts + counts
        inner = pa.array(values, from_pandas=name == "latency")
        if name in ("ranks", "unshown_ranks"):
            each = counts // np.maximum(rankers, 1)
            inner = pa.ListArray.from_arrays(_offsets(np.repeat(each, rankers)), inner)
            shown = each if name == "ranks" else shown
            counts = rankers.astype(np.int64)
        outer = pa.ListArray.from_arrays(_offsets(counts), inner, mask=pa.array(sizes < 0))
        columns[name] = outer.cast(_TYPES[name])
    return columns, shown


def _offsets(counts: Array) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))


def _events(shown_ids: Sequence[str], events: Sequence[Row], settings: Experiment) -> tuple[pa.Array, Array]:
    """The events of each row sorted by time, and the number of ranks in each row with an event that counts."""
    place = {name: number for number, name in enumerate(shown_ids)}
    columns = list(zip(*events, strict=True)) or [()] * 7
    impressions, ids, kinds, ranks, times, dwells, values = columns
    rows = np.fromiter((place[name] for name in impressions), np.int64, len(impressions))
    rank, time = np.array(ranks, np.int64), np.array(times, np.int64)
    order = np.lexsort((rank, time, rows))
    fields = {
        "event": pa.array(ids, pa.string()),
        "kind": pa.array(kinds, pa.string()),
        "rank": pa.array(rank.astype(np.int32)),
        "time": pa.array(time).cast(schema.TIME),
        "dwell": pa.array(dwells, pa.float64()).cast(pa.float32()),
        "value": pa.array(values, pa.float64()),
    }
    inner = pa.StructArray.from_arrays(list(fields.values()), fields=[column.field for column in schema.EVENT])
    offsets = _offsets(np.bincount(rows, minlength=len(shown_ids)))
    counted = np.fromiter((settings.events.get(kind, 0) != 0 for kind in kinds), np.bool_, len(kinds))
    places = np.unique(rows[counted] * 2**20 + rank[counted]) // 2**20
    clicks = np.bincount(places, minlength=len(shown_ids))
    return pa.ListArray.from_arrays(offsets, inner.take(pa.array(order))).cast(_TYPES["events"]), clicks


def _bodies(bodies: Sequence[bytes], names: Sequence[str] = _BODY_COLUMNS) -> dict[str, pa.Array]:
    data = b"\n".join(bodies)
    wanted = pa.schema([_BODY.field(name) for name in names])
    table = pyarrow.json.read_json(
        pa.BufferReader(data),
        pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        pyarrow.json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore"),
    )
    return {name: table.column(name).combine_chunks() for name in names}
