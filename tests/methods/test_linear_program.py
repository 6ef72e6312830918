"""The linear programme of optimized interleaving: fair where that can be, and then the best; the same by every solver.

The optimum is not unique, so probabilities are not compared: violation and objective are.
"""

from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import interleave
from interleaf.audit import distribution
from interleaf.interleaving.kernel_calls import Composing
from interleaf.interleaving.rankings import CheckedRankings
from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import plain
from interleaf.methods import linear_program
from interleaf.methods.linear_program import solve
from interleaf.methods.registry import resolve
from tests.oracles import optimized as oracle
from tests.support.worlds import WORLDS, Ranking, Rankings, World, spec_and_world, specs_of

SPECS = specs_of("optimized")
CLOSE = 1e-7
CASES = [
    pytest.param(spec, world, id=f"{spec} {' '.join(''.join(ranking) or '-' for ranking in world.rankings)} {world.k}")
    for spec, world in product(SPECS, WORLDS)
    if len(world.rankings) <= (resolve(spec).rankers[1] or 9)
]


class Solved:
    """A world's solution in the terms of the caller: lists of documents with their probabilities."""

    def __init__(self, world: World, spec: str, exact: bool) -> None:
        chosen = resolve(spec)
        work = Composing(chosen, CheckedRankings.of(world.rankings, chosen), world.k, exact)
        self.rankings, self.credit = world.rankings, str(chosen.parameters["credit"])
        self.lists: list[Ranking] = [tuple(str(work.names[n]) for n in row) for row in work.settings.lists.tolist()]
        self.probabilities: list[Any] = work.settings.weights.tolist()
        self.relaxed: bool = work.settings.relaxed

    @property
    def violation(self) -> Any:
        rows = oracle.constraints(self.rankings, self.lists, self.credit)
        return sum(abs(sum(c * p for c, p in zip(row, self.probabilities, strict=True))) for row in rows)

    @property
    def objective(self) -> float:
        values = [float(oracle.list_value(self.rankings, shown, self.credit)) for shown in self.lists]
        return sum(value * float(p) for value, p in zip(values, self.probabilities, strict=True))


def check_float(world: World, spec: str) -> None:
    solved = Solved(world, spec, exact=False)
    violation, objective = oracle.objective_and_violation(world.rankings, world.k, solved.credit)
    assert set(solved.lists) <= set(oracle.allowed(world.rankings, world.k))
    assert len(set(solved.lists)) == len(solved.lists)
    assert sum(solved.probabilities) == pytest.approx(1, abs=1e-9)
    assert min(solved.probabilities) > 0
    assert solved.violation == pytest.approx(violation, abs=CLOSE)
    assert solved.objective == pytest.approx(objective, abs=CLOSE)
    assert solved.relaxed is (violation > CLOSE)


def check_exact(world: World, spec: str) -> None:
    solved = Solved(world, spec, exact=True)
    violation, objective = oracle.objective_and_violation(world.rankings, world.k, solved.credit)
    assert set(solved.lists) <= set(oracle.allowed(world.rankings, world.k))
    assert sum(solved.probabilities) == 1
    assert all(isinstance(p, Fraction) and p > 0 for p in solved.probabilities)
    assert solved.relaxed is (solved.violation > 0)
    assert solved.relaxed is (violation > CLOSE)
    assert float(solved.violation) == pytest.approx(violation, abs=CLOSE)
    assert solved.objective == pytest.approx(objective, abs=2e-6)  # list values are rounded to fractions


@pytest.mark.parametrize(("spec", "world"), CASES)
def test_the_solution_is_as_fair_and_as_telling_as_the_oracle_s(spec: str, world: World) -> None:
    check_float(world, spec)


@pytest.mark.parametrize(("spec", "world"), CASES)
def test_the_exact_solution_is_fair_to_the_last_digit_or_says_that_it_is_not(spec: str, world: World) -> None:
    check_exact(world, spec)


@given(spec_and_world(SPECS, max_rankers=3, max_documents=5))
def test_the_solution_of_any_world_is_as_fair_and_as_telling_as_the_oracle_s(drawn: tuple[str, World]) -> None:
    spec, world = drawn
    check_float(world, spec)


@given(spec_and_world(SPECS, max_rankers=3, max_documents=4))
def test_the_exact_solution_of_any_world_is_fair_or_says_that_it_is_not(drawn: tuple[str, World]) -> None:
    spec, world = drawn
    check_exact(world, spec)


