"""The (query, document) pairs that a model was fitted on, numbered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interleaf.clicks.pages import Pages
from interleaf.errors import ClickError
from interleaf.methods.arrays import Array


@dataclass(frozen=True)
class Pairs:
    """Sorted keys `query * document_count + document`; a pair's number is its place among them."""

    keys: Array
    query_count: int
    document_count: int

    @classmethod
    def of(cls, pages: Pages) -> Pairs:
        """All pairs on these pages."""
        keys = _keys(pages.queries[:, None], pages.documents, pages.document_count)[pages.shown]
        return cls(np.unique(keys), pages.query_count, pages.document_count)

    def __len__(self) -> int:
        return len(self.keys)

    def on(self, pages: Pages) -> Array:
        """The number of the pair at each place, `[page, rank]`; -1 for one never seen, and where nothing is shown."""
        if (pages.query_count, pages.document_count) != (self.query_count, self.document_count):
            raise ClickError(
                f"the model was fitted on {self.query_count} queries and {self.document_count} documents, these pages "
                f"number {pages.query_count} and {pages.document_count}; split one log so that numbers mean the same"
            )
        return np.where(pages.shown, self.find(pages.queries[:, None], pages.documents), -1)

    def find(self, queries: Array, documents: Array) -> Array:
        """The number of each pair, -1 for one never seen."""
        keys = _keys(queries, documents, self.document_count)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, at, -1)


def _keys(queries: Array, documents: Array, document_count: int) -> Array:
    return np.asarray(queries.astype(np.int64) * document_count + documents)
