"""Imports responses of engines with built-in interleaving: Solr's learning to rank, OpenSearch's search relevance.

Both name the ranker of each document, but do not return the rankings: such lists have teams and no ranks. A response
does not contain the user or the time. So each line is an object around it, `{"query_id", "timestamp", "client_id",
"response"}`, or the response with these fields added.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from interleaf.importers.protocol import ImportNote, ImportOptions, ImportResult
from interleaf.importers.ubi import import_records
from interleaf.importers.ubi_records import Record, id_text
from interleaf.log.files import Paths
from interleaf.log.jsonl import LineError

_DEFAULTS = ImportOptions()
SOLR_OWNER = "[interleaving]"
OPENSEARCH_OWNER = "_search_configuration_id"


def import_solr(source: Paths, out: str | Path, options: ImportOptions = _DEFAULTS) -> ImportResult:
    """Import responses of Solr with `[interleaving]`, and clicks: UBI events or lines of `query_id, document, time`."""
    read_answer = partial(solr_query, field=options.id_field)
    return import_records(source, out, replace(options, only_interleaved=True), read_answer)


def import_opensearch(source: Paths, out: str | Path, options: ImportOptions = _DEFAULTS) -> ImportResult:
    """Import responses of OpenSearch whose hits have `_search_configuration_id`, and UBI events."""
    return import_records(source, out, replace(options, only_interleaved=True), opensearch_query)


def solr_query(value: dict[str, Any], counts: Counter[str], field: str = "id") -> tuple[Record, Any]:
    """A query and the owners of its hits, from a response of Solr; `field` is the unique key of its documents.

    >>> answer = {"response": {"docs": [{"id": "a", "[interleaving]": "m1"}, {"id": "b", "[interleaving]": "m2"}]}}
    >>> query, owners = solr_query(answer | {"query_id": "q"}, Counter())
    >>> query.query_response_hit_ids, owners
    (['a', 'b'], ['m1', 'm2'])
    """
    inner = _within(value.get("response"), "response", value)
    documents = _within(inner.get("response"), "docs", inner).get("docs")
    about = {
        "query_id": _find_nested(inner, "ubi", "query_id"),
        "user_query": _find_nested(inner, "responseHeader", "params", "q"),
    }
    return _with_owners(value, about, documents, field, SOLR_OWNER, counts)


def opensearch_query(value: dict[str, Any], counts: Counter[str]) -> tuple[Record, Any]:
    """A query and the owners of its hits, from a response of OpenSearch.

    >>> hits = [{"_id": "a", "_search_configuration_id": "c1"}, {"_id": "b", "_search_configuration_id": "c2"}]
    >>> answer = {"hits": {"hits": hits}, "ext": {"ubi": {"query_id": "q"}}}
    >>> query, owners = opensearch_query({"response": answer}, Counter())
    >>> query.query_response_hit_ids, owners
    (['a', 'b'], ['c1', 'c2'])
    """
    inner = _within(value.get("response"), "hits", value)
    about = {"query_id": _find_nested(inner, "ext", "ubi", "query_id")}
    return _with_owners(value, about, _find_nested(inner, "hits", "hits"), "_id", OPENSEARCH_OWNER, counts)


def _with_owners(
    value: dict[str, Any], about: dict[str, Any], documents: Any, field: str, owner: str, counts: Counter[str]
) -> tuple[Record, Any]:
    if type(documents) is not list or not all(type(document) is dict for document in documents):
        raise LineError(ImportNote.NO_DOCUMENTS)
    hits = [id_text(document.get(field), counts) for document in documents]
    if None in hits:
        raise LineError(ImportNote.DOCUMENT_WITHOUT_ID)
    record = {name: text for name, text in about.items() if text is not None} | value
    query = msgspec.json.decode(msgspec.json.encode(record | {"query_response_hit_ids": hits}), type=Record)
    owners = [id_text(document.get(owner), counts) for document in documents]
    return query, owners if any(owners) else None


def _within(value: Any, name: str, otherwise: dict[str, Any]) -> dict[str, Any]:
    """The value if it is an object with this field, else `otherwise`."""
    return value if type(value) is dict and (name in value or "responseHeader" in value) else otherwise


def _find_nested(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if type(value) is dict else None
    return value
