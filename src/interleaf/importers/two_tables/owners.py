"""The rankers of each impression, and which of them owns each shown document.

Rankers come from a column, from the keys of rankings, from the option `rankers`, or else they are the owners that occur
in the impressions of the same experiment and version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interleaf.errors import DataError
from interleaf.interleaving.rankings import MAX_RANKERS
from interleaf.kernels.arrays import Array

NOBODY, UNKNOWN = -1, -2
_NOBODY_NAMES = ("", "-1")
_NAMES = pa.list_(pa.string())
_BREAK = "\x1f"  # between the parts of the text that stands for a design
Design = tuple[str, ...]  # experiment and version


class OwnerEvidence:
    """The owners that occur in each experiment; collect them from all impressions, then ask for rankers and teams."""

    def __init__(self, rankers: Sequence[str] = ()) -> None:
        self._given = list(rankers)
        self._owners: defaultdict[Design, set[str]] = defaultdict(set)
        self.has_owners = False

    def add(self, batch: pa.RecordBatch) -> None:
        """Collect the owners of converted impressions."""
        owners, parents = _flat_owners(batch)
        if owners is None or owners.null_count == len(owners):
            return
        self.has_owners = True
        designs, design = _designs(batch)
        encoded = owners.dictionary_encode()
        codes = np.asarray(pc.fill_null(encoded.indices, -1)).astype(np.int64)
        some = codes >= 0
        pairs = np.unique(design[parents[some]] * len(encoded.dictionary) + codes[some])
        texts = encoded.dictionary.to_pylist()
        for pair in pairs.tolist():
            place, code = divmod(pair, len(texts))
            if texts[code] not in _NOBODY_NAMES:
                self._owners[designs[place]].add(texts[code])

    def rankers(self, batch: pa.RecordBatch) -> pa.Array:
        """The rankers of each impression; null if nothing names them."""
        known = batch.column("rankers") if "rankers" in batch.schema.names else pa.nulls(len(batch), _NAMES)
        if not known.null_count:
            return known
        designs, design = _designs(batch)
        found = pa.array([self._rankers_of(one) for one in designs], _NAMES)
        return pc.if_else(known.is_valid(), known, found.take(pa.array(design)))

    def _rankers_of(self, design: Design) -> list[str] | None:
        if self._given:
            return self._given
        owners = sorted(self._owners.get(design, ()))
        if len(owners) > MAX_RANKERS:
            raise DataError(
                f"{len(owners)} different rankers own documents, such as {owners[:3]}, and an experiment has at most "
                f"{MAX_RANKERS}; name the column of the owner by --map owner=COLUMN, or of the experiment"
            )
        if owners and all(owner.isdecimal() for owner in owners):
            raise DataError(
                f"the owners of documents are numbers, such as {owners[0]}; name the rankers in their order, such as "
                "--rankers production candidate"
            )
        return owners or None

    def teams(self, owners: pa.Array, rankers: pa.Array) -> tuple[pa.Array, Array]:
        """The number of each owner among the rankers of its impression; and which impressions have an unknown one."""
        size = len(owners)
        if not self.has_owners:
            return pa.nulls(size, pa.list_(pa.int8())), np.zeros(size, np.bool_)
        keys = pc.binary_join(rankers, _BREAK).dictionary_encode(null_encoding="encode")
        design = np.asarray(keys.indices).astype(np.int64)
        flat = owners.flatten().dictionary_encode()
        names = flat.dictionary.to_pylist()
        table = np.full((len(keys.dictionary), len(names) + 1), NOBODY, np.int64)
        for row, key in enumerate(keys.dictionary.to_pylist()):
            table[row, :-1] = _numbers(names, [] if key is None else key.split(_BREAK))
        codes = np.asarray(pc.fill_null(flat.indices, -1)).astype(np.int64)  # the last column of the table is nobody
        sizes = np.asarray(pc.fill_null(pc.list_value_length(owners), 0))
        parents = np.repeat(np.arange(size), sizes)
        numbers = table[design[parents], codes]
        unknown = np.bincount(parents[numbers == UNKNOWN], minlength=size) > 0
        offsets = pa.array(
            np.append(0, np.cumsum(sizes)), pa.int32(), mask=np.append(np.asarray(owners.is_null()), False)
        )
        return pa.ListArray.from_arrays(offsets, pa.array(np.maximum(numbers, NOBODY), pa.int8())), unknown


def find_unknown(owners: Sequence[str | None], rankers: Sequence[str]) -> str:
    """The first owner of a list that is none of its rankers.

    >>> find_unknown([None, "old", "ads"], ["old", "new"])
    'ads'
    """
    names = [owner for owner in owners if owner is not None]
    return names[_numbers(names, rankers).index(UNKNOWN)]


def _numbers(owners: Sequence[str], rankers: Sequence[str]) -> list[int]:
    """The number of each owner; owners may be the numbers of the rankers themselves.

    >>> _numbers(["new", "", "ads"], ["old", "new"]), _numbers(["0", "1"], ["old", "new"])
    ([1, -1, -2], [0, 1])
    """
    places = {name: place for place, name in enumerate(rankers)}
    if not any(owner in places for owner in owners):
        places = {str(place): place for place in range(len(rankers))}
    return [NOBODY if owner in _NOBODY_NAMES else places.get(owner, UNKNOWN) for owner in owners]


def _flat_owners(batch: pa.RecordBatch) -> tuple[pa.Array | None, Array]:
    """The owners of all documents, and the row of each."""
    if "owner" in batch.schema.names:
        return batch.column("owner"), np.arange(len(batch))
    if "owners" not in batch.schema.names:
        return None, np.zeros(0, np.int64)
    owners = batch.column("owners")
    return owners.flatten(), np.asarray(pc.list_parent_indices(owners)).astype(np.int64)


def _designs(batch: pa.RecordBatch) -> tuple[list[Design], Array]:
    """The experiments and versions that occur, and which of them each row has."""
    names = [name for name in ("experiment", "version") if name in batch.schema.names]
    if not names:
        return [()], np.zeros(len(batch), np.int64)
    parts = [pc.fill_null(batch.column(name).cast(pa.string()), "") for name in names]
    encoded = pc.binary_join_element_wise(*parts, _BREAK).dictionary_encode()
    designs = [tuple(text.split(_BREAK)) for text in encoded.dictionary.to_pylist()]
    return designs, np.asarray(encoded.indices).astype(np.int64)
