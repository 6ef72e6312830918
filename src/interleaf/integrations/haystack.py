"""A component for Haystack that mixes the documents of several retrievers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from interleaf.environment import require
from interleaf.integrations.passage_log import Log
from interleaf.integrations.passage_mixer import MixerOptions, Passage, PassageMixer

require("haystack", "the component for Haystack needs", "haystack")

from haystack import Document, component  # noqa: E402


@component
class HaystackRetriever:
    """Mixes the documents of several retrievers, the control first, and logs the list. Use it in place of one of them.

    A retriever is a component whose `run` takes `query` and returns `documents`; a `SuperComponent` makes one of a
    pipeline, such as an embedder and its retriever. Scores of different retrievers cannot be compared, so each document
    has the score 1 / rank. `MixerOptions` explains the other arguments.
    """

    def __init__(self, retrievers: Mapping[str, Any], log: Log, **options: Unpack[MixerOptions]) -> None:
        self._retrievers, self._mixer = dict(retrievers), PassageMixer(list(retrievers), log, **options)

    @property
    def counts(self) -> dict[str, int]:
        """How often each `FallbackCode` occurred."""
        return self._mixer.counts

    def warm_up(self) -> None:
        """Warm up the retrievers that have it, such as those with a model."""
        for retriever in self._retrievers.values():
            if hasattr(retriever, "warm_up"):
                retriever.warm_up()

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        unit: str | None = None,
        session: str | None = None,
        filters: dict[str, Any] | None = None,
    ) -> dict[str, list[Document]]:
        """The mixed documents. `unit` and `session` say who asks; `filters` go to every retriever."""
        calls = {name: partial(_run, one, _inputs(query, filters)) for name, one in self._retrievers.items()}
        passages = self._mixer.retrieve(query, unit, session, calls)
        return {"documents": [_add_place(passage) for passage in passages]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query: str,
        unit: str | None = None,
        session: str | None = None,
        filters: dict[str, Any] | None = None,
    ) -> dict[str, list[Document]]:
        """`run` for event loops."""
        calls: dict[str, Any] = {}
        for name, one in self._retrievers.items():
            calls[name] = partial(_run_async if hasattr(one, "run_async") else _run, one, _inputs(query, filters))
        passages = await self._mixer.retrieve_async(query, unit, session, calls)
        return {"documents": [_add_place(passage) for passage in passages]}


def _inputs(query: str, filters: dict[str, Any] | None) -> dict[str, Any]:
    return {"query": query} | ({} if filters is None else {"filters": filters})


def _run(retriever: Any, inputs: dict[str, Any]) -> list[Document]:
    documents: list[Document] = retriever.run(**inputs)["documents"]
    return documents


async def _run_async(retriever: Any, inputs: dict[str, Any]) -> list[Document]:
    documents: list[Document] = (await retriever.run_async(**inputs))["documents"]
    return documents


def _add_place(passage: Passage) -> Document:
    """A copy of the document with impression and rank: a store may hold the original."""
    document: Document = passage.document
    return replace(document, meta={**document.meta, **passage.metadata}, score=1 / passage.rank)
