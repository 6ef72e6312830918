"""The integers of an impression as bytes, from which the columns of many impressions are decoded at once.

The bytes are 32-bit integers: the union, whether the list was relaxed, the number n of rankers with ranks, the sizes of
five lists (-1: null), and these lists in sequence; the last one, latencies, as 32-bit floats. If -1 - n is in the place
of n, ranks of unshown documents follow. If 4 is added to `relaxed`, the number of texts and the length of each (-1:
null) stand before them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from itertools import chain
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa

from interleaf.interleaving.rankings import MAX_RANKERS
from interleaf.kernels.arrays import Array
from interleaf.log import schema

LISTS = ("ranks", "teams", "lengths", "choices", "latency")
NUMBER_COLUMNS = (*LISTS, "unshown_ranks", "union", "relaxed", "characters")
HEADER = 3 + len(LISTS)
_HAS_CHARACTERS = 4  # added to `relaxed`, which is -1 to 1
_TYPES = {name: schema.SCHEMA.field(name).type for name in NUMBER_COLUMNS}


def pack_numbers(row: Mapping[str, Any]) -> bytes:
    """The values of `NUMBER_COLUMNS` as bytes; other names are ignored.

    >>> row = {"ranks": [[1, 2], [2, 1]], "teams": [0, 1], "relaxed": False}
    >>> {name: value for name, value in unpack_numbers(pack_numbers(row)).items() if value is not None}
    {'ranks': [[1, 2], [2, 1]], 'teams': [0, 1], 'relaxed': False}
    """
    ranks, teams, lengths, choices, latency, unshown, union, relaxed, characters = map(row.get, NUMBER_COLUMNS)
    flat, unshown_flat, rankers = _bytes_of(ranks), _bytes_of(unshown), 0 if ranks is None else len(ranks)
    numbers = [-1 if union is None else union, -1 if relaxed is None else int(relaxed)]
    numbers += rankers if unshown is None else -1 - rankers, -1 if ranks is None else len(flat) // 4
    numbers += [-1 if one is None else len(one) for one in (teams, lengths, choices, latency)]
    lists = (*(teams or ()), *(lengths or ()), *(choices or ()))
    floats = array("f", [nan if number is None else number for number in latency]) if latency else b""
    texts = b""
    if characters is not None:
        numbers[1] += _HAS_CHARACTERS
        texts = array("i", [len(characters), *(-1 if one is None else one for one in characters)]).tobytes()
    return b"".join((array("i", numbers), flat, array("i", lists), floats, texts, unshown_flat))


def _bytes_of(ranks: Any) -> bytes:
    """Ranks as 32-bit integers, from lists or from an array of such integers."""
    if isinstance(ranks, np.ndarray):
        return ranks.tobytes()
    return b"" if ranks is None else array("i", chain.from_iterable(ranks)).tobytes()


def unpack_numbers(packed: bytes) -> dict[str, Any]:
    """The values of `NUMBER_COLUMNS`."""
    numbers = array("i", packed)
    union, relaxed, rankers, *sizes = numbers[:HEADER]
    row: dict[str, Any] = {}
    start, has_characters = HEADER, relaxed > 1
    relaxed -= _HAS_CHARACTERS * has_characters
    for name, size in zip(LISTS, sizes, strict=True):
        end = start + max(size, 0)
        values = array("f", numbers[start:end].tobytes()) if name == "latency" else numbers[start:end]
        row[name] = None if size < 0 else values.tolist()
        start = end
    row["characters"] = None
    if has_characters:
        end = start + 1 + numbers[start]
        row["characters"] = [None if one < 0 else one for one in numbers[start + 1 : end]]
        start = end
    row["unshown_ranks"] = numbers[start:].tolist() if rankers < 0 else None
    row |= {"union": None if union < 0 else union, "relaxed": None if relaxed < 0 else bool(relaxed)}
    rankers = max(rankers, -1 - rankers)
    for name in ("ranks", "unshown_ranks"):
        if row[name] is not None and rankers:
            flat, width = row[name], len(row[name]) // rankers
            row[name] = [flat[place * width : (place + 1) * width] for place in range(rankers)]
    if row["latency"] is not None:
        row["latency"] = [None if number != number else number for number in row["latency"]]
    return row


def number_columns(data: Array, starts: Array, ends: Array) -> tuple[dict[str, pa.Array], Array]:
    """The columns of many rows, and the number of documents of each; row n is `data[starts[n]:ends[n]]`."""
    header = data[starts[:, None] + np.arange(HEADER)]
    union, relaxed, rankers = header[:, :3].T
    has_characters = relaxed > 1
    relaxed = relaxed - _HAS_CHARACTERS * has_characters
    columns = {"union": pa.array(union, mask=union < 0), "relaxed": pa.array(relaxed > 0, mask=relaxed < 0)}
    has_unshown, rankers = rankers < 0, np.maximum(rankers, -1 - rankers)
    starts, shown = starts + HEADER, np.zeros(0, np.int64)
    for name, sizes in zip((*LISTS, "characters", "unshown_ranks"), (*header[:, 3:].T, None, None), strict=True):
        if name == "characters":
            sizes, starts = _text_counts(data, starts, has_characters), starts + has_characters
        elif name == "unshown_ranks":
            sizes = np.where(has_unshown, ends - starts, -1)
        counts = np.maximum(sizes, 0).astype(np.int64)
        values = data[ranges_of(starts, counts)]
        values = values.view(np.float32) if name == "latency" else values
        starts = starts + counts
        inner = pa.array(values, mask=values < 0 if name == "characters" else None, from_pandas=name == "latency")
        if name in ("ranks", "unshown_ranks"):
            each = counts // np.maximum(rankers, 1)
            inner = pa.ListArray.from_arrays(offsets_of(np.repeat(each, rankers)), inner)
            shown = each if name == "ranks" else shown
            counts = rankers.astype(np.int64)
        outer = pa.ListArray.from_arrays(offsets_of(counts), inner, mask=pa.array(sizes < 0))
        columns[name] = outer.cast(_TYPES[name])
    return columns, shown


def _text_counts(data: Array, starts: Array, has_characters: Array) -> Array:
    """How many lengths of texts each row has; -1 for none."""
    counts = np.full(len(starts), -1, np.int64)
    counts[has_characters] = data[starts[has_characters]]
    return counts


def check_numbers(data: Array, starts: Array, ends: Array) -> None:
    """Raise a ValueError if `number_columns` cannot decode all of these rows."""
    if not len(starts):
        return
    if (ends - starts).min() < HEADER:
        raise ValueError("numbers end before their sizes")
    header = data[starts[:, None] + np.arange(HEADER)].astype(np.int64)
    has_unshown, rankers = header[:, 2] < 0, np.maximum(header[:, 2], -1 - header[:, 2])
    rest, has_characters = ends - starts - HEADER - np.maximum(header[:, 3:], 0).sum(axis=1), header[:, 1] > 1
    is_sound = (rest >= has_characters) & (rankers <= MAX_RANKERS)
    texts = _text_counts(data, ends - rest, has_characters & is_sound)
    is_sound &= (texts >= 0) | ~has_characters
    unshown = rest - has_characters - np.maximum(texts, 0)
    is_sound &= has_unshown | (unshown == 0)
    for count in (np.maximum(header[:, 3], 0), unshown):
        is_sound &= (count >= 0) & (count % np.maximum(rankers, 1) == 0) & ((rankers > 0) | (count == 0))
    if not is_sound.all():
        raise ValueError("numbers do not fit their sizes")


def ranges_of(starts: Array, counts: Array) -> Array:
    """The numbers from each start on, as many as each count.

    >>> ranges_of(np.array([10, 20]), np.array([3, 2])).tolist()
    [10, 11, 12, 20, 21]
    """
    return np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())


def offsets_of(sizes: Array) -> pa.Array:
    """Where lists of these sizes start and end, one after the other."""
    return pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