@pytest.mark.parametrize(("credit", "unfair"), [("inverse", 0), ("linear", 0), ("binary", 12)])
def test_rankers_of_the_same_documents_are_treated_fairly_but_by_the_sign_of_ranks(credit: str, unfair: int) -> None:
    """METHODS, section 5: of the 32 pairs of orders of two to four documents."""
    worlds = [World((tuple(d), other), len(d)) for d in ("ab", "abc", "abcd") for other in permutations(d)]
    assert len(worlds) == 32
    assert sum(Solved(world, f"optimized(credit={credit})", exact=False).relaxed for world in worlds) == unfair


def test_the_sign_of_ranks_cannot_always_be_fair() -> None:
    world = World((tuple("abc"), tuple("bca")), 3)
    assert Solved(world, "optimized(credit=binary)", exact=True).relaxed
    assert interleave(world.rankings, "optimized(credit=binary)", 3, key="any").relaxed is True
    assert interleave(world.rankings, "optimized", 3, key="any").relaxed is False


@st.composite
def programmes(draw: st.DrawFn) -> tuple[Array, Array]:
    """Constraints and values that no ranking need ever lead to."""
    rows, lists = draw(st.integers(1, 4)), draw(st.integers(1, 7))
    number = st.integers(-4, 4).map(float)
    constraints = draw(st.lists(st.lists(number, min_size=lists, max_size=lists), min_size=rows, max_size=rows))
    values = draw(st.lists(number, min_size=lists, max_size=lists))
    return np.array(constraints), np.array(values)


@given(programmes())
def test_the_small_simplex_agrees_with_highs_on_any_programme(programme: tuple[Array, Array]) -> None:
    constraints, values = programme
    probabilities = np.zeros(len(values))
    violation = solve(constraints, values, 0.0, linear_program.TOLERANCE, probabilities)
    expected, least = linear_program.highs(constraints, values)
    assert violation == pytest.approx(least, abs=CLOSE)
    assert np.abs(constraints @ probabilities).sum() == pytest.approx(violation, abs=CLOSE)
    assert probabilities.sum() == pytest.approx(1)
    assert probabilities.min() >= -1e-12
    assert values @ probabilities == pytest.approx(values @ expected, abs=1e-6)


@given(programmes())
def test_the_small_simplex_is_exact_in_fractions(programme: tuple[Array, Array]) -> None:
    constraints, values = (np.vectorize(Fraction, otypes=[object])(array) for array in programme)
    probabilities = np.full(len(values), Fraction(0), object)
    violation = plain(solve)(constraints, values, Fraction(0), 0, probabilities)
    _, least = linear_program.highs(*programme)
    assert sum(probabilities) == 1
    assert min(probabilities) >= 0
    assert sum(map(abs, constraints @ probabilities)) == violation
    assert float(violation) == pytest.approx(least, abs=CLOSE)


def sampled_worlds() -> list[Rankings]:
    """Four rankers and ten to show: a million lists, of which some are drawn."""
    numbers = np.random.default_rng(3)
    return [tuple(tuple(map(str, numbers.permutation(12))) for _ in range(4)) for _ in range(3)]


@pytest.mark.parametrize("rankings", sampled_worlds())
def test_where_lists_are_too_many_so_many_are_drawn_as_asked(rankings: Rankings) -> None:
    solved = Solved(World(rankings, 10), "optimized(samples=20)", exact=False)
    assert 1 <= len(solved.lists) <= 20
    assert sum(solved.probabilities) == pytest.approx(1)
    for shown in solved.lists:
        for position, document in enumerate(shown):
            best = {next(d for d in ranking if d not in shown[:position]) for ranking in rankings}
            assert document in best
    again = Solved(World(rankings, 10), "optimized(samples=20)", exact=False)
    assert (again.lists, again.probabilities) == (solved.lists, solved.probabilities)


@pytest.mark.parametrize("world", [WORLDS[0], WORLDS[4], WORLDS[9]])
def test_lists_are_shown_as_often_as_the_programme_says(world: World) -> None:
    solved = Solved(world, "optimized", exact=True)
    expected = {(shown, None): p for shown, p in zip(solved.lists, solved.probabilities, strict=True)}
    assert distribution(world.rankings, "optimized", world.k) == expected
    shown = interleave(world.rankings, "optimized", world.k, key="any")
    served = Solved(world, "optimized", exact=False)
    likely = dict(zip(served.lists, served.probabilities, strict=True))[tuple(map(str, shown.documents))]
    assert shown.log_probability == pytest.approx(np.log(likely))
    assert shown.teams is None
