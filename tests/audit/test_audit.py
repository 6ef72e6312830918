"""The audit: exact distributions and expectations, and what it finds out by itself."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from doctest import ELLIPSIS, OutputChecker
from fractions import Fraction
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pytest

from interleaf import ListError, audit, cli, interleave
from interleaf.audit.overview import Overview, overview_of, variants
from interleaf.audit.properties import dominating_rankers
from interleaf.audit.worlds import Enumeration, SmallWorld, worlds
from interleaf.clicks import Cascade, Intents, OneClick, PositionBased
from interleaf.interleaving.rankings import CheckedRankings
from interleaf.kernels.jit import plain
from interleaf.methods.registry import METHODS, resolve
from interleaf.methods.schemes import scheme_of
from interleaf.methods.team_draft import credit_list
from tests.oracles import clicks as oracle_clicks
from tests.oracles.clicks import Patterns
from tests.oracles.expectation import expectation as oracle_expectation
from tests.oracles.forms import Preference, Ranking, Teams
from tests.support.conformance import KNOWN, checked
from tests.support.paths import ROOT

SHIFTED = (tuple("abcd"), tuple("bcda"))
HALF = Fraction(1, 2)


def spell(text: str) -> tuple[tuple[str, ...], ...]:
    """Rankings as words, a letter a document; `-` is an empty one."""
    return tuple(tuple(word.strip("-")) for word in text.split())


# Distributions and expectations

WORLDS = [
    SmallWorld(spell("abc bca"), 3),
    SmallWorld(spell("abcd bad"), 2),
    SmallWorld(spell("a bc"), 3),
    SmallWorld(spell("ab -"), 2),
    SmallWorld(spell("ab ba cb"), 2),
]
SPECS = [text for row in METHODS.values() if row.schemes for text in variants(row)]
WITH_ORACLE = [text for text in SPECS if resolve(text).method.name != "optimized"]
GRADES = {"a": 2, "c": 1}
CLICK, STOP = (Fraction(1, 20), Fraction(1, 2), Fraction(19, 20)), (Fraction(1, 5), Fraction(1, 2), Fraction(9, 10))
WEIGHTS = [Fraction(3), Fraction(2), Fraction(1)]
SHARES = [(Fraction(1, 2), "bc"), (Fraction(1, 3), "a"), (Fraction(1, 6), "z")]


def graded(shown: Ranking) -> list[int]:
    return [GRADES.get(document, 0) for document in shown]


def fading(rank: int, document: object) -> Fraction:
    return Fraction(1 + GRADES.get(str(document), 0), 4 * rank)


PEOPLE: dict[str, tuple[Any, Callable[[Ranking], Patterns]]] = {
    "function": (fading, lambda shown: oracle_clicks.independent([fading(r, d) for r, d in enumerate(shown, 1)])),
    "cascade": (Cascade(CLICK, STOP, True, GRADES), lambda shown: oracle_clicks.cascade(graded(shown), CLICK, STOP)),
    "cascade that stops anywhere": (
        Cascade(CLICK, STOP, False, GRADES),
        lambda shown: oracle_clicks.cascade(graded(shown), CLICK, STOP, stop_needs_click=False),
    ),
    "position based": (
        PositionBased((1, HALF, Fraction(1, 3)), CLICK, GRADES),
        lambda shown: oracle_clicks.position_based(
            (Fraction(1), HALF, Fraction(1, 3))[: len(shown)], [CLICK[grade] for grade in graded(shown)]
        ),
    ),
    "one click": (OneClick(WEIGHTS), lambda shown: oracle_clicks.single_weighted(WEIGHTS[: len(shown)])),
    "intents": (Intents(SHARES), lambda shown: oracle_clicks.intents(shown, SHARES)),
}  # fmt: skip


def worlds_for(spec: str) -> list[SmallWorld]:
    most = resolve(spec).rankers[1]
    return [world for world in WORLDS if most is None or len(world.rankings) <= most]


@pytest.mark.parametrize("spec", SPECS)
def test_distributions_sum_to_one_and_are_the_oracle_s(spec: str) -> None:
    chosen = resolve(spec)
    for world in worlds_for(spec):
        found = audit.distribution(world.rankings, spec, world.k)
        assert sum(found.values()) == 1
        for probability in found.values():
            assert probability > 0
            # A fraction of an array's integers overflows, and then says anything at all.
            assert type(probability.numerator) is type(probability.denominator) is int, (world, spec)
        if spec in WITH_ORACLE:
            oracle = import_module(f"tests.oracles.{chosen.method.name}")
            assert found == oracle.distribution(world.rankings, world.k, **chosen.parameters)


def test_distributions_worked_out_by_hand() -> None:
    """Team draft: a round is AB or BA. Pairwise preference: a or b, then what of a, b, c is left."""
    assert audit.distribution(spell("ab bc"), "team_draft", 2) == {
        (("a", "b"), (0, 1)): HALF,
        (("b", "a"), (1, 0)): HALF,
    }
    quarter = Fraction(1, 4)
    lists = {(tuple(word), None): quarter for word in ("ab", "ac", "ba", "bc")}
    assert audit.distribution(spell("ab bc"), "pairwise_preference", 2) == lists
    assert audit.distribution(spell("ab bc"), "single(ranker=B)", 1) == {(("b",), (1,)): Fraction(1)}
    by_the_first, by_the_second = Fraction(8, 9), Fraction(1, 9)
    assert audit.distribution(spell("ab ba"), "probabilistic", 1) == {
        (("a",), (0,)): by_the_first / 2,
        (("b",), (0,)): by_the_second / 2,
        (("b",), (1,)): by_the_first / 2,
        (("a",), (1,)): by_the_second / 2,
    }


@pytest.mark.parametrize("people", PEOPLE)
@pytest.mark.parametrize("spec", WITH_ORACLE)
def test_expectations_are_the_oracle_s_in_every_scheme(spec: str, people: str) -> None:
    chosen = resolve(spec)
    oracle = import_module(f"tests.oracles.{chosen.method.name}")
    model, patterns_of = PEOPLE[people]
    for world in worlds_for(spec):
        rankings = world.rankings
        distribution = oracle.distribution(rankings, world.k, **chosen.parameters)
        if not all(documents for documents, _ in distribution):
            continue  # an empty list has its own test
        for scheme in chosen.method.schemes_for(len(rankings)):

            def preference_of(shown: Ranking, teams: Teams, clicked: frozenset[int]) -> Preference:
                said: Preference = oracle.preference(rankings, shown, teams, clicked, scheme, **chosen.parameters)  # noqa: B023
                return said

            truth = oracle_expectation(distribution, preference_of, patterns_of)
            found = audit.expectation(rankings, spec, world.k, model, scheme)
            assert found.tolist() == truth, (world, scheme)
            assert {type(value.numerator) for row in found for value in row} == {int}, (world, scheme)


@pytest.mark.parametrize("credit", ["inverse", "linear"])
def test_optimized_of_two_permutations_prefers_nobody_under_rank_only_clicks(credit: str) -> None:
    """The lists are some optimum of a linear programme; what is true of all of them is that fairness is exact."""
    spec = f"optimized(credit={credit})"
    biased: list[Any] = [lambda rank, document: Fraction(1, rank + 1), OneClick((3, 1)), Cascade((0.3,), (0.4,))]
    for rankings in [SHIFTED, spell("abc cba"), spell("abc bca"), spell("abcd dbac")]:
        for k, model, scheme in product((1, 2, 3), biased, ("click", "normalized")):
            assert audit.expectation(rankings, spec, k, model, scheme)[0, 1] == 0, (rankings, k)


@pytest.mark.parametrize("people", PEOPLE)
@pytest.mark.parametrize("spec", ["team_draft(fill=stop)", "balanced(fill=False)"])
def test_an_empty_list_prefers_nobody(spec: str, people: str) -> None:
    """Where one ranking is empty, a method that stops when a ranking is used up shows nothing."""
    assert [documents for documents, _ in audit.distribution(spell("ab -"), spec, 2)] == [()]
    assert audit.expectation(spell("ab -"), spec, 2, PEOPLE[people][0])[0, 1] == 0


# What the audit finds


@pytest.mark.parametrize("spec", ["balanced", "document_constraint"])
def test_it_finds_the_bias_of_balanced_lists_on_shifted_rankings(spec: str) -> None:
    for verdict in checked(spec).fair.values():
        assert verdict.holds is False
        assert SmallWorld(SHIFTED, 4) in verdict.refuted


def test_it_finds_that_team_draft_does_not_see_a_better_ranker() -> None:
    """H11 Figure 2: c is what people want, second in one ranking and third in the other, and always shown third."""
    for scheme, verdict in checked("team_draft").pareto.items():
        example = verdict.counterexample
        assert example is not None
        assert verdict.holds is False
        assert SmallWorld(SHIFTED, 4) in verdict.refuted
        assert example.conclusion == "expected preference of B over A: 0, should be above 0"
        assert sum(line.probability * (line.preference or 0) for line in example.lines) == 0
        averaged = scheme.endswith(("_list", "_place"))
        assert {line.preference for line in example.lines} == ({0} if averaged else {-1, 1}), scheme
    assert audit.expectation(SHIFTED, "team_draft", 4, lambda rank, document: document == "c")[0, 1] == 0


@pytest.mark.parametrize("spec", variants(METHODS["team_draft"]))
def test_averages_over_owners_have_the_mean_of_the_drawn_owners_and_a_biased_sign(spec: str) -> None:
    """SENSITIVITY section 2: A = abcd, B = acdb, k = 3, clicks at ranks 2 and 3: the mean sign is 1/4."""
    found = checked(spec)
    assert set(found.averages) == {"click_list", "normalized_list", "click_place", "normalized_place"}
    for verdict in found.averages.values():
        assert verdict.holds
        assert verdict.worlds == found.fair["click"].worlds
    assert set(found.sign) == {"binary_list", "binary_place"}
    for scheme, verdict in found.sign.items():
        assert verdict.holds is False
        assert spec != "team_draft" or SmallWorld(spell("abcd acdb"), 3) in verdict.refuted, scheme


def test_it_finds_an_average_that_is_not_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the proof above can fail: credit that leaves out the first position is not the mean."""
    kernels = METHODS["team_draft"].kernels

    def wrong(impression: Any, clicks: Any, variant: int, credit: Any, settings: Any) -> int:
        below = clicks & (np.arange(len(clicks)) > 0)
        return int(plain(credit_list)(impression, below, variant, credit, settings))

    monkeypatch.setitem(METHODS["team_draft"].__dict__, "kernels", replace(kernels, credit_list=wrong))
    assert audit.check("team_draft", max_worlds=40).averages["click_list"].holds is False


