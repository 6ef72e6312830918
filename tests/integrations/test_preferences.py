"""Planted preferences of a model: content is found, position cancels, and length is warned about."""

from pathlib import Path
from typing import Any

import pytest

from interleaf import LogWriter, analyze
from interleaf.integrations import log_citations
from interleaf.integrations.passage_mixer import PassageMixer
from interleaf.report.report import Report
from tests.support.passages import FOUND, FakeModel, find_texts

STEEP = tuple(0.9 / rank**1.5 for rank in range(1, FOUND + 1))
QUESTIONS = 800


class Shown:
    """A document of no framework, as the mixer returns it."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        self.metadata = metadata


def report_of(folder: Path, model: FakeModel, skills: tuple[float, float], lengths: tuple[int, int]) -> Report:
    with LogWriter(folder, experiment="passages") as writer:
        mixer = PassageMixer(dict.fromkeys(["dense", "sparse"]), writer, timeout=60)
        for number in range(QUESTIONS):
            question = f"q{number}"
            settings = zip(("dense", "sparse"), skills, lengths, strict=True)
            found = {name: find_texts(question, name, skill, length) for name, skill, length in settings}
            calls = {name: lambda texts=texts: texts for name, texts in found.items()}
            passages = mixer.retrieve(question, f"conversation-{number // 2}", None, calls)
            answer = model.answer(question, [one.document.text for one in passages])
            citations = log_citations(writer, answer, [Shown(one.metadata) for one in passages])
            assert (citations.unknown, citations.logged) == (0, len(citations.numbers))
        assert mixer.counts == {}
    return analyze(folder, events={"citation": 1}, control="dense")


def status(report: Report, code: str) -> str:
    return next(check.status for check in report.health if check.code == code)


@pytest.mark.parametrize(
    ("model", "skills", "lengths", "winner", "length_check"),
    [
        (FakeModel(STEEP), (0.5, 0.5), (100, 100), None, "ok"),
        (FakeModel(STEEP, by_content=3.0), (0.2, 0.8), (100, 100), "sparse", "ok"),
        (FakeModel(STEEP, by_content=3.0), (0.8, 0.2), (100, 100), "dense", "ok"),
        (FakeModel(by_length=2.0, by_rank=(0.2,) * FOUND), (0.5, 0.5), (100, 180), "sparse", "warning"),
    ],
    ids=["position only", "content of sparse", "content of dense", "length"],
)
def test_a_planted_preference(
    model: FakeModel,
    skills: tuple[float, float],
    lengths: tuple[int, int],
    winner: str | None,
    length_check: str,
    tmp_path: Path,
) -> None:
    report = report_of(tmp_path, model, skills, lengths)
    assert report.verdict.winner == winner, report.verdict
    assert report.verdict.trusted
    assert status(report, "passage_lengths") == length_check
    assert status(report, "fair_lists") == "ok"
    means = {row.ranker: row.mean_characters for row in report.neutrality}
    assert means == dict(zip(("dense", "sparse"), lengths, strict=True))
    (pair,) = report.comparisons
    if winner is None:  # position alone: the interval holds zero with room
        assert pair.interval is not None
        assert pair.interval[0] < 0 < pair.interval[1]
        assert abs(pair.estimate or 0.0) < 0.1
