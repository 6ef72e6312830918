"""A retriever for LlamaIndex that mixes the nodes of others."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

from interleaf.environment import require
from interleaf.integrations.passage_log import Log
from interleaf.integrations.passage_mixer import MixerOptions, Passage, PassageMixer

require("llama-index", "the retriever for LlamaIndex needs", "llama_index.core")

from llama_index.core.base.base_retriever import BaseRetriever  # noqa: E402
from llama_index.core.schema import NodeWithScore, QueryBundle  # noqa: E402


@dataclass
class AskedQuery(QueryBundle):
    """A query that says who asks: the unit, such as a user or a conversation, and the session."""

    unit: str | None = None
    session: str | None = None


class LlamaIndexRetriever(BaseRetriever):
    """Mixes the nodes of several retrievers, the control first, and logs the list. Use it in place of one of them.

    Ask with `AskedQuery("...", unit="user-7", session="chat-3")` to say who asks. Scores of different retrievers
    cannot be compared, so each node has the score 1 / rank. `MixerOptions` explains the other arguments. Each retriever
    gets a copy of the query, because retrievers write the embedding of their model into it.
    """

    def __init__(self, retrievers: Mapping[str, BaseRetriever], log: Log, **options: Unpack[MixerOptions]) -> None:
        super().__init__()
        self._mixer = PassageMixer(retrievers, log, **options)
        self._retrievers = dict(retrievers)

    @property
    def counts(self) -> dict[str, int]:
        """How often each `FallbackCode` occurred."""
        return self._mixer.counts

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        calls = {name: partial(one.retrieve, copy(query_bundle)) for name, one in self._retrievers.items()}
        return [_add_place(one) for one in self._mixer.retrieve(*_read_query(query_bundle), calls)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        calls = {name: _call(one, copy(query_bundle)) for name, one in self._retrievers.items()}
        return [_add_place(one) for one in await self._mixer.retrieve_async(*_read_query(query_bundle), calls)]


def _call(retriever: BaseRetriever, query: QueryBundle) -> Any:
    """A call for an event loop; a retriever without asynchronous code of its own would block the loop."""
    if type(retriever)._aretrieve is BaseRetriever._aretrieve:
        return partial(retriever.retrieve, query)

    async def call() -> list[NodeWithScore]:
        return await retriever.aretrieve(query)

    return call


def _read_query(query: QueryBundle) -> tuple[str, Any, Any]:
    """The text, the unit and the session."""
    return query.query_str, getattr(query, "unit", None), getattr(query, "session", None)


def _add_place(passage: Passage) -> NodeWithScore:
    """A copy of the node with impression and rank in its metadata, which models and embeddings do not see."""
    node, added = passage.document.node, passage.metadata
    hidden = {
        name: [*getattr(node, name), *added] for name in ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys")
    }
    marked = node.model_copy(update={"metadata": {**node.metadata, **added}, **hidden})
    return NodeWithScore(node=marked, score=1 / passage.rank)
