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
from langchain_core.runnables import Runnable, RunnableConfig  # noqa: E402
from langchain_core.runnables.config import ensure_config, patch_config  # noqa: E402
from pydantic import PrivateAttr  # noqa: E402

_CONFIG = "interleaf_config"  # the argument that brings the config of a call to the methods that LangChain calls


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
        self._mixer = PassageMixer(retrievers, log, **options)
        self._retrievers = dict(retrievers)

    @property
    def counts(self) -> dict[str, int]:
        """How often each `FallbackCode` occurred."""
        return self._mixer.counts

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """The mixed documents. The config and other arguments, such as filters, go to every retriever."""
        return super().invoke(input, config, **{**kwargs, _CONFIG: ensure_config(config)})

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """`invoke` for event loops."""
        return await super().ainvoke(input, config, **{**kwargs, _CONFIG: ensure_config(config)})

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        config = patch_config(kwargs.pop(_CONFIG), callbacks=run_manager.get_child())
        calls = {name: partial(one.invoke, query, config, **kwargs) for name, one in self._retrievers.items()}
        return [_add_place(one) for one in self._mixer.retrieve(query, *_asker(run_manager.metadata), calls)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        calls: dict[str, Any] = {}
        config = kwargs.pop(_CONFIG)
        for name, one in self._retrievers.items():
            manager = run_manager if _is_async(one) else run_manager.get_sync()
            call = one.ainvoke if _is_async(one) else one.invoke
            calls[name] = partial(call, query, patch_config(config, callbacks=manager.get_child()), **kwargs)
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