def test_it_finds_that_owned_filling_is_biased_on_ragged_worlds_only_and_fair_filling_nowhere() -> None:
    for scheme in METHODS["team_draft"].schemes:
        owned, stop = (checked(f"team_draft(fill={fill})").fair[scheme] for fill in ("owned", "stop"))
        assert owned.refuted
        assert stop.refuted
        assert all(world.is_ragged for world in owned.refuted + stop.refuted)
        assert SmallWorld(spell("a ab"), 2) in owned.refuted
        for fair in ("team_draft", "team_draft(prefix=True)"):
            assert checked(fair).fair[scheme].holds
            assert checked(fair).fair[scheme].refuted == ()


def test_it_finds_the_bias_of_sample_scored_only() -> None:
    """O17 section 4.4: AB, BA, BA; two of three rankers put B first, so a click on the top is one for them."""
    example = SmallWorld(spell("ab ba ba"), 2)
    for verdict in checked("sample_scored_only").fair.values():
        assert example in verdict.refuted
    assert audit.expectation(example.rankings, "sample_scored_only", 2, OneClick((1, 0)))[0, 1] == Fraction(-1, 3)


def test_it_finds_that_probabilistic_is_inconsiderate_and_all_else() -> None:
    found = checked("probabilistic")
    assert found.considerate.holds is False
    assert all(len(world.documents) > 1 for world in found.considerate.refuted)
    assert [found.reusable.holds, *(v.holds for v in (*found.fair.values(), *found.pareto.values()))] == [True] * 7


