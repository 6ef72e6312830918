"""Reads documents of LangChain, LlamaIndex and Haystack: their id, their text, and what this package adds to them."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from interleaf.client.visitors import clean_text
from interleaf.errors import DataError
from interleaf.experiment.limits import MAX_DOCUMENT
from interleaf.interleaving.rankings import text_id

# What is added to the metadata of a document: the impression, the rank in the list, and the id of the document.
IMPRESSION, RANK, DOCUMENT = ADDED = ("interleaf_impression", "interleaf_rank", "interleaf_document")


class ShownPassage(NamedTuple):
    """Where a document was shown: its impression (None: not logged), rank and id."""

    impression: str | None
    rank: int
    document: str


def text_of(document: Any) -> str | None:
    """The text of a document; None if it has none, such as a picture."""
    holder = getattr(document, "node", document)  # LlamaIndex has a node and its score
    for name in ("page_content", "content", "text"):
        if isinstance(text := getattr(holder, name, None), str):
            return text
    return None


def identify_document(document: Any) -> str | int:
    """The id of a document, or a hash of its text if it has no id."""
    value = getattr(document, "node_id", None) or getattr(document, "id", None)
    return value if value is not None and value != "" else identify_by_content(document)


def identify_by_content(document: Any) -> str:
    """A hash of the text of a document, for retrievers that give the same passage different ids."""
    text = text_of(document)
    if text is None:
        raise DataError(f"a document of type {type(document).__name__} has neither id nor text; give `identify`")
    return _hash(text)


def check_id(value: object) -> str:
    """An id as text, as a log takes it; a hash of it if it is too long or holds characters that a log cannot hold."""
    name = text_id(value)
    if not name:
        raise DataError(f"the id of a document is {value!r:.100}; `identify` returns a text or a whole number")
    return name if name == clean_text(name, MAX_DOCUMENT) else _hash(name)


def place_of(document: Any) -> ShownPassage | None:
    """Where a document was shown, from its metadata; None if it does not come from a retriever of this package."""
    metadata = getattr(document, "metadata", None) or getattr(document, "meta", None)
    if not isinstance(metadata, dict) or not set(ADDED) <= metadata.keys():
        return None
    impression, rank, name = (metadata[key] for key in ADDED)
    is_sound = isinstance(impression, str | None) and isinstance(rank, int) and isinstance(name, str)
    return ShownPassage(impression, rank, name) if is_sound else None


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
