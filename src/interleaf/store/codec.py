"""The stored form of a row: binary numbers for scoring, which many rows are decoded from at once, and JSON.

`design` is JSON of columns that are equal in many rows, so that each distinct value is parsed once. `body` is JSON of
everything else. `log/packed_numbers.py` describes `numbers`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
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
from interleaf.log.packed_numbers import NUMBER_COLUMNS, number_columns, offsets_of, pack_numbers, unpack_numbers
from interleaf.log.validation import RULES
from interleaf.store.database import Row

DESIGN = ("arm", "method", "rankers", "fallback_reason", "excluded", "attributes", "epoch")
_ELSEWHERE = {"experiment", "version", "impression", "unit", "time", "open", "events"}  # stored in other columns
_IN_BODY = {column.name for column in schema.COLUMNS} - {*DESIGN, *NUMBER_COLUMNS} - _ELSEWHERE
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
        parts = EncodedRow(design, pack_numbers(values), _plain(body).encode())
        design.encode()
        if "\0" in design:
            raise ValueError("it holds a null character")
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise DataError(f"impression {row.get('impression')!r} cannot be stored: {problem}") from None
    return parts


def encode_note(
    note: Noted,
    *,
    attributes: Mapping[str, str] | None = None,
    excluded: str | None = None,
    latency: Sequence[float | None] | None = None,
    captions: Mapping[str, Any] | None = None,
    characters: Mapping[str, int] | None = None,
    **more: Any,
) -> EncodedRow:
    """The parts of a list that was just drawn for a request. Nothing is checked, because the request was checked.

    `more` replaces or extends the body.
    """
    drawn_list, problem, about = note.drawn_list, note.drawn_list.problem, note.about
    union, ranks, unshown = drawn_list.union, drawn_list.ranks, drawn_list.unshown_ranks
    if ranks is None or unshown is None:  # it was drawn alone
        union, ranks = problem.union, problem.ranks_of(drawn_list.documents)
        unshown = np.array(unshown_rank_lists(problem.rankings, drawn_list.documents), np.int32)
    numbers = {
        **{"ranks": ranks, "teams": drawn_list.teams, "lengths": problem.lengths, "choices": drawn_list.choices},
        **{"latency": latency, "union": union, "relaxed": drawn_list.relaxed},
    }
    if drawn_list.chosen.method.logs_unshown_ranks:
        numbers["unshown_ranks"] = unshown
    if characters:
        numbers["characters"] = [characters.get(str(document)) for document in drawn_list.documents]
    body: dict[str, Any] = {"query": about["query"], "key": drawn_list.key, "page": about["page"], "k": about["k"]}
    if drawn_list.log_probability is not None:
        body["log_probability"] = drawn_list.log_probability
    if "fixed" in about:
        body["fixed"] = about["fixed"]
    body |= {"documents": drawn_list.documents, "rankings": problem.rankings, **more}
    if captions:
        body["captions"] = [captions.get(str(document)) for document in drawn_list.documents]
    pairs = tuple(attributes.items()) if attributes else None
    cause, epoch = about["fallback_reason"], about.get("epoch")
    design = _design(about["arm"], drawn_list.chosen.text, problem.rankers, cause, excluded, pairs, epoch)
    return EncodedRow(design, pack_numbers(numbers), _quick(body))


@lru_cache(maxsize=128)
def _design(*values: Any) -> str:
    """JSON of the columns that are equal in many rows."""
    return _quick({name: value for name, value in zip(DESIGN, values, strict=True) if value is not None}).decode()


def decode_row(parts: EncodedRow) -> dict[str, Any]:
    """The row, without what is stored in other columns and tables."""
    row: dict[str, Any] = _NOTHING | json.loads(parts.body) | json.loads(parts.design)
    row["attributes"] = dict(row["attributes"] or ())
    row |= unpack_numbers(parts.numbers)
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
    lengths = np.fromiter(map(len, blobs), np.int64, len(blobs)) // 4
    ends = np.cumsum(lengths)
    return number_columns(np.frombuffer(b"".join(blobs), np.int32), ends - lengths, ends)


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
    offsets = offsets_of(np.bincount(rows, minlength=len(shown_ids)))
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
