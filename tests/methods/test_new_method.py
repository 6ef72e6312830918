"""A new method is one file and one row: everything else finds it in the table."""

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import interleaf
from interleaf import audit, cli
from interleaf.interleaving import batch
from interleaf.kernels.arrays import EncodedRankings, Impression
from interleaf.kernels.randomness import bytes_of, key_of
from interleaf.methods.registry import METHODS, Claims, Method, resolve
from interleaf.spec import Parameter
from tests.support.conformance import complaints
from tests.support.kernel_folders import kernel_folder

TOY = '''"""A coin shows the list of one ranker, cut where the shortest ends; a click counts for whoever is shown."""

from typing import Any, NamedTuple
from fractions import Fraction

from interleaf.kernels.randomness import pick
from interleaf.kernels.jit import kernel


class ToySettings(NamedTuple):
    worth: Any


def settings(lengths, parameters, exact):
    return ToySettings(Fraction(parameters["worth"]) if exact else float(parameters["worth"]))


@kernel
def compose(encoded, k, randomness, shown, teams, settings):
    ranker = pick(randomness, len(encoded.depths))
    count = min(k, encoded.depths.min())
    for position in range(count):
        shown[position] = encoded.rankings[ranker, position]
        teams[position] = ranker
    return count


@kernel
def credit(impression, clicks, variant, credit, settings):
    credited = 0
    for position in range(len(clicks)):
        if clicks[position] and impression.teams[position] >= 0:
            credit[impression.teams[position]] += settings.worth
            credited += 1
    return credited
'''
ROW = Method(
    name="toy",
    title="A toy of the tests",
    paper="T26",
    rankers=(2, None),
    parameters=(Parameter("worth", 1, "what a click is worth"),),
    schemes=("click", "binary", "normalized"),
    claims=Claims(considerate=True, fair=True, pareto=False, reusable=False),
    needs=("teams",),
    has_teams=True,
    module_name="toy_of_the_tests",
)
RANKINGS = {"production": ["d4", "d1"], "candidate": ["d1", "d9"]}


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All that adding a method takes."""
    with kernel_folder("toy of the tests") as folder:
        (folder / "toy_of_the_tests.py").write_text(TOY)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setitem(METHODS, "toy", ROW)
        yield
    sys.modules.pop("toy_of_the_tests", None)
    vars(ROW).pop("kernels", None)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(arguments) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def asked(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(data)))


def test_it_is_in_the_table_for_people_programs_and_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    assert ROW in interleaf.methods()
    assert "toy: A toy of the tests [T26]" in run(capsys, "methods").splitlines()
    (told,) = [row for row in json.loads(run(capsys, "methods", "--format", "json")) if row["name"] == "toy"]
    assert [(parameter["name"], parameter["default"]) for parameter in told["parameters"]] == [("worth", 1)]
    assert told["claims"] == {"considerate": True, "fair": True, "pareto": False, "reusable": False}
    lines = run(capsys, "methods", "--format", "markdown").splitlines()
    assert (
        "| toy | A toy of the tests | 2 or more | worth=1 | click, binary, normalized | considerate, fair | T26 |"
        in lines
    )
    assert len(lines) == len(METHODS) + 2


def test_it_interleaves_and_credits_from_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(RANKINGS, monkeypatch)
    listed = run(capsys, "interleave", "--method", "toy(worth=2)", "--key", "exp", "user-7")
    shown = interleaf.interleave(RANKINGS, "toy(worth=2)", key=("exp", "user-7"))
    assert json.loads(listed) == shown.to_dict()
    assert list(shown.documents) == RANKINGS[shown.rankers[(shown.teams or ())[0]]]
    asked(json.loads(listed), monkeypatch)
    outcome = json.loads(run(capsys, "credit", "--clicks", "1", "2"))
    assert outcome == interleaf.credit(shown, [1, 2]).to_dict()
    assert sorted(outcome["credit"].values()) == [0, 4]


def test_it_is_audited_and_keeps_its_claims(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.check("toy").claims == ROW.claims
    assert complaints("toy") == []
    assert run(capsys, "audit", "toy").startswith("toy\n  considerate: proved in all ")
    assert json.loads(run(capsys, "audit", "toy", "--format", "json"))["contradictions"] == []


def test_a_row_that_promises_more_is_contradicted_by_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    promises = Claims(considerate=True, fair=True, pareto=True, reusable=False)
    monkeypatch.setitem(METHODS, "toy", replace(ROW, claims=promises))
    assert cli.main(["audit", "toy"]) == 1
    assert capsys.readouterr().err == "interleaf audit: toy does not have all properties that are claimed\n"


def test_schemes_that_only_more_rankers_have_are_audited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row says which schemes two rankers have, and which more: each is looked at where it is offered."""
    few = replace(ROW, schemes=("click", "normalized"), schemes_for_many=("normalized", "binary"))
    monkeypatch.setitem(METHODS, "toy", few)
    assert audit.check("toy").fair.keys() == {"click", "normalized", "binary"}


def test_an_unknown_method_is_told_of_it() -> None:
    with pytest.raises(interleaf.MethodError, match=r"unknown method 'tyo'; known are .*'toy'"):
        interleaf.interleave(RANKINGS, "tyo")
    with pytest.raises(interleaf.MethodError, match="toy has no parameter 'tau'; it has 'worth'"):
        interleaf.interleave(RANKINGS, "toy(tau=3)")
    assert str(resolve("toy(worth=1.0)")) == "toy"


def test_it_is_compiled_ahead_and_runs_in_batches() -> None:
    interleaf.warm("toy", rankers=3)
    chosen = resolve("toy")
    settings = chosen.method.kernels.settings((2, 2), chosen.parameters, False)
    names = [key_of(("toy", row)) for row in range(40)]
    keys = np.array([np.frombuffer(bytes_of(name), "<u8") for name in names])
    given = EncodedRankings(np.array([[[0, 1], [1, 2]]], np.int32), np.array([[2, 2]], np.int32), np.array([3]))
    lists = batch.compose(chosen, given, settings, np.zeros(40, np.int64), keys, 2)
    one_by_one = [interleaf.interleave([[0, 1], [1, 2]], "toy", 2, name) for name in names]
    assert [tuple(row) for row in lists.shown.tolist()] == [shown.documents for shown in one_by_one]
    assert len(set(map(tuple, lists.shown.tolist()))) == 2
    impressions = Impression.of(
        np.array([shown.ranks for shown in one_by_one]),
        lists.teams,
        np.full((40, 2), 2, np.int32),
        np.full(40, 3),
        np.zeros((40, 2), np.int32),
    )
    clicks = np.array([[True, row % 2 == 0] for row in range(40)])
    preferences = batch.preferences(chosen, chosen.scheme("click", 2), impressions, lists.counts, clicks)
    for row, shown in enumerate(one_by_one):
        outcome = interleaf.credit(shown, (np.flatnonzero(clicks[row]) + 1).tolist())
        assert preferences[row].tolist() == outcome.preference.tolist()
