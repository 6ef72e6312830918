"""Click models: exact distributions are the oracles', samples follow them, and impossible people are refused."""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from interleaf.clicks import Cascade, ClickModel, Independent, Intents, OneClick, PositionBased
from interleaf.errors import ClickError
from interleaf.kernels.jit import is_compiled, plain
from interleaf.kernels.randomness import Keyed, key_of
from tests.oracles import clicks as oracle
from tests.oracles.clicks import Patterns

DOCUMENTS = ("a", "b", "c", "x")
GRADES = {"a": 2, "c": 1}
CLICK = (Fraction(1, 4), Fraction(1, 2), Fraction(9, 10))
STOP = (Fraction(1, 5), Fraction(2, 5), Fraction(7, 10))
LOOKS = (Fraction(1), Fraction(2, 3), Fraction(1, 2))
WEIGHTS = (Fraction(4), Fraction(0), Fraction(2))
SHARES = ((Fraction(1, 2), ("b", "c")), (Fraction(1, 3), ("a",)), (Fraction(1, 6), ("z",)))
SAMPLES = 4000


def grades(shown: Sequence[str]) -> list[int]:
    return [GRADES.get(document, 0) for document in shown]


def below(values: Sequence[Fraction], count: int) -> list[Fraction]:
    """A value a rank; the last one holds for all ranks below it."""
    return [*values, *[values[-1]] * count][:count]


def odds(rank: int, document: object) -> Fraction:
    return Fraction(1 + GRADES.get(str(document), 0), 2 + rank)


Truth = Callable[[Sequence[str]], Patterns]
MODELS: dict[str, tuple[ClickModel, Truth]] = {
    "independent": (Independent(odds), lambda shown: oracle.independent([odds(r, d) for r, d in enumerate(shown, 1)])),
    "position based": (
        PositionBased(LOOKS, CLICK, GRADES),
        lambda shown: oracle.position_based(below(LOOKS, len(shown)), [CLICK[grade] for grade in grades(shown)]),
    ),
    "cascade": (Cascade(CLICK, STOP, True, GRADES), lambda shown: oracle.cascade(grades(shown), CLICK, STOP)),
    "cascade that stops anywhere": (
        Cascade(CLICK, STOP, False, GRADES),
        lambda shown: oracle.cascade(grades(shown), CLICK, STOP, stop_needs_click=False),
    ),
    "one click": (OneClick(WEIGHTS), lambda shown: oracle.single_weighted(below(WEIGHTS, len(shown)))),
    "one click anywhere": (OneClick(), lambda shown: oracle.single_uniform(len(shown))),
    "intents": (Intents(SHARES), lambda shown: oracle.intents(tuple(shown), SHARES)),
}
EVERY_MODEL = pytest.mark.parametrize("name", MODELS)


def as_ranks(patterns: Patterns) -> dict[tuple[int, ...], Fraction]:
    return {tuple(rank for rank, hit in enumerate(pattern, 1) if hit): chance for pattern, chance in patterns.items()}


@EVERY_MODEL
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_distribution_is_the_oracle_s(name: str, count: int) -> None:
    model, truth = MODELS[name]
    for shown in (DOCUMENTS[:count], DOCUMENTS[::-1][:count]):
        found = model.distribution(shown)
        assert found == as_ranks(truth(shown))
        assert sum(found.values()) == 1


@EVERY_MODEL
def test_samples_are_as_frequent_as_the_distribution_says(name: str) -> None:
    """Pearson's chi-square, with a false alarm in a million; the keys are fixed."""
    model, _ = MODELS[name]
    shown = DOCUMENTS[:3]
    expected = {pattern: float(chance) * SAMPLES for pattern, chance in model.distribution(shown).items()}
    seen = Counter(model.sample(shown, key=("samples", name, person)) for person in range(SAMPLES))
    assert seen.keys() <= expected.keys()
    assert min(expected.values()) > 5
    distance = sum((seen[pattern] - mean) ** 2 / mean for pattern, mean in expected.items())
    assert distance < chi2.isf(1e-6, max(len(expected) - 1, 1))


@EVERY_MODEL
def test_compiled_and_plain_people_click_the_same(name: str) -> None:
    model, _ = MODELS[name]
    kernel = type(model).kernel
    assert is_compiled(kernel)
    for person in range(200):
        key = key_of(("forms", person))
        for shown in (DOCUMENTS, DOCUMENTS[:1]):
            clicks = np.zeros(len(shown), np.bool_)
            plain(kernel)(model.inputs(shown, exact=False), Keyed(key), clicks)
            assert model.sample(shown, key) == tuple((np.flatnonzero(clicks) + 1).tolist())


@EVERY_MODEL
def test_the_same_key_gives_the_same_clicks_and_no_key_fresh_ones(name: str) -> None:
    model, _ = MODELS[name]
    assert len({model.sample(DOCUMENTS, key=("same", 1)) for _ in range(20)}) == 1
    fresh = {model.sample(DOCUMENTS) for _ in range(200)}
    assert len(fresh) > 1
    assert fresh <= model.distribution(DOCUMENTS).keys()


