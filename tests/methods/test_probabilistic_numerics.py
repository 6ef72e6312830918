"""Probabilistic interleaving in floating point: long lists and steep softmaxes lose no digits that matter.

The truth is a plain loop in exact fractions over the weights rank^-tau, each rounded once to a float: their
denominators are powers of two, so that sums stay cheap at a thousand documents.
"""

import math
from contextlib import suppress
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import Interleaving, MethodError, credit, interleave
from interleaf.interleaving import kernel_calls
from interleaf.methods.registry import resolve
from tests.support.worlds import World, spec_and_world, specs_of

Ranking = tuple[int, ...]

LONG = 1000
TAUS = (0.5, 1, 3, 10)
ORDERS = ("top down", "bottom up", "shuffled", "other ranker's")
CLOSE = 1e-9


def shuffled(documents: range | Ranking, seed: int) -> Ranking:
    return tuple(np.random.default_rng(seed).permutation(np.array(documents)).tolist())


def rankers_of(overlap: str) -> tuple[Ranking, Ranking]:
    """The first ranker has documents 0, 1, ... in order; the other one all of them, or some of them and others."""
    other = range(LONG) if overlap == "same" else range(LONG // 2, LONG + LONG // 4)
    return tuple(range(LONG)), shuffled(other, 1)


def ordered(documents: Ranking, other: Ranking, order: str) -> Ranking:
    """All documents, in one of the orders that strain a running denominator differently."""
    rest = tuple(document for document in documents if document not in set(other))
    orders = {
        "top down": documents,
        "bottom up": documents[::-1],
        "shuffled": shuffled(documents, 2),
        "other ranker's": other + rest,
    }
    return orders[order]


def exact_shares(ranking: Ranking, union: int, shown: Ranking, tau: float) -> list[Fraction]:
    """P(L_r | L above r) for one ranker: its weight over the weights of all that is not yet shown."""
    places = {document: rank for rank, document in enumerate(ranking, 1)}
    weights = [Fraction(float(rank) ** -tau) for rank in range(1, len(ranking) + 2)]
    remaining = sum(weights[:-1], Fraction(0)) + (union - len(ranking)) * weights[-1]
    shares = []
    for document in shown:
        weight = weights[places.get(document, len(ranking) + 1) - 1]
        shares.append(weight / remaining)
        remaining -= weight
    return shares


class Case:
    """A long list with the exact shares of its two rankers."""

    def __init__(self, tau: float, order: str, overlap: str) -> None:
        rankings = rankers_of(overlap)
        union = tuple(dict.fromkeys(rankings[0] + rankings[1]))
        listed = ordered(union, rankings[1], order)
        self.shown = Interleaving.of(rankings, listed, f"probabilistic(tau={tau})")
        self.shares = [exact_shares(ranking, len(union), listed, tau) for ranking in rankings]

    def posterior(self, position: int) -> list[float]:
        chances = [shares[position] for shares in self.shares]
        return [float(chance / sum(chances)) for chance in chances]


CASES = list(product(TAUS, ORDERS, ("same", "partial")))


@pytest.mark.parametrize(("tau", "order", "overlap"), CASES)
def test_the_probability_of_a_long_list_is_right_at_every_rank(tau: float, order: str, overlap: str) -> None:
    case = Case(tau, order, overlap)
    truth = np.array([float((one + other) / 2) for one, other in zip(*case.shares, strict=True)])
    factors = kernel_calls.probability(resolve(case.shown.method), case.shown.impression())
    assert factors is not None
    np.testing.assert_allclose(factors, truth, rtol=CLOSE, atol=0)
    assert case.shown.log_probability == pytest.approx(math.fsum(map(math.log, truth.tolist())), rel=CLOSE)


@pytest.mark.parametrize(("tau", "order", "overlap"), CASES)
def test_credit_of_clicks_anywhere_in_a_long_list_is_right(tau: float, order: str, overlap: str) -> None:
    case = Case(tau, order, overlap)
    count = len(case.shown.documents)
    for ranks in ([1, 10, 100, 1000], range(1, count + 1), *([rank] for rank in range(count, 0, -25))):
        posteriors = [case.posterior(rank - 1) for rank in ranks]
        outcome = credit(case.shown, ranks, "click")
        truth = [math.fsum(column) for column in zip(*posteriors, strict=True)]
        assert list(outcome.credit.values()) == pytest.approx(truth, rel=CLOSE, abs=0)
        assert outcome.score == pytest.approx(truth[0] - truth[1], rel=0, abs=CLOSE * sum(truth))
        assert sum(outcome.credit.values()) == pytest.approx(len(ranks), rel=1e-12)


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("order", ORDERS)
def test_the_expected_sign_of_many_clicks_is_right(order: str, tau: float) -> None:
    """Sixty clicks on a long list: the same sums of products, in another order of operations."""
    case = Case(tau, order, "partial")
    ranks = list(range(1, 31)) + list(range(len(case.shown.documents) - 29, len(case.shown.documents) + 1))
    leads = {0: 1.0}
    for rank in ranks:
        ours, theirs = case.posterior(rank - 1)
        moved: dict[int, float] = {}
        for lead, chance in leads.items():
            moved[lead + 1] = moved.get(lead + 1, 0.0) + chance * ours
            moved[lead - 1] = moved.get(lead - 1, 0.0) + chance * theirs
        leads = moved
    truth = math.fsum(math.copysign(chance, lead) for lead, chance in leads.items() if lead)
    assert credit(case.shown, ranks, "binary").score == pytest.approx(truth, rel=0, abs=CLOSE)


@given(st.data())
def test_the_expected_sign_is_what_enumerating_all_owners_gives(data: st.DataObject) -> None:
    _, small = data.draw(spec_and_world(["probabilistic"], max_rankers=4, max_documents=6))
    spec = f"probabilistic(tau={data.draw(st.sampled_from(TAUS))})"
    shown = interleave(small.rankings, spec, small.k, data.draw(st.integers()))
    count, rankers = len(shown.documents), len(small.rankings)
    clicks = data.draw(st.lists(st.integers(1, count), unique=True, max_size=5))
    posteriors = [list(credit(shown, [rank], "click").credit.values()) for rank in clicks]
    expected = np.zeros((rankers, rankers))
    for owners in product(range(rankers), repeat=len(clicks)):
        probability = math.prod(posterior[owner] for posterior, owner in zip(posteriors, owners, strict=True))
        owned = np.bincount(owners, minlength=rankers) if owners else np.zeros(rankers)
        expected += probability * np.sign(owned[:, None] - owned[None, :])
    np.testing.assert_allclose(credit(shown, clicks, "binary").preference, expected, rtol=0, atol=CLOSE)


@given(spec_and_world(specs_of("probabilistic", TAUS), max_documents=6), st.integers())
def test_a_click_is_owned_by_somebody(drawn: tuple[str, World], key: int) -> None:
    spec, small = drawn
    shown = interleave(small.rankings, spec, small.k, key)
    chosen, rankers = resolve(spec), len(small.rankings)
    for position in range(len(shown.documents)):
        assert sum(credit(shown, [position + 1], "click").credit.values()) == pytest.approx(1, abs=1e-12)
        clicked = [at == position for at in range(len(shown.documents))]
        exact, _ = kernel_calls.credit(chosen, chosen.scheme("click", rankers), shown.impression(), clicked, exact=True)
        assert sum(exact) == 1


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("rankers", [2, 3])
def test_identical_rankers_are_never_told_apart(tau: float, rankers: int) -> None:
    ranking = shuffled(range(LONG), 3)
    shown = interleave([ranking] * rankers, f"probabilistic(tau={tau})", LONG, key=("identical", rankers))
    for ranks in ([1], [7, 77, 777], range(1, 51), [LONG]):
        for scheme in ("click", "normalized", "binary"):
            assert np.abs(credit(shown, ranks, scheme).preference).max() < 1e-12


def test_identical_rankers_tie_exactly_in_fractions() -> None:
    shown = interleave([tuple("abcde")] * 2, "probabilistic", 5, key="identical")
    chosen = resolve("probabilistic")
    for scheme in ("click", "normalized", "binary"):
        clicked = [True, False, True, True, False]
        _, preference = kernel_calls.credit(chosen, chosen.scheme(scheme, 2), shown.impression(), clicked, exact=True)
        assert not preference.any()


@pytest.mark.parametrize("tau", TAUS)
def test_a_long_list_holds_every_document_once(tau: float) -> None:
    rankings = rankers_of("partial")
    shown = interleave(rankings, f"probabilistic(tau={tau})", 2 * LONG, key=("long", str(tau)))
    assert len(shown.documents) == LONG + LONG // 4
    assert set(shown.documents) == set(range(LONG + LONG // 4))


@pytest.mark.parametrize("tau", ["100", "400", "2000", "1e300"])
def test_a_softmax_too_steep_for_floats_is_refused_or_right(tau: str) -> None:
    """Weights that vanish must not show a document twice, nor divide nothing by nothing."""
    rankings = tuple("abcdefghij"), tuple("jihgfedcba")
    with suppress(MethodError):  # to refuse it is right, too
        shown = interleave(rankings, f"probabilistic(tau={tau})", 10, key="steep")
        assert sorted(map(str, shown.documents)) == sorted("abcdefghij")
        bottom_first = Interleaving.of(rankings, tuple("edcbafghij"), f"probabilistic(tau={tau})")
        assert sum(credit(bottom_first, [1, 5, 10], "click").credit.values()) == pytest.approx(3)
