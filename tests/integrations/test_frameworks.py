"""The retrievers in the real frameworks: in their chains, query engines and pipelines, and without any connection."""

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from interleaf import LogWriter, log
from interleaf.errors import DataError
from interleaf.integrations import log_citations, log_citations_async

pytest.importorskip("langchain_core", reason="comes with the extra integration")
pytest.importorskip("llama_index.core", reason="comes with the extra integration")
pytest.importorskip("haystack", reason="comes with the extra integration")

import haystack
from haystack.components.builders import PromptBuilder
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    BaseCallbackHandler,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever as LlamaBase
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms.mock import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.schema import MetadataMode, Node, NodeWithScore, QueryBundle, TextNode

from interleaf.integrations.haystack import HaystackRetriever
from interleaf.integrations.langchain import LangChainRetriever
from interleaf.integrations.llama_index import AskedQuery, LlamaIndexRetriever

DENSE, SPARSE = ("a", "b", "c", "d"), ("c", "d", "e", "f")
ADDED = {"interleaf_impression", "interleaf_rank", "interleaf_document"}


@pytest.fixture(autouse=True)
def _no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be downloaded, and nobody is told."""

    def refuse(*arguments: Any) -> None:
        raise AssertionError(f"a connection to {arguments[-1]!r}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path, experiment="passages") as writer:
        yield writer


def rows(writer: LogWriter, folder: Path) -> list[dict[str, Any]]:
    writer.flush()
    return [row for batch in log.read(folder) for row in batch.to_pylist()]


class LangChainSource(BaseRetriever):
    """A retriever with documents of a store, which nobody may change."""

    documents: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self.documents


class AsyncLangChainSource(LangChainSource):
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        await asyncio.sleep(0)
        return self.documents


def stored(ids: tuple[str, ...]) -> list[Document]:
    return [Document(f"text of {name}", id=name, metadata={"source": "guide"}) for name in ids]


def langchain(writer: Any, **options: Any) -> LangChainRetriever:
    dense, sparse = LangChainSource(documents=stored(DENSE)), AsyncLangChainSource(documents=stored(SPARSE))
    return LangChainRetriever({"dense": dense, "sparse": sparse}, writer, timeout=60, **options)


def check_row(row: Mapping[str, Any], documents: list[str | None]) -> None:
    assert (row["arm"], row["rankers"]) == ("interleaved", ["dense", "sparse"])
    assert (row["unit"], row["session"], row["query"]) == ("user-7", "chat-3", "which?")
    assert row["documents"] == documents
    assert row["characters"] == [len(f"text of {name}") for name in documents]


def test_langchain_in_a_chain_with_config(writer: LogWriter, tmp_path: Path) -> None:
    chain = langchain(writer) | RunnableLambda(lambda documents: documents)
    config: Any = {"metadata": {"unit": "user-7", "session": "chat-3"}}
    documents = chain.invoke("which?", config)
    again = asyncio.run(chain.ainvoke("which?", config))
    first, second = rows(writer, tmp_path)
    for row, shown in ((first, documents), (second, again)):
        check_row(row, [document.id for document in shown])
        assert [document.metadata["interleaf_rank"] for document in shown] == [1, 2, 3, 4]
        assert {document.metadata["interleaf_impression"] for document in shown} == {row["impression"]}
        assert all(document.metadata.keys() == ADDED | {"source"} for document in shown)
    assert [document.id for document in documents] == [document.id for document in again]


def test_langchain_batches_and_leaves_stored_documents_alone(writer: LogWriter, tmp_path: Path) -> None:
    source = LangChainSource(documents=stored(DENSE))
    retriever = LangChainRetriever({"one": source, "other": source}, writer, k=2, timeout=60)
    answers = retriever.batch(["x", "y", "z"])
    assert [len(documents) for documents in answers] == [2, 2, 2]
    assert len({document.metadata["interleaf_impression"] for documents in answers for document in documents}) == 3
    assert source.documents == stored(DENSE)
    assert len(rows(writer, tmp_path)) == 3
    assert retriever.counts == {}


def _is_public(document: Document) -> bool:
    return bool(document.metadata["is_public"])


def permitted(writer: LogWriter) -> LangChainRetriever:
    """Two retrievers of a vector store; one has asynchronous code of its own, the other is a chain."""
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    texts = [Document(f"text {n}", id=f"d{n}", metadata={"is_public": n % 2 == 0}) for n in range(8)]
    store.add_documents(texts)
    field = ConfigurableField(id="search_kwargs")
    plain = store.as_retriever(search_kwargs={"k": 3}).configurable_fields(search_kwargs=field)
    mixed = store.as_retriever(search_type="mmr", search_kwargs={"k": 3}).configurable_fields(search_kwargs=field)
    return LangChainRetriever({"plain": plain, "mixed": mixed}, writer, k=6, timeout=60)


CONFIGURED: Any = {"configurable": {"search_kwargs": {"k": 3, "filter": _is_public}}, "run_name": "mine"}
CALLS: dict[str, Callable[[LangChainRetriever], list[Document]]] = {
    "invoke": lambda retriever: retriever.invoke("which?", filter=_is_public),
    "ainvoke": lambda retriever: asyncio.run(retriever.ainvoke("which?", filter=_is_public)),
    "batch": lambda retriever: retriever.batch(["which?", "who?"], filter=_is_public)[1],
    "abatch": lambda retriever: asyncio.run(retriever.abatch(["which?", "who?"], filter=_is_public))[1],
    "bind": lambda retriever: retriever.bind(filter=_is_public).invoke("which?"),
    "configurable": lambda retriever: retriever.invoke("which?", CONFIGURED),
    "aconfigurable": lambda retriever: asyncio.run(retriever.ainvoke("which?", CONFIGURED)),
    "with_config": lambda retriever: retriever.with_config(CONFIGURED).invoke("which?"),
}


@pytest.mark.parametrize("call", CALLS)
def test_langchain_passes_filters_to_every_retriever(call: str, writer: LogWriter, tmp_path: Path) -> None:
    retriever = permitted(writer)
    documents = CALLS[call](retriever)
    assert len(documents) >= 3
    assert {document.id for document in documents} <= {"d0", "d2", "d4", "d6"}
    assert rows(writer, tmp_path)[0]["lengths"] == [3, 3]
    assert {document.metadata["is_public"] for document in retriever.invoke("which?")} == {True, False}
    assert retriever.counts == {}


def test_langchain_traces_each_retriever_below_the_mixed_one(writer: LogWriter) -> None:
    started = []

    class Tracer(BaseCallbackHandler):
        def on_retriever_start(self, serialized: Any, query: str, **told: Any) -> None:
            started.append((told["name"], told["run_id"], told["parent_run_id"], sorted(told["tags"])))

    config: Any = {"callbacks": [Tracer()], "run_name": "mine", "run_id": uuid4(), "tags": ["test"]}
    langchain(writer).invoke("which?", config)
    (name, run, parent, tags), *children = started
    assert (name, parent, tags) == ("mine", None, ["test"])
    assert sorted(child[0] for child in children) == ["AsyncLangChainSource", "LangChainSource"]
    assert {child[2] for child in children} == {run}
    assert [child[3] for child in children] == [["test"]] * 2


class LlamaSource(LlamaBase):
    def __init__(self, ids: tuple[str, ...]) -> None:
        super().__init__()
        self.nodes = [NodeWithScore(node=TextNode(text=f"text of {name}", id_=name), score=0.3) for name in ids]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.nodes


class AsyncLlamaSource(LlamaSource):
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await asyncio.sleep(0)
        return self.nodes


def test_llama_index_in_a_query_engine(writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {"dense": LlamaSource(DENSE), "sparse": AsyncLlamaSource(SPARSE)}
    retriever = LlamaIndexRetriever(sources, writer, timeout=60)
    monkeypatch.setattr(Settings, "_llm", MockLLM())
    engine = RetrieverQueryEngine(retriever, get_response_synthesizer(response_mode=ResponseMode.NO_TEXT))
    query = AskedQuery("which?", unit="user-7", session="chat-3")
    nodes = engine.query(query).source_nodes
    again = asyncio.run(engine.aquery(query)).source_nodes
    first, second = rows(writer, tmp_path)
    for row, shown in ((first, nodes), (second, again)):
        check_row(row, [node.node_id for node in shown])
        assert [node.score for node in shown] == [1, 1 / 2, 1 / 3, 1 / 4]
        assert all(node.metadata.keys() == ADDED for node in shown)
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):  # what is added stays out of the prompt
            assert [node.node.get_content(mode) for node in shown] == [f"text of {name}" for name in row["documents"]]
    assert all(not node.metadata for node in sources["dense"].nodes)
    plain = retriever.retrieve("which?")
    assert len(plain) == 4
    assert rows(writer, tmp_path)[-1]["unit"] is None


def test_nodes_without_text_are_mixed(writer: LogWriter, tmp_path: Path) -> None:
    source = LlamaSource(("a",))
    source.nodes.append(NodeWithScore(node=Node(id_="picture")))
    retriever = LlamaIndexRetriever({"one": source, "other": source}, writer, timeout=60)
    assert {node.node_id for node in retriever.retrieve("which?")} == {"a", "picture"}
    (row,) = rows(writer, tmp_path)
    assert dict(zip(row["documents"], row["characters"], strict=True)) == {"a": 9, "picture": None}
    assert retriever.counts == {}


def test_each_index_of_llama_index_embeds_the_query_with_its_own_model(writer: LogWriter) -> None:
    texts = [TextNode(text=f"text {number}", id_=f"n{number}") for number in range(3)]
    sources = {
        f"size-{size}": VectorStoreIndex(texts, embed_model=MockEmbedding(size)).as_retriever(similarity_top_k=3)
        for size in (4, 8)
    }
    retriever = LlamaIndexRetriever(sources, writer, timeout=60)
    query = AskedQuery("which?")
    assert len(retriever.retrieve(query)) == 3
    assert len(asyncio.run(retriever.aretrieve(query))) == 3
    assert query.embedding is None
    assert retriever.counts == {}


@haystack.component
class HaystackSource:
    def __init__(self, ids: tuple[str, ...]) -> None:
        self.documents = [haystack.Document(id=name, content=f"text of {name}", score=0.3) for name in ids]
        self.is_warm = False

    def warm_up(self) -> None:
        self.is_warm = True

    @haystack.component.output_types(documents=list[haystack.Document])
    def run(self, query: str) -> dict[str, Any]:
        assert self.is_warm
        return {"documents": self.documents}


@haystack.component
class AsyncHaystackSource(HaystackSource):
    @haystack.component.output_types(documents=list[haystack.Document])
    async def run_async(self, query: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"documents": self.documents}


def test_haystack_in_a_pipeline(writer: LogWriter, tmp_path: Path) -> None:
    sources = {"dense": HaystackSource(DENSE), "sparse": AsyncHaystackSource(SPARSE)}
    retriever = HaystackRetriever(sources, writer, timeout=60)
    pipeline = haystack.Pipeline()
    pipeline.add_component("retriever", retriever)
    template = "{% for document in documents %}[{{ loop.index }}] {{ document.content }}\n{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables=["documents"]))
    pipeline.connect("retriever.documents", "prompt.documents")
    asked: Any = {"query": "which?", "unit": "user-7", "session": "chat-3"}
    result = pipeline.run({"retriever": asked}, include_outputs_from={"retriever"})
    documents = result["retriever"]["documents"]
    again = asyncio.run(retriever.run_async(**asked))["documents"]
    first, second = rows(writer, tmp_path)
    for row, shown in ((first, documents), (second, again)):
        check_row(row, [document.id for document in shown])
        assert [document.score for document in shown] == [1, 1 / 2, 1 / 3, 1 / 4]
        assert all(document.meta.keys() == ADDED for document in shown)
    assert result["prompt"]["prompt"].splitlines()[0] == f"[1] text of {documents[0].id}"
    assert all(not document.meta for document in sources["dense"].documents)


def test_haystack_with_its_own_retrievers_and_filters(writer: LogWriter, tmp_path: Path) -> None:
    store = InMemoryDocumentStore()
    documents = [
        haystack.Document(content=f"a guide to {name}", meta={"year": 2020 + i}) for i, name in enumerate("abcdef")
    ]
    store.write_documents(documents)
    sources = {"six": InMemoryBM25Retriever(store, top_k=6), "three": InMemoryBM25Retriever(store, top_k=3)}
    retriever = HaystackRetriever(sources, writer, k=3, timeout=60)
    found = retriever.run("guide", filters={"field": "meta.year", "operator": ">=", "value": 2023})["documents"]
    assert {document.meta["year"] for document in found} <= {2023, 2024, 2025}
    assert rows(writer, tmp_path)[0]["lengths"] == [3, 3]


def tenants(top_k: int) -> InMemoryBM25Retriever:
    store = InMemoryDocumentStore()
    store.write_documents([haystack.Document(content=f"a guide to {n}", meta={"tenant": n % 2}) for n in range(8)])
    return InMemoryBM25Retriever(store, top_k=top_k)


OWN: Any = {"field": "meta.tenant", "operator": "==", "value": 1}


def run_directly(retriever: HaystackRetriever, **inputs: Any) -> list[haystack.Document]:
    return retriever.run(**inputs)["documents"]


def run_in_loop(retriever: HaystackRetriever, **inputs: Any) -> list[haystack.Document]:
    return asyncio.run(retriever.run_async(**inputs))["documents"]


def run_in_pipeline(retriever: HaystackRetriever, **inputs: Any) -> list[haystack.Document]:
    pipeline = haystack.Pipeline()
    pipeline.add_component("retriever", retriever)
    found: list[haystack.Document] = pipeline.run({"retriever": inputs})["retriever"]["documents"]
    return found


@pytest.mark.parametrize("run", [run_in_pipeline, run_in_loop])
def test_haystack_passes_filters_and_top_k_to_every_retriever(run: Any, writer: LogWriter, tmp_path: Path) -> None:
    retriever = HaystackRetriever({"four": tenants(4), "six": tenants(6)}, writer, timeout=60)
    documents = run(retriever, query="guide", filters=OWN, top_k=2)
    assert [document.meta["tenant"] for document in documents] == [1, 1]
    assert rows(writer, tmp_path)[0]["lengths"] == [2, 2]


@pytest.mark.parametrize("run", [run_directly, run_in_loop])
def test_haystack_never_asks_a_component_that_would_ignore_filters(run: Any, writer: LogWriter) -> None:
    inner = haystack.Pipeline()
    inner.add_component("found", tenants(6))
    inputs, outputs = {"query": ["found.query"]}, {"found.documents": "documents"}
    deaf = haystack.SuperComponent(inner, input_mapping=inputs, output_mapping=outputs)
    retriever = HaystackRetriever({"four": tenants(4), "deaf": deaf}, writer, timeout=60)
    assert {document.meta["tenant"] for document in run(retriever, query="guide", filters=OWN)} == {1}
    assert retriever.counts == {"retriever_failed:deaf": 1}
    assert len(run(retriever, query="guide")) == 4
    assert retriever.counts == {"retriever_failed:deaf": 1}
    with pytest.raises(DataError, match="SuperComponent has no input 'filters'; add it"):
        run(HaystackRetriever({"deaf": deaf, "also": deaf}, writer, timeout=60), query="guide", filters=OWN)


@pytest.mark.parametrize("kind", [LangChainRetriever, LlamaIndexRetriever, HaystackRetriever])
def test_retrievers_without_names_are_refused(kind: Any, writer: LogWriter) -> None:
    for wrong in ([1, 2], ["one", "other"], {1: None, 2: None}, object()):
        with pytest.raises(DataError, match="give a dict from names to retrievers, the control first"):
            kind(wrong, writer)


SHOWN: dict[str, Callable[[LogWriter], list[Any]]] = {
    "langchain": lambda writer: langchain(writer).invoke("which?"),
    "llama-index": lambda writer: LlamaIndexRetriever(
        {"dense": LlamaSource(DENSE), "sparse": LlamaSource(SPARSE)}, writer, timeout=60
    ).retrieve("which?"),
    "haystack": lambda writer: _warm(
        HaystackRetriever({"dense": HaystackSource(DENSE), "sparse": HaystackSource(SPARSE)}, writer, timeout=60)
    ).run("which?")["documents"],
}


def _warm(retriever: Any) -> Any:
    retriever.warm_up()
    return retriever


@pytest.mark.parametrize("framework", SHOWN)
def test_citations_are_events_at_the_shown_ranks(framework: str, writer: LogWriter, tmp_path: Path) -> None:
    documents = SHOWN[framework](writer)
    cited = log_citations(writer, "Yes [2], no [4][2].", documents[::-1])  # the program turned the passages round
    assert (cited.numbers, cited.unknown, cited.logged) == ((2, 4), 0, 2)
    by_id = asyncio.run(log_citations_async(writer, f"Yes [doc:{_id(documents[1])}].", documents))
    assert by_id.numbers == (2,)
    (row,) = rows(writer, tmp_path)
    assert sorted((event["kind"], event["rank"]) for event in row["events"]) == [
        ("citation", 1),
        ("citation", 2),
        ("citation", 3),
    ]


def _id(document: Any) -> str:
    return str(getattr(document, "node_id", None) or document.id)
