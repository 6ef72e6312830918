"""Citations in answers: every form, hostile text, and what is logged."""

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from interleaf import LogWriter
from interleaf.errors import DataError
from interleaf.integrations import find_citations, log_citations
from interleaf.integrations.citations import MAX_ANSWER

IDS = ["a", "b", "c, d", "1"]


@pytest.mark.parametrize(
    ("answer", "numbers", "unknown"),
    [
        ("Yes [1].", (1,), 0),
        ("Yes [2][3].", (2, 3), 0),
        ("Yes [1, 3] and [ 2 ,1 ].", (1, 3, 2), 0),
        ("Yes 【2】 and 【3†source】.", (2, 3), 0),
        ("Yes [doc:b], [doc: a, doc:b].", (2, 1), 0),
        ("Yes [doc:c, d].", (3,), 0),
        ("Yes [doc:1] is an id.", (4,), 0),
        ("A link [1](https://example.org).", (1,), 0),
        ("No [0], [5], [007], [999999999], [1, 9].", (1,), 5),
        ("No [doc:z].", (), 1),
        ("No citation: [note], [x; 1], [x, 1], [], [-1], [1.5], [12345678901234567890].", (), 0),
        ("No citation: [2026-11-19], [1-], [^].", (), 0),
        ("Yes [3; 2], [1;doc:b], [^4].", (3, 2, 1, 4), 0),
        ("Yes [2-4], [1 – 2, 3].", (2, 3, 4, 1), 0),
        ("No [0-3], [3-5], [3-1], [1-999999999], [^5], [0-9].", (), 6),
        ("Yes [1, 3-4, 7-9].", (1, 3, 4), 1),
        ("Not found: (1), [source: 1], [1, p. 3] and 【1:0†source】.", (), 0),
        ("[[1]] and [1[2]", (1, 2), 0),
        ("Arabic digits [٢] are none.", (), 0),
        ("", (), 0),
    ],
)
def test_each_form_is_found(answer: str, numbers: tuple[int, ...], unknown: int) -> None:
    found = find_citations(answer, IDS)
    assert (found.numbers, found.unknown, found.logged) == (numbers, unknown, None)


def test_a_wide_range_is_unknown() -> None:
    ids = [f"passage {number}" for number in range(30)]
    assert find_citations("[1-20]", ids).numbers == tuple(range(1, 21))
    wide = find_citations("[1-21]", ids)
    assert (wide.numbers, wide.unknown) == ((), 1)


def test_a_pattern_of_ones_own_finds_numbers_and_ids() -> None:
    pattern = re.compile(r"\(see (\w{1,20})\)")
    found = find_citations("Yes (see 2), (see a), (see z), [1].", ["a", "b"], pattern)
    assert (found.numbers, found.unknown) == ((2, 1), 1)
    with pytest.raises(DataError, match="no group"):
        find_citations("", [], re.compile("see"))


PARTS = ["[", "[1,", "[ ", "[1 , ", "【", "[doc:", "[1†", "]", "[[1]", "[" + "1" * 50, "[1-4]", "[1-4,"]


@pytest.mark.parametrize("part", PARTS)
def test_the_time_grows_with_the_length_only(part: str) -> None:
    """Text that makes careless patterns take quadratic time: ten times the text takes about ten times as long."""

    def seconds(count: int) -> float:
        text, times = part * count, []
        for _ in range(3):
            began = time.process_time()
            find_citations(text, IDS)
            times.append(time.process_time() - began)
        return min(times)

    short, long = seconds(2_000), seconds(20_000)
    assert long < 40 * short + 0.02


def test_the_end_of_a_huge_answer_is_not_read() -> None:
    assert find_citations(" " * (MAX_ANSWER - 3) + "[1]" + "[2]" * 10**6, IDS).numbers == (1,)


@given(st.text(st.sampled_from("[]【】0123456789,;-–^†doc: ab\x00\ud800"), max_size=60))
def test_any_text_gives_shown_numbers_only(answer: str) -> None:
    found = find_citations(answer, IDS)
    assert all(1 <= number <= len(IDS) for number in found.numbers)
    assert len(set(found.numbers)) == len(found.numbers)


def shown(impression: str | None, rank: int, document: str) -> Any:
    names = ("interleaf_impression", "interleaf_rank", "interleaf_document")
    return SimpleNamespace(metadata=dict(zip(names, (impression, rank, document), strict=True)))


def test_citations_are_logged_at_the_ranks_that_were_shown(tmp_path: Path) -> None:
    """The model got the documents in another order, from two impressions, with one that was not logged."""
    documents = [shown("i", 3, "c"), shown("i", 1, "a"), shown("j", 1, "x"), shown(None, 1, "y"), SimpleNamespace()]
    with LogWriter(tmp_path, experiment="passages") as writer:
        for _ in range(2):  # an answer that is logged twice counts once
            found = log_citations(writer, "[1][3] [doc:a] [4][5][9]", documents)
            assert (found.numbers, found.unknown, found.logged) == ((1, 3, 2, 4, 5), 1, 3)
    lines = [line for file in tmp_path.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(lines) == 6
    assert len({re.sub(r'"time":"[^"]*"', "", line) for line in lines}) == 3


def test_metadata_of_others_is_not_read_as_ours(tmp_path: Path) -> None:
    odd = [shown("i", "first", "a"), SimpleNamespace(metadata={"interleaf_rank": 1}), SimpleNamespace(metadata=None), 7]  # type: ignore[arg-type]
    with LogWriter(tmp_path, experiment="passages") as writer:
        found = log_citations(writer, "[1][2][3][4]", odd)
    assert (found.numbers, found.logged) == ((1, 2, 3, 4), 0)


def test_an_answer_survives_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, experiment="passages")
    writer.close()
    found = log_citations(writer, "[1]", [shown("i", 1, "a")])
    assert (found.numbers, found.logged) == ((1,), None)
