"""Every row of the table of methods keeps what it claims, and a kernel that does not is caught."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from interleaf.methods.registry import METHODS, Claims, Method
from tests.support.conformance import checked, complaints, faults

TEAM_DRAFT = Claims(considerate=True, fair=True, pareto=False, reusable=False)
PAIRWISE = Claims(considerate=True, fair=True, pareto=True, reusable=False)
EVERYTHING = Claims(considerate=True, fair=True, pareto=True, reusable=True)

# Team draft for two as a stranger might write it: correct, until a line of it is replaced.
DRAFT = """
import numpy as np
from interleaf.kernels.randomness import pick
from interleaf.kernels.jit import kernel
from interleaf.methods.team_draft import settings

@kernel
def compose(encoded, k, randomness, shown, teams, settings):
    taken = np.zeros(encoded.documents, np.bool_)
    owned = min(k, encoded.depths.min())
    count = 0
    while count < k:
        leader = pick(randomness, 2)
        for turn in range(2):
            ranker = leader if turn == 0 else 1 - leader
            for rank in range(encoded.depths[ranker]):
                document = encoded.rankings[ranker, rank]
                if count < k and not taken[document]:
                    taken[document] = True
                    shown[count] = document
                    teams[count] = ranker if count < owned else -1
                    count += 1
                    break
    return count

@kernel
def credit(impression, clicks, variant, credit, settings):
    credited = 0
    for position in range(len(clicks)):
        owner = impression.teams[position]
        if clicks[position] and owner >= 0:
            credit[owner] += settings.one
            credited += 1
    return credited
"""
BACKWARDS = "shown[:count], teams[:count] = shown[:count][::-1].copy(), teams[:count][::-1].copy()\n    return count"
SABOTAGE = {
    "honest": ("", "", set()),
    "coin_of_two_to_one": ("pick(randomness, 2)", "pick(randomness, 3) // 2", {"fair"}),
    "first_picks_first": ("leader = pick(randomness, 2)", "leader = 0", {"fair"}),
    "owns_what_only_the_longer_can_fill": ("ranker if count < owned else -1", "ranker", {"fair"}),
    "upside_down": ("return count", BACKWARDS, {"considerate"}),
    "credits_the_other": ("credit[owner]", "credit[1 - owner]", {"direction"}),
    "first_click_counts_double_for_one": ("+= settings.one", "+= settings.one * (2 - owner)", {"fair"}),
}  # fmt: skip

PAIRS = """
from interleaf.kernels.jit import kernel, plain
from interleaf.methods.pairwise_preference import compose, settings
from interleaf.methods.pairwise_preference import credit as right_credit

@kernel
def credit(impression, clicks, variant, credit, settings):
    credited = plain(right_credit)(impression, clicks, variant, credit, settings)
    for ranker in range(len(credit)):
        credit[ranker] = SIGN credit[ranker]
    return credited
"""


class Registry:
    """Puts modules in a folder that Python imports from, and rows for them into the table."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        patch.syspath_prepend(str(folder))

    def add(self, name: str, source: str, like: str, claims: Claims, schemes: tuple[str, ...]) -> Method:
        (self.folder / f"{name}.py").write_text(source)
        row = replace(METHODS[like], name=name, rankers=(2, 2), schemes=schemes, claims=claims, module_name=name)
        self.patch.setitem(METHODS, name, row)
        return row


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    yield Registry(tmp_path, monkeypatch)
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def properties(name: str) -> set[str]:
    """What is complained about, without the details."""
    return {complaint.split(":")[0].split(" ")[0] for complaint in complaints(name)}


@pytest.mark.parametrize("name", METHODS)
def test_each_claim_is_proved_and_each_other_property_refuted_by_real_lists(name: str) -> None:
    assert complaints(name) == []
    assert checked(name).claims == METHODS[name].claims


@pytest.mark.parametrize("claims", [TEAM_DRAFT, EVERYTHING], ids=["modest", "everything"])
@pytest.mark.parametrize("what", SABOTAGE)
def test_a_wrong_team_draft_is_caught_for_what_is_wrong_with_it(what: str, claims: Claims, registry: Registry) -> None:
    line, replaced_by, caught = SABOTAGE[what]
    assert line in DRAFT
    source = DRAFT.replace(line, replaced_by) if line else DRAFT
    name = f"{what}_{'all' if claims is EVERYTHING else 'some'}"
    registry.add(name, source, "team_draft", claims, ("click", "binary"))
    too_much = {"pareto", "reusable"} if claims is EVERYTHING else set()
    assert properties(name) == caught | too_much


@pytest.mark.parametrize(("sign", "caught"), [("+", set()), ("-", {"pareto", "direction"})], ids=["right", "wrong"])
def test_a_sign_error_in_credit_is_caught(sign: str, caught: set[str], registry: Registry) -> None:
    name = "pairs_right" if sign == "+" else "pairs_wrong"
    registry.add(name, PAIRS.replace("SIGN", sign), "pairwise_preference", PAIRWISE, ("click",))
    assert properties(name) == caught


def test_a_row_that_claims_too_little_is_caught(registry: Registry) -> None:
    registry.add("shy", DRAFT, "team_draft", replace(TEAM_DRAFT, fair=False), ("click",))
    assert complaints("shy") == ["fair: claimed False, found True"]


def test_a_method_that_no_world_of_the_audit_has_room_for_is_not_taken_as_proved(registry: Registry) -> None:
    """Four rankers at least: nothing is enumerated, so nothing may be claimed."""
    row = registry.add("crowd", DRAFT, "team_draft", TEAM_DRAFT, ("click",))
    registry.patch.setitem(METHODS, "crowd", replace(row, rankers=(4, None)))
    found = checked("crowd")
    assert found.considerate.worlds == 0
    assert found.claims != TEAM_DRAFT
    assert not found.considerate.holds


def test_evidence_that_was_tampered_with_is_noticed() -> None:
    verdict = checked("balanced").fair["binary"]
    example = verdict.counterexample
    assert example is not None
    assert faults(verdict, "balanced", "fair") == []
    first, *others = example.lines
    unlikely = replace(example, lines=(replace(first, probability=first.probability / 2), *others))
    fewer = replace(example, lines=tuple(others))
    tied = replace(example, lines=tuple(replace(line, preference=line.probability * 0) for line in example.lines))
    for changed in (unlikely, fewer, tied):
        assert faults(replace(verdict, counterexample=changed), "balanced", "fair") != []
    assert faults(replace(verdict, counterexample=None), "balanced", "fair") != []
    assert faults(replace(verdict, holds=True), "balanced", "fair") != []
