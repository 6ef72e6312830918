"""Captions with a planted attraction: each of three features of the text has three levels, and says so in the text.

A caption's attraction is the mean of its levels -1, 0 and 1: nothing, one word or three words of the title highlighted;
a long, middling or short URL; a short, middling or long snippet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from interleaf import schema
from interleaf.methods.arrays import Array
from interleaf.simulate.data import Judged

TITLES = (
    "Notes and facts, part {number}",
    "{word}: notes and facts, part {number}",
    "{word}: notes on {word}, facts on {word}, part {number}",
)
URLS = (
    "https://example.org/archive/of/all/pages/by/topic/{word}/part/{number}/index.html",
    "https://example.org/topics/{word}/{number}",
    "https://example.org/{word}-{number}",
)
SNIPPETS = (
    "All of part {number}.",
    "All of part {number}, with what is known so far and where it was found.",
    "All of part {number}, with what is known so far and where it was found, who found it, what others made of it, "
    "and a list of what is still open, by date and by place.",
)


def draw_levels(generator: np.random.Generator, sides: Array, lean: float) -> Array:
    """`[document, feature]`, each of -1, 0, 1; a lean makes the upper level likelier on the first ranker's side."""
    draws = generator.random((len(sides), 3))
    lowest = (1 - lean * sides[:, None]) / 3
    return (draws >= lowest).astype(np.int8) + (draws >= lowest + 1 / 3) - np.int8(1)


def attraction(levels: Array) -> Array:
    """What each caption adds to the logit of a click, in units of `People.captions`."""
    mean: Array = levels.mean(axis=1)
    return mean


def texts(data: Judged, levels: Array) -> pa.Array:
    """The captions of all documents, as the log holds them."""
    captions = list(_texts(data, levels))
    titles, urls, snippets, marks = zip(*captions, strict=True)
    kinds = {column.name: column for column in schema.CAPTION}
    highlights = pa.array(marks, kinds["highlights"].type)
    links = pa.array(np.zeros(len(captions), np.int16))
    columns = [pa.array(titles), pa.array(urls), pa.array(snippets), highlights, links]
    return pa.StructArray.from_arrays(columns, fields=[column.field for column in schema.CAPTION])


def _texts(data: Judged, levels: Array) -> Iterator[tuple[str, str, str, list[dict[str, Any]]]]:
    queries = np.repeat(np.arange(len(data)), np.diff(data.offsets))
    for row, (query, (title, url, snippet)) in enumerate(zip(queries.tolist(), (levels + 1).tolist(), strict=True)):
        word, number = f"q{data.queries[query]}", row - int(data.offsets[query]) + 1
        heading = TITLES[title].format(word=word, number=number)
        address = URLS[url].format(word=word, number=number)
        yield heading, address, SNIPPETS[snippet].format(number=number), list(_highlights("title", heading, word))


def _highlights(field: str, text: str, word: str) -> Iterable[dict[str, Any]]:
    start = text.find(word)
    while start >= 0:
        yield {"field": field, "start": start, "end": start + len(word)}
        start = text.find(word, start + len(word))