@pytest.mark.parametrize("spec", variants(METHODS["pairwise_preference"]))
def test_it_finds_what_pairwise_preference_can_and_cannot(spec: str) -> None:
    """METHODS section 8: Pareto-faithful with a document below each click, not at the cut; the sign is biased."""
    found = checked(spec)
    for verdict in (*found.fair.values(), *found.pareto.values()):
        assert verdict.holds
    assert {verdict.worlds for verdict in found.fair.values()} == {len(worlds(2, None))}
    dominating = [world for world in worlds(2, None) if not world.is_ragged and is_dominated(world)]
    assert {verdict.worlds for verdict in found.pareto.values()} == {len(dominating)}
    assert found.pareto_at_cut.holds is False
    assert SmallWorld(spell("ab ba"), 1) in found.pareto_at_cut.refuted
    assert found.sign["binary"].holds is False


def is_dominated(world: SmallWorld) -> bool:
    """Whether there is anything to be faithful to: a ranker that dominates, of documents that people look at."""
    last = world.k if world.k >= len(world.documents) else world.k - 1
    return next(dominating_rankers(world, last), None) is not None


@pytest.mark.parametrize("spec", variants(METHODS["optimized"]))
def test_it_finds_optimized_fair_wherever_fairness_was_not_relaxed(spec: str) -> None:
    for verdict in checked(spec).fair.values():
        relaxed = [world for world in verdict.refuted if interleave(world.rankings, spec, world.k).relaxed]
        assert list(verdict.refuted) == relaxed
        assert "was not relaxed" in verdict.note


