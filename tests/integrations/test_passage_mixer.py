"""Retrievers that fail, are late, hang or find nothing never break retrieval; the log says what happened."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interleaf import LogWriter, analyze, log
from interleaf.errors import DataError, InterleafError
from interleaf.integrations import FallbackCode, identify_by_content
from interleaf.integrations.passage_mixer import Passage, PassageMixer
from interleaf.integrations.timed_calls import MAX_LATE_CALLS

NAMES = ("dense", "sparse", "hybrid")
TIMEOUT = 0.15


class Doc(NamedTuple):
    id: Any
    text: str = ""


class Retriever:
    """Finds documents, or does what goes wrong."""

    def __init__(self, ids: str, *, error: Exception | None = None, hangs: bool = False, seconds: float = 0.0) -> None:
        self.ids, self.error, self.hangs, self.seconds = ids, error, hangs, seconds
        self.free = threading.Event()

    def __call__(self) -> list[Doc]:
        if self.hangs:
            self.free.wait(20)
        time.sleep(self.seconds)
        if self.error:
            raise self.error
        return [Doc(name, f"text of {name}") for name in self.ids]

    async def task(self) -> list[Doc]:
        while self.hangs and not self.free.is_set():
            await asyncio.sleep(0.01)
        await asyncio.sleep(self.seconds)
        self.hangs = False
        seconds, self.seconds = self.seconds, 0.0
        try:
            return self()
        finally:
            self.seconds = seconds


Ask = Callable[..., list[Passage]]


def ask_in_threads(mixer: PassageMixer, *retrievers: Retriever) -> list[Passage]:
    return mixer.retrieve("question", "user-7", None, dict(zip(NAMES, retrievers, strict=False)))


def ask_in_tasks(mixer: PassageMixer, *retrievers: Retriever) -> list[Passage]:
    calls = dict(zip(NAMES, [one.task for one in retrievers], strict=False))
    return asyncio.run(mixer.retrieve_async("question", "user-7", None, calls))


def ask_functions_in_a_loop(mixer: PassageMixer, *retrievers: Retriever) -> list[Passage]:
    calls = dict(zip(NAMES, retrievers, strict=False))
    return asyncio.run(mixer.retrieve_async("question", "user-7", None, calls))


ways = pytest.mark.parametrize("ask", [ask_in_threads, ask_in_tasks, ask_functions_in_a_loop])


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path, experiment="passages") as writer:
        yield writer


def rows(writer: LogWriter, folder: Path) -> list[dict[str, Any]]:
    writer.flush()
    return [row for batch in log.read(folder) for row in batch.to_pylist()]


def ids(passages: list[Passage]) -> str:
    return "".join(passage.id for passage in passages)


@ways
def test_the_list_is_mixed_and_logged(ask: Ask, writer: LogWriter, tmp_path: Path) -> None:
    mixer = PassageMixer(dict.fromkeys(NAMES[:2]), writer, timeout=5)
    passages = ask(mixer, Retriever("abcd"), Retriever("cdef"))
    (row,) = rows(writer, tmp_path)
    assert (row["arm"], row["rankers"], row["lengths"]) == ("interleaved", list(NAMES[:2]), [4, 4])
    assert (row["unit"], row["query"]) == ("user-7", "question")
    assert row["documents"] == list(ids(passages))
    assert [passage.rank for passage in passages] == [1, 2, 3, 4]
    assert {passage.impression for passage in passages} == {row["impression"]}
    assert [passage.document for passage in passages] == [Doc(name, f"text of {name}") for name in row["documents"]]
    assert all(milliseconds >= 0 for milliseconds in row["latency"])
    assert ids(ask(mixer, Retriever("abcd"), Retriever("cdef"))) == ids(passages)  # of the same user and question
    assert mixer.counts == {}


BROKEN = Retriever("cdef", error=OSError("no connection"))
FALLBACKS: dict[str, tuple[Callable[[], list[Retriever]], str, str]] = {
    "late": (lambda: [Retriever("abcd"), Retriever("cdef", hangs=True)], "abcd", "retriever_late: sparse"),
    "failed": (lambda: [Retriever("abcd"), BROKEN], "abcd", "retriever_failed: sparse"),
    "empty": (lambda: [Retriever("abcd"), Retriever("")], "abcd", "retriever_empty: sparse"),
    "control failed": (lambda: [BROKEN, Retriever("cdef")], "cdef", "retriever_failed: dense"),
    "control late": (lambda: [Retriever("abcd", hangs=True), Retriever("cdef")], "cdef", "retriever_late: dense"),
    "control empty": (lambda: [Retriever(""), Retriever("cdef")], "cdef", "retriever_empty: dense"),
    "control failed, one is first": (
        lambda: [BROKEN, Retriever("cdef", seconds=2 * TIMEOUT), Retriever("gh")],
        "gh",
        "retriever_failed: dense",
    ),
}


@ways
@pytest.mark.parametrize("case", FALLBACKS)
def test_a_fallback_is_shown_logged_and_counted(ask: Ask, case: str, writer: LogWriter, tmp_path: Path) -> None:
    make, shown, reason = FALLBACKS[case]
    retrievers = make()
    mixer = PassageMixer(dict.fromkeys(NAMES[: len(retrievers)]), writer, timeout=TIMEOUT)
    began = time.monotonic()
    passages = ask(mixer, *retrievers)
    for one in retrievers:
        one.free.set()
    assert time.monotonic() - began < 10 * TIMEOUT
    assert ids(passages) == shown
    (row,) = rows(writer, tmp_path)
    assert (row["arm"], row["fallback_reason"], row["documents"]) == ("fallback", reason, list(shown))
    assert mixer.counts == {reason.replace(" ", ""): 1}
    checks = {check.code: check.status for check in analyze(tmp_path, method="single").health}
    assert checks["fallbacks"] == "failed"


@ways
def test_the_control_is_not_kept_waiting_when_another_has_failed(ask: Ask, writer: LogWriter) -> None:
    hung = Retriever("cdef", hangs=True)
    mixer = PassageMixer(dict.fromkeys(NAMES), writer, timeout=20)
    began = time.monotonic()
    assert ids(ask(mixer, Retriever("abcd"), BROKEN, hung)) == "abcd"
    hung.free.set()
    assert time.monotonic() - began < 10


@ways
def test_if_nobody_answers_in_time_the_first_later_answer_counts(ask: Ask, writer: LogWriter) -> None:
    mixer = PassageMixer(dict.fromkeys(NAMES[:2]), writer, timeout=0.01)
    assert ids(ask(mixer, Retriever("abcd", seconds=0.1), Retriever("cdef", seconds=1.0))) == "abcd"
    assert mixer.counts == {"retriever_late:sparse": 1}


@ways
def test_if_all_fail_the_error_of_the_control_is_raised(ask: Ask, writer: LogWriter) -> None:
    mixer = PassageMixer(dict.fromkeys(NAMES[:2]), writer)
    with pytest.raises(OSError, match="no connection"):
        ask(mixer, BROKEN, Retriever("", error=KeyError("other")))
    assert ask(mixer, Retriever(""), BROKEN) == []
    assert ask(mixer, Retriever(""), Retriever("")) == []


@pytest.mark.parametrize("result", [None, 7, object()])
def test_what_is_no_list_of_documents_is_a_failure(result: Any, writer: LogWriter) -> None:
    mixer = PassageMixer(dict.fromkeys(NAMES[:2]), writer)
    calls = {"dense": lambda: iter([Doc("a"), Doc("b")]), "sparse": lambda: result}
    assert ids(mixer.retrieve("q", None, None, calls)) == "ab"
    assert mixer.counts == {FallbackCode.FAILED.of("sparse"): 1}


def test_a_retriever_that_cancels_itself_does_not_cancel_the_program(writer: LogWriter) -> None:
    async def cancel() -> list[Doc]:
        raise asyncio.CancelledError

    mixer = PassageMixer(dict.fromkeys(NAMES[:2]), writer)
    calls: dict[str, Any] = {"dense": cancel, "sparse": Retriever("ab").task}
    assert ids(asyncio.run(mixer.retrieve_async("q", None, None, calls))) == "ab"
    with pytest.raises(TimeoutError, match="'dense' was cancelled"):
        asyncio.run(mixer.retrieve_async("q", None, None, calls | {"sparse": cancel}))


def test_a_program_that_is_cancelled_stops_its_retrievers(writer: LogWriter) -> None:
    slow, ended = Retriever("ab", seconds=30), []

    async def watch() -> list[Doc]:
        try:
            return await slow.task()
        finally:
            ended.append(True)

    async def leave() -> None:
        mixer = PassageMixer(dict.fromkeys(NAMES[:2]), writer, timeout=60)
        asked = asyncio.ensure_future(mixer.retrieve_async("q", None, None, {"dense": watch, "sparse": watch}))
        await asyncio.sleep(0.05)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await asyncio.sleep(0.05)

    asyncio.run(leave())
    assert ended == [True, True]


def test_a_retriever_that_hangs_is_skipped_after_a_while_and_asked_again_later(writer: LogWriter) -> None:
    mixer, hung = PassageMixer(dict.fromkeys(NAMES[:2]), writer, timeout=0.001), Retriever("cdef", hangs=True)
    before = threading.active_count()
    for _ in range(MAX_LATE_CALLS + 5):
        assert ids(ask_in_threads(mixer, Retriever("abcd"), hung)) == "abcd"
    assert mixer.counts[FallbackCode.BUSY.of("sparse")] == 5
    assert threading.active_count() <= before + MAX_LATE_CALLS
    hung.free.set()
    hung.hangs = False
    until = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    patient = PassageMixer(dict.fromkeys(NAMES[:2]), writer, timeout=10)
    patient._calls._late = mixer._calls._late
    assert ids(ask_in_threads(patient, Retriever("abcd"), hung)) != "abcd"


def test_what_cannot_be_identified_or_logged_is_shown_without_an_impression(writer: LogWriter) -> None:
    def fail(document: Doc) -> str:
        raise KeyError("no such field")

    mixer = PassageMixer(dict.fromkeys(NAMES[:2]), writer, identify=fail)
    passages = ask_in_threads(mixer, Retriever("abcd"), Retriever("cdef"))
    assert "".join(passage.document.id for passage in passages) == "abcd"
    assert {passage.impression for passage in passages} == {None}
    assert mixer.counts == {FallbackCode.NOT_MIXED: 1}
    mixer = PassageMixer(dict.fromkeys(NAMES[:2]), writer)
    writer.close()
    passages = ask_in_threads(mixer, Retriever("abcd"), Retriever("cdef"))
    assert ids(passages) != "abcd"  # it is mixed
    assert {passage.impression for passage in passages} == {None}
    assert mixer.counts == {FallbackCode.NOT_LOGGED: 1}


def test_documents_are_the_same_by_id_by_content_or_as_you_say(writer: LogWriter, tmp_path: Path) -> None:
    first, second = [Doc("1", "x"), Doc("2", "y"), Doc("1", "x")], [Doc("8", "y"), Doc("9", "z")]
    calls = {"dense": lambda: first, "sparse": lambda: second}
    nameless = {name: lambda call=call: [Doc(None, one.text) for one in call()] for name, call in calls.items()}
    for options, some in (({}, calls), ({"identify": identify_by_content}, calls), ({}, nameless)):
        PassageMixer(dict.fromkeys(NAMES[:2]), writer, **options).retrieve("q", None, None, some)  # type: ignore[arg-type]
    by_id, by_content, without_id = rows(writer, tmp_path)
    assert (by_id["union"], by_id["lengths"]) == (4, [2, 2])
    assert (by_content["union"], by_content["lengths"]) == (3, [2, 2])
    assert without_id["union"] == 3
    assert set(by_content["documents"]) <= {identify_by_content(Doc(0, text)) for text in "xyz"}


@pytest.mark.parametrize("text", ["\ud800", "a\0b", "x" * 5000, ""])
def test_odd_questions_units_and_ids_are_logged(text: str, writer: LogWriter, tmp_path: Path) -> None:
    mixer = PassageMixer(dict.fromkeys(NAMES[:2]), writer)
    calls = {"dense": lambda: [Doc(text or None, "t"), Doc(7)], "sparse": lambda: [Doc(7), Doc(text or None, "t")]}
    passages = mixer.retrieve(text, text, text, calls)
    assert mixer.counts == {}
    assert {passage.rank for passage in passages} == {1, 2}
    (row,) = rows(writer, tmp_path)
    assert row["impression"] == passages[0].impression
    assert "7" in row["documents"]


def test_all_wrong_settings_are_named_at_once(writer: LogWriter) -> None:
    with pytest.raises(DataError) as raised:
        PassageMixer({"dense": None}, writer, experiment="other", method="balance", k=0, timeout=-1)
    said = [str(problem) for problem in raised.value.problems]
    starts = ("there are 1 retrievers", "k is 0", "timeout is -1", "experiment is 'other'", "unknown method 'balance'")
    assert [problem.startswith(start) for problem, start in zip(said, starts, strict=True)] == [True] * 5, said
    with pytest.raises(DataError, match="there are 0 retrievers"):
        PassageMixer({}, writer)
    with pytest.raises(InterleafError, match="exactly 2 rankers"):
        PassageMixer(dict.fromkeys(NAMES), writer, method="balanced")
    with pytest.raises(DataError, match="LogWriter, a Client or an AsyncClient"):
        PassageMixer(dict.fromkeys(NAMES), object())  # type: ignore[arg-type]
