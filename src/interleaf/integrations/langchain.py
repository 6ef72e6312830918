"""A retriever for LangChain that mixes the documents of others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

from interleaf.environment import require
from interleaf.integrations.passage_log import Log
from interleaf.integrations.passage_mixer import MixerOptions, Passage, PassageMixer

require("langchain", "the retriever for LangChain needs", "langchain_core")

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun  # noqa: E402
from langchain_core.documents import Document  # noqa: E402
from langchain_core.retrievers import BaseRetriever  # noqa: E402
from langchain_core.runnables import Runnable  # noqa: E402
from pydantic import PrivateAttr  # noqa: E402


class LangChainRetriever(BaseRetriever):
    """Mixes the documents of several retrievers, the control first, and logs the list. Use it in place of one of them.

    The config of a call says who asks: `config={"metadata": {"unit": "user-7", "session": "chat-3"}}`. `MixerOptions`
    explains the other arguments.
    """

    _retrievers: dict[str, Runnable[str, list[Document]]] = PrivateAttr()
    _mixer: PassageMixer = PrivateAttr()

    def __init__(
        self, retrievers: Mapping[str, Runnable[str, list[Document]]], log: Log, **options: Unpack[MixerOptions]
    ) -> None:
        super().__init__()
        self._retrievers, self._mixer = dict(retrievers), PassageMixer(list(retrievers), log, **options)

    @property
    def counts(self) -> dict[str, int]:
        """How often each `FallbackCode` occurred."""
        return self._mixer.counts

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        config = run_manager.get_child()
        calls = {name: partial(one.invoke, query, {"callbacks": config}) for name, one in self._retrievers.items()}
        return [_add_place(one) for one in self._mixer.retrieve(query, *_asker(run_manager.metadata), calls)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        calls: dict[str, Any] = {}
        for name, one in self._retrievers.items():
            manager = run_manager if _is_async(one) else run_manager.get_sync()
            call = one.ainvoke if _is_async(one) else one.invoke
            calls[name] = partial(call, query, {"callbacks": manager.get_child()})
        passages = await self._mixer.retrieve_async(query, *_asker(run_manager.metadata), calls)
        return [_add_place(one) for one in passages]


def _is_async(retriever: Any) -> bool:
    """Whether a retriever has asynchronous code of its own. LangChain runs others in a pool of few threads."""
    own = getattr(type(retriever), "_aget_relevant_documents", None)
    return own is None or own.__module__ != BaseRetriever.__module__


def _asker(metadata: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """The unit and the session."""
    return (metadata or {}).get("unit"), (metadata or {}).get("session")


def _add_place(passage: Passage) -> Document:
    """A copy of the document with impression and rank: a store may hold the original."""
    document: Document = passage.document
    return document.model_copy(update={"metadata": {**document.metadata, **passage.metadata}})
