"""Document ids are texts or whole numbers, kept as texts, the same in library, client, service and log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interleaf
from interleaf import log
from interleaf.client import Client
from interleaf.errors import RankingError
from interleaf.experiment import Experiment
from tests.client.test_visitors import url as url
from tests.support.services import Live, exported, live

NUMBERS: dict[str, list[Any]] = {"production": [1, 2, 3, 4], "candidate": [4, 3, 2, 1]}
TEXTS: dict[str, list[Any]] = {name: list(map(str, ranking)) for name, ranking in NUMBERS.items()}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as service:
        service.make()
        yield service


def test_whole_numbers_over_http_are_kept_as_texts(service: Live) -> None:
    shown = service.show(unit=7, impression=70, rankings=NUMBERS, fixed={"1": 99}).json()  # type: ignore[arg-type]
    same = service.show(unit="7", rankings=TEXTS, fixed={"1": "99"}).json()
    assert (shown["documents"], shown["impression"]) == (same["documents"], "70")
    by_number = {"impression": 70, "document": int(shown["documents"][1]), "event": 5}
    assert service.tell(by_number).json()["accepted"] == 1
    (row,) = [row for row in exported(service).to_pylist() if row["impression"] == "70"]
    assert (row["unit"], row["rankings"][0]) == ("7", TEXTS["production"])
    assert [event["event"] for event in row["events"]] == ["5"]


def test_what_is_no_id_is_refused_by_http_with_its_place(service: Live) -> None:
    mistakes: list[list[Any]] = [[1.5], [True], [["a"]], [None], [{}]]
    for wrong in mistakes:
        refused = service.show(rankings={"production": wrong, "candidate": [1]})
        assert refused.status_code == 422
        assert refused.json()["error"]["field"].startswith("rankings")


def test_the_client_gives_texts_with_and_without_the_service(url: str) -> None:
    with Client(url, timeout=120) as client:
        answer = client.interleave("shoes", NUMBERS, unit=7, query="q", fixed={1: 99})  # type: ignore[arg-type]
        again = client.interleave("shoes", TEXTS, unit="7", query="q", fixed={1: "99"})
        arrays = {name: np.array(ranking) for name, ranking in NUMBERS.items()}
        third = client.interleave("shoes", arrays, unit="7", query="q", fixed={1: 99})  # type: ignore[arg-type]
        assert answer.stored
        assert answer.documents == again.documents == third.documents
        assert answer.documents[0] == "99"
        event = {"impression": answer.impression, "document": int(answer.documents[2]), "kind": "click"}
        assert client.events([event]).accepted == 1
        client._delivery.learn("shoes")
        client._delivery.away = True
        local = client.interleave("shoes", NUMBERS, unit=7, query="q", fixed={1: 99})  # type: ignore[arg-type]
        assert (local.documents, local.stored) == (answer.documents, False)
        with pytest.raises(RankingError, match=r"holds \(1, 2\) at rank 1, of type tuple"):
            client.interleave("shoes", {"production": [(1, 2)], "candidate": []})  # type: ignore[list-item]


def test_the_log_writer_keeps_whole_numbers_as_texts(tmp_path: Path) -> None:
    with interleaf.LogWriter(tmp_path, experiment="shoes") as writer:
        shown = interleaf.interleave(NUMBERS, key="k")
        writer.impression(shown, rankings=True)
    (batch,) = log.read(tmp_path)
    (row,) = batch.to_pylist()
    assert row["documents"] == list(map(str, shown.documents))
    assert row["rankings"] == list(TEXTS.values())


@pytest.mark.parametrize("wrong", [("shoe", "red"), b"shoe", 1.5, None, True, frozenset("a")])
def test_ids_that_no_log_can_hold_are_refused_when_lists_are_mixed(wrong: Any) -> None:
    with pytest.raises(RankingError, match=r"ranking 'B' holds .* at rank 2, of type .* text or a whole number"):
        interleaf.interleave({"A": ["a", "b"], "B": ["a", wrong]}, key="k")


def test_a_number_and_its_text_cannot_both_be_documents() -> None:
    with pytest.raises(RankingError, match="hold both '1' and 1, which are one document in a log"):
        interleaf.interleave({"A": [1, 2], "B": ["1", "2"]}, key="k")
    assert interleaf.interleave({"A": [1, 2], "B": np.array([2, 1])}, key="k").documents  # type: ignore[dict-item]


def test_a_ranker_without_a_name_is_refused_everywhere(service: Live, tmp_path: Path) -> None:
    with pytest.raises(RankingError, match="a text that is not empty"):
        interleaf.interleave({"": ["a"], "B": ["b"]}, key="k")
    stored = interleaf.interleave({"A": ["a"], "B": ["b"]}, key="k").to_dict() | {"rankers": ["", "B"]}
    with pytest.raises(RankingError, match="a text that is not empty"):
        interleaf.Interleaving.from_dict(stored)
    assert service.show(rankings={"": ["a"], "candidate": ["b"]}).status_code == 422
    with pytest.raises(interleaf.InterleafError, match="rankers"):
        Experiment.of({"name": "shoes", "rankers": ["", "B"]})
    row = {**stored, "experiment": "shoes", "version": 1, "impression": "i", "arm": "interleaved", "unit": "u"}
    (tmp_path / "log.jsonl").write_text(json.dumps(row | {"time": "2026-01-05T00:00:00Z"}))
    with pytest.raises(interleaf.InterleafError, match="method or rankers"):
        interleaf.tally_log(tmp_path / "log.jsonl")