@EVERY_MODEL
def test_nobody_clicks_on_a_list_of_nothing(name: str) -> None:
    """Methods that stop when a ranking is used up show such lists."""
    model, _ = MODELS[name]
    clicks = np.zeros(0, np.bool_)
    plain(type(model).kernel)(model.inputs((), exact=False), Keyed(key_of("nothing")), clicks)
    assert model.sample((), key="nothing") == ()
    assert model.distribution(()) == {(): Fraction(1)}


def test_one_click_never_falls_on_a_rank_without_weight() -> None:
    """Weights 0 and 1 on a list of one document: as with an intent that nothing serves, nobody clicks."""
    assert OneClick((0, 1)).sample(["a"], key="somebody") == ()
    assert OneClick((0, 1)).distribution(["a"]) == {(): Fraction(1)}


def test_a_float_is_the_decimal_it_prints() -> None:
    tenth = Fraction(1, 10)
    assert Independent(lambda rank, document: 0.1).distribution(["a"]) == {(1,): tenth, (): 1 - tenth}
    assert Cascade((0.1,), (0.3,)).distribution(["a", "b"])[(1, 2)] == tenth * Fraction(7, 10) * tenth
    assert PositionBased((0.3,), (0.1,)).distribution(["a"])[(1,)] == Fraction(3, 100)
    assert OneClick((0.1, 0.2)).distribution(["a", "b"]) == {(1,): Fraction(1, 3), (2,): Fraction(2, 3)}
    assert Intents([(0.1, "a"), (0.2, "b")]).distribution(["b"]) == {(1,): Fraction(2, 3), (): Fraction(1, 3)}


@pytest.mark.parametrize("one", [np.float64(0.1), np.float32(0.5), np.int64(1), np.True_, True, 1])
def test_numbers_of_arrays_are_numbers(one: Any) -> None:
    """A function of rank and document may look its answer up in an array."""
    exact = Fraction(str(float(one)))
    found = Independent(lambda rank, document: one).distribution(["a"])
    assert found.get((1,)) == exact
    assert all(type(part) is int for chance in found.values() for part in (chance.numerator, chance.denominator))
    assert Independent(lambda rank, document: one).sample(["a"], key="array") in found


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "grade": (lambda: Cascade((0.1, 0.2), (0, 1), grades={"a": 2}).sample(["a"]), r"'a' has grade 2, .* grades 0 to 1"),
    "grade below": (lambda: PositionBased((1,), (0.1,), {"a": -1}).distribution(["a"]), "grade -1, .* grades 0 to 0"),
    "click": (lambda: Cascade((0.1, 1.2), (0, 0)), "click holds 1.2, .* give numbers from 0 to 1"),
    "stop": (lambda: Cascade((0.1,), (-0.5,)), "stop holds -0.5, .* give numbers from 0 to 1"),
    "look": (lambda: PositionBased((1, 2), (0.1,)), "examination holds 2, .* give numbers from 0 to 1"),
    "attraction": (lambda: PositionBased((1,), (float("nan"),)), "attraction holds nan, .* give numbers from 0 to 1"),
    "function": (
        lambda: Independent(lambda rank, document: rank).sample(["a", "b"]),
        "the click probabilities .* 2, .* give numbers from 0 to 1",
    ),
    "no click": (lambda: Cascade((), ()), "click is empty; give at least one"),
    "no look": (lambda: PositionBased((), (0.1,)), "examination is empty; give at least one"),
    "no attraction": (lambda: PositionBased((1,), ()), "attraction is empty; give at least one"),
    "unequal": (lambda: Cascade((0.1, 0.2), (0.1,)), "click knows 2 grades and stop 1; give both the same"),
    "no weight": (lambda: OneClick(()), r"\(\); give numbers from 0 up, one of them above 0"),
    "negative": (lambda: OneClick((3, -1)), r"\(3, -1\); give numbers from 0 up"),
    "all zero": (lambda: OneClick((0, 0)), r"\(0, 0\); give numbers from 0 up, one of them above 0"),
    "infinite": (lambda: OneClick((1, float("inf"))), r"\(1, inf\); give numbers from 0 up"),
    "no intent": (lambda: Intents([]), r"shares of the intents are \(\); give numbers"),
    "negative share": (lambda: Intents([(1, "a"), (-2, "b")]), r"\(1, -2\); give numbers from 0 up"),
    "no share": (lambda: Intents([(0, "a")]), r"\(0,\); give numbers from 0 up, one of them above 0"),
}


@pytest.mark.parametrize("what", WRONG)
def test_impossible_people_are_refused_with_the_value_and_the_remedy(what: str) -> None:
    make, message = WRONG[what]
    with pytest.raises(ClickError, match=message):
        make()