def test_the_page_shows_the_table_of_all_methods() -> None:
    """Here and not among the executed pages, because the whole audit is slow, and other tests need its parts, too."""
    audits = {text: checked(text) for text in KNOWN}
    found = str(overview_of(audits)) + "\n"
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^\$ interleaf audit\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert OutputChecker().check_output(shown, found, ELLIPSIS), found


@pytest.fixture
def two_methods() -> Iterator[None]:
    """A table of two methods; afterwards all are back in their order, which monkeypatch would not keep."""
    rows = dict(METHODS)
    for name in rows.keys() - {"single", "document_constraint"}:
        del METHODS[name]
    yield
    METHODS.clear()
    METHODS.update(rows)


@pytest.mark.usefixtures("two_methods")
def test_the_command_audits_on_all_cores(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit"]) == 0
    rows = capsys.readouterr().out.split("\n\n")[0].splitlines()[2:]
    assert [row.split()[0] for row in rows] == ["document_constraint", "single"]


def test_the_overview_is_a_table_with_every_no_explained_below_it() -> None:
    found = Overview(tuple(map(checked, ("balanced", "pairwise_preference", "single"))))
    header, _, *rows = (line.split() for line in str(found).split("\n\n")[0].splitlines())
    assert header == ["method", "considerate", "fair", "Pareto", "reusable", "source"]
    assert rows == [
        ["balanced", "yes", "no", "[1]", "no", "[2]", "no", "C12"],
        ["pairwise_preference", "yes", "yes", "[3]", "yes", "[4]", "no", "O17"],
        ["single", "yes", "-", "-", "no", "C12"],
    ]
    notes = [line for line in str(found).splitlines() if re.match(r"\[\d\]", line)]
    about = [note.partition(": ")[0] for note in notes]
    assert about[:2] == ["[1] balanced, fair (binary)", "[2] balanced, Pareto-faithful (binary)"]
    assert about[2].startswith("[3] pairwise_preference, fair sign of the score")
    assert about[3].startswith("[4] pairwise_preference, Pareto-faithful if people may click on the last shown rank")
    assert found.contradictions == []
    assert [row["method"] for row in json.loads(json.dumps(found.to_dict()))["methods"]] == [row[0] for row in rows]


def test_an_average_over_too_many_drafts_is_refused() -> None:
    """Two rankings of 26 documents have 2^13 drafts, more than are enumerated; lists drawn again are not exact."""
    rankings = [list(range(26)), [1, 0, *range(2, 26)]]
    enumeration = Enumeration(resolve("team_draft"), CheckedRankings.of(rankings, resolve("team_draft")), 26)
    shown = tuple(range(26)), (0, 1) * 13
    with pytest.raises(ListError, match="cannot average the owners of a list of 26 documents exactly"):
        enumeration.preference(shown, (1,), scheme_of("click_place"))
