"""A component for Haystack that mixes the documents of several retrievers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from interleaf.environment import require
from interleaf.errors import DataError
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
        self._mixer = PassageMixer(retrievers, log, **options)
        self._retrievers = dict(retrievers)

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
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """The mixed documents. `unit` and `session` say who asks; `filters` and `top_k` go to every retriever."""
        inputs = _inputs(query, filters, top_k)
        calls = {name: partial(_run, one, inputs) for name, one in self._retrievers.items()}
        passages = self._mixer.retrieve(query, unit, session, calls)
        return {"documents": [_add_place(passage) for passage in passages]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query: str,
        unit: str | None = None,
        session: str | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """`run` for event loops."""
        inputs = _inputs(query, filters, top_k)
        calls: dict[str, Any] = {}
        for name, one in self._retrievers.items():
            calls[name] = partial(_run_async if hasattr(one, "run_async") else _run, one, inputs)
        passages = await self._mixer.retrieve_async(query, unit, session, calls)
        return {"documents": [_add_place(passage) for passage in passages]}


def _inputs(query: str, filters: dict[str, Any] | None, top_k: int | None) -> dict[str, Any]:
    inputs = {"query": query, "filters": filters, "top_k": top_k}
    return {name: value for name, value in inputs.items() if value is not None}


def _check_inputs(retriever: Any, inputs: dict[str, Any]) -> None:
    """Raise an error for inputs that a retriever does not have: a `SuperComponent` would ignore them."""
    if unknown := [name for name in inputs if name not in retriever.__haystack_input__]:
        raise DataError(
            f"{type(retriever).__name__} has no input {' and no input '.join(map(repr, unknown))}; "
            "add it to the component (input_mapping of a SuperComponent), or do not give it"
        )


def _run(retriever: Any, inputs: dict[str, Any]) -> list[Document]:
    _check_inputs(retriever, inputs)
    documents: list[Document] = retriever.run(**inputs)["documents"]
    return documents


async def _run_async(retriever: Any, inputs: dict[str, Any]) -> list[Document]:
    _check_inputs(retriever, inputs)
    documents: list[Document] = (await retriever.run_async(**inputs))["documents"]
    return documents


def _add_place(passage: Passage) -> Document:
    """A copy of the document with impression and rank: a store may hold the original."""
    document: Document = passage.document
    return replace(document, meta={**document.meta, **passage.metadata}, score=1 / passage.rank)
