"""The rows of the events in one form: impression, document or rank, kind, time, and what the event is worth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.errors import DataError, InterleafError
from interleaf.importers.two_tables.cell_values import convert
from interleaf.importers.two_tables.column_names import TableColumns
from interleaf.importers.two_tables.row_checks import RowChecks
from interleaf.log import schema
from interleaf.log.drop_reasons import DropReason

RARE = 0.01  # a smaller share of events at position 0 does not mean that positions start there
CLICK = "click"  # the kind of events without a kind
SCHEMA = pa.schema(
    [
        ("impression", pa.string()),
        ("document", pa.string()),
        *((column.name, pa.int64() if column.name == "rank" else column.type) for column in schema.EVENT),
    ]
)


def check_place(columns: TableColumns, problems: list[InterleafError]) -> None:
    """A problem if the events do not say what they happened to."""
    if "document" not in columns and "rank" not in columns:
        problems.append(
            DataError(
                "the events do not say on which document they happened; name it by --map events.document=COLUMN "
                f"or --map events.rank=COLUMN; not used: {', '.join(map(repr, columns.unused)) or 'no column'}"
            )
        )


class EventRows:
    """Converts record batches of the events to batches of `SCHEMA`; rows that cannot be used are counted."""

    def __init__(self, columns: TableColumns, checks: RowChecks) -> None:
        self._columns, self._checks = columns, checks
        self._placed = self._at_0 = 0  # events without a document, and those of them at position 0

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that can be used."""
        checks, arrays = self._checks, {}
        checks.start(len(batch))
        for field in SCHEMA:
            if field.name in self._columns:
                source = batch.column(self._columns.by_field[field.name])
                arrays[field.name] = checks.take(field.name, source, convert(source, field.name, field.type))
            else:
                arrays[field.name] = pa.nulls(len(batch), field.type)
        for name in ("impression", "time"):
            checks.refuse(DropReason.NO_EVENT_VALUE.of(name), arrays[name].is_null())
        is_placed = pc.or_(arrays["document"].is_valid(), arrays["rank"].is_valid())
        checks.refuse(DropReason.NO_EVENT_VALUE.of("document"), pc.invert(is_placed))
        arrays["kind"] = pc.fill_null(arrays["kind"], CLICK)
        rows = checks.used(pa.RecordBatch.from_arrays(list(arrays.values()), schema=SCHEMA))
        ranks = np.asarray(rows["rank"].filter(rows["document"].is_null()))
        self._placed += len(ranks)
        self._at_0 += int((ranks == 0).sum())
        return rows

    @property
    def first_rank(self) -> int:
        """The number of the top position, 0 or 1; an error if a few events only are at 0."""
        if 0 < self._at_0 < RARE * self._placed:
            raise DataError(
                f"{self._at_0:,} of {self._placed:,} events are at position 0, too few for the top of a list; give "
                "--ordinals 0 or --ordinals 1"
            )
        return 0 if self._at_0 else 1
