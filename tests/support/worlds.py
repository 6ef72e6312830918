"""Small worlds for the tests: rankings and cuts, clicks, every spec of every method, and the oracle of each."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from itertools import chain, combinations, product
from typing import Any, NamedTuple

from hypothesis import strategies as st

from interleaf import Interleaving
from interleaf.methods.registry import METHODS, ResolvedMethod, resolve

Ranking = tuple[str, ...]
Rankings = tuple[Ranking, ...]
Teams = tuple[int, ...] | None
Distribution = dict[tuple[Ranking, Teams], Fraction]
Clicks = tuple[int, ...]  # ranks in the shown list, as a caller gives them

WHOLE_TAUS = (1, 2, 3, 10)  # whole powers are exact in fractions
TAUS = (0.5, *WHOLE_TAUS, 4.25)
COMPARING = tuple(name for name, row in METHODS.items() if row.schemes)
LISTED = tuple(name for name in COMPARING if name != "optimized")  # those with one distribution that is the truth
DRAWN = (*LISTED, "one_list")  # also those whose lists are not scored


class World(NamedTuple):
    """Rankings, and how many documents to show."""

    rankings: Rankings
    k: int


def world(text: str, k: int) -> World:
    """Rankings written as words, a letter a document; `-` is an empty ranking."""
    return World(tuple(tuple(word.strip("-")) for word in text.split()), k)


WORLDS = (
    world("abcd bcda", 4),  # C12's shift by one
    world("abcd abdc", 3),  # a shared prefix of even length
    world("abc acb", 9),  # one of odd length, and a cut beyond the end
    world("abc abc", 2),  # identical rankers
    world("ab cd", 3),  # nothing in common
    world("abcd ca", 4),  # one used up early
    world("ab -", 2),  # an empty ranking
    world("- abc", 3),
    world("a b", 1),
    world("abc bca cab", 3),
    world("ab bc c", 3),
    world("abc a -", 3),
    world("abc abd abe", 3),  # a shared prefix of three
    world("a b c d", 2),  # more rankers than positions
    world("ab ba ab c", 3),
)


def worlds_of(chosen: ResolvedMethod) -> tuple[World, ...]:
    """The worlds with as many rankers as the method takes."""
    most = chosen.rankers[1] or len(WORLDS)
    return tuple(world for world in WORLDS if len(world.rankings) <= most)


def specs_of(name: str, taus: Sequence[float] = WHOLE_TAUS) -> list[str]:
    """A method's spec in every combination of its choices, and of these taus."""
    parameters = METHODS[name].parameters
    values = [p.choices or (taus if p.name == "tau" else (p.default,)) for p in parameters]
    return [
        str(resolve(f"{name}({', '.join(f'{p.name}={value}' for p, value in zip(parameters, chosen, strict=True))})"))
        for chosen in product(*values)
    ]


EXACT_SPECS = tuple(chain.from_iterable(specs_of(name) for name in LISTED))
EVERY_SPEC = tuple(chain.from_iterable(specs_of(name, TAUS) for name in COMPARING))


@st.composite
def rankings(draw: st.DrawFn, max_rankers: int = 4, max_documents: int = 4) -> Rankings:
    """Two rankings or more, of unequal lengths, with documents in common or not; all but one may be empty."""
    documents = "abcdefgh"[: draw(st.integers(1, max_documents))]
    one = st.lists(st.sampled_from(documents), max_size=len(documents), unique=True).map(tuple)
    return tuple(draw(st.lists(one, min_size=2, max_size=max_rankers).filter(any)))


@st.composite
def worlds(draw: st.DrawFn, max_rankers: int = 4, max_documents: int = 4) -> World:
    """Rankings, and a cut from 1 to more than there is to show."""
    return World(draw(rankings(max_rankers, max_documents)), draw(st.integers(1, max_documents + 2)))


def worlds_for(spec: str, max_rankers: int = 4, max_documents: int = 4) -> st.SearchStrategy[World]:
    """Worlds with as many rankers as the spec takes."""
    chosen = resolve(spec)
    return worlds(chosen.rankers[1] or max_rankers, max_documents)


@st.composite
def spec_and_world(
    draw: st.DrawFn, specs: Sequence[str] = EVERY_SPEC, max_rankers: int = 4, max_documents: int = 5
) -> tuple[str, World]:
    """A spec, and a world it can work in."""
    spec = draw(st.sampled_from(specs))
    return spec, draw(worlds_for(spec, max_rankers, max_documents))


def click_sets(count: int) -> Iterator[Clicks]:
    """Every set of clicks on a list of so many documents."""
    return chain.from_iterable(combinations(range(1, count + 1), size) for size in range(count + 1))


def clicks_on(count: int) -> st.SearchStrategy[list[int]]:
    """Clicks on a list of so many documents, some of them twice."""
    return st.lists(st.integers(1, count), max_size=count + 1) if count else st.just([])


class Oracle(NamedTuple):
    """A spec's independent oracle, its parameters passed on."""

    chosen: ResolvedMethod
    module: Any

    def distribution(self, world: World) -> Distribution:
        return _distribution(str(self.chosen), world)

    def preference(
        self, rankings: Rankings, shown: Ranking, teams: Teams, clicks: Clicks, scheme: str
    ) -> list[list[Fraction]]:
        clicked = frozenset(rank - 1 for rank in clicks)
        parameters = {name: value for name, value in self.chosen.parameters.items() if name != "samples"}
        found: list[list[Fraction]] = self.module.preference(rankings, shown, teams, clicked, scheme, **parameters)
        return found


@lru_cache(maxsize=1_000)
def _distribution(spec: str, world: World) -> Distribution:
    """Several tests ask for the lists of the same worlds, and only read them."""
    oracle = oracle_of(spec)
    found: Distribution = oracle.module.distribution(world.rankings, world.k, **oracle.chosen.parameters)
    return found


def oracle_of(spec: str) -> Oracle:
    chosen = resolve(spec)
    return Oracle(chosen, import_module(f"tests.oracles.{chosen.method.name}"))


def shown_of(rankings: Rankings, outcome: tuple[Ranking, Teams], spec: str) -> Interleaving:
    """A composed list as an impression; where a method lists no teams, there are none to give."""
    documents, teams = outcome
    return Interleaving.of(rankings, documents, spec, teams)
