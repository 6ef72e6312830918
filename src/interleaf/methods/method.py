"""What the table says of a method: its row, its claims, its kernels, and a method with its parameters set.

A row names the module that holds the method's kernels; `Method.kernels` loads it on first use. What is in a module:

* `settings(lengths, parameters, exact)`: the last argument of every kernel of the file, a named tuple.
* `compose(given, k, chance, shown, teams, settings)` writes the shown documents (and teams), returns how many.
* `credit(impression, clicks, variant, credit, settings)` adds each ranker's credit to zeros, returns how many clicks
  were credited.
* `compose_batch`, `credit_batch`: the same over many impressions, in one compiled loop.
* optional `probability(impression, factors, settings)` writes P(shown document | those above), returns if it can tell.
* optional `expected_sign(impression, clicks, preference, settings)`, and its batch, where binary is no sign of credit.
* optional `prepare(problem, names, given, size, parameters, exact)`: the settings of `compose` where they depend on
  the rankings; with `prepared_probability(settings, shown)` if that is what tells how likely the list was, and
  `prepare_batch(given, ranks, queries, k, parameters)` for the queries of a batch, stacked.

With `exact`, settings hold fractions and kernels run in plain Python, so that everything is enumerated exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any

from interleaf.errors import SchemeError, suggest
from interleaf.spec import Parameter, Value

FORMS = ("binary", "click", "normalized")
VARIANTS = ("", "direct", "deduped")
INDEPENDENT, DRAFTED = "independent", "drafted"


@dataclass(frozen=True)
class Claims:
    """What a method promises, each proved by the audit, or refuted there by a smallest counterexample.

    `considerate`: no document is shown above the best rank any ranker gave it. `unbiased`: expected preference
    zero when clicks depend on the rank only. `pareto`: a ranker that ranks every relevant document at least as high
    as each other one, and one higher, is preferred in expectation. `reusable`: every list can be shown, so old logs
    can be reweighted for new rankers. None: the question has no meaning for the method.
    """

    considerate: bool | None
    unbiased: bool | None
    pareto: bool | None
    reusable: bool | None


@dataclass(frozen=True)
class Kernels:
    """What a method's module offers, by the names above; None where it has no such function."""

    settings: Callable[..., Any]
    compose: Callable[..., Any]
    compose_batch: Callable[..., Any]
    credit: Callable[..., Any]
    credit_batch: Callable[..., Any]
    probability: Callable[..., Any] | None = None
    expected_sign: Callable[..., Any] | None = None
    expected_sign_batch: Callable[..., Any] | None = None
    prepare: Callable[..., Any] | None = None
    prepared_probability: Callable[..., Any] | None = None
    prepare_batch: Callable[..., Any] | None = None


@dataclass(frozen=True, eq=False)  # a row is itself: comparing and hashing its fields costs a request dearly
class Method:
    """One row of the table; `schemes` with the default first, `many_schemes` where more than two rankers differ.

    `needs` is what credit needs besides ranks; `rankless_schemes` need no ranks either; `additive` says that credit is
    the sum of that of each click alone. Of the lists: `composes_as` is the method whose lists it shows, if another's,
    and `composing` are the parameters that have a part in them; `drawn_whole` says that a longer list does not begin
    with a shorter one; `even_owners` says that every position is owned by each ranker alike, whatever is shown there,
    and `even_tops` that the top document of each is shown first as often. `unfair` are values of parameters that make
    all this untrue. Old lists can be scored for new rankers (H12h) where there is a `short` name for estimates; owners,
    where it takes any, are INDEPENDENT by position, or DRAFTED. `takes_best` says that each document of a list is some
    ranking's best one that is not shown above it.
    """

    name: str
    title: str
    paper: str
    rankers: tuple[int, int | None]
    parameters: tuple[Parameter, ...]
    schemes: tuple[str, ...]
    claims: Claims
    needs: tuple[str, ...] = ()
    has_teams: bool = False
    whole_rankings: bool = False
    many_schemes: tuple[str, ...] | None = None
    rankless_schemes: tuple[str, ...] = ()
    additive: bool = False
    composes_as: str = ""
    composing: tuple[str, ...] = ()
    drawn_whole: bool = False
    even_owners: bool = False
    even_tops: bool = False
    unfair: tuple[Value, ...] = ()
    short: str = ""
    owners_given_list: str = ""
    takes_best: bool = False
    module_name: str = ""

    @cached_property
    def kernels(self) -> Kernels:
        """The method's functions; the first use imports their module, and the compiler with it."""
        module = import_module(self.module_name or f"interleaf.methods.{self.name}")
        functions: dict[str, Any] = {field.name: getattr(module, field.name, None) for field in fields(Kernels)}
        return Kernels(**functions)

    def schemes_for(self, rankers: int) -> tuple[str, ...]:
        """The schemes on offer for this many rankers, the default first."""
        return self.many_schemes if self.many_schemes and rankers > 2 else self.schemes


@dataclass(frozen=True)
class Scheme:
    """How credit becomes a score: its sign, its difference, or its share of the clicks; in a variant of counting."""

    name: str
    form: int
    variant: int


@lru_cache(maxsize=64)
def scheme_of(name: str) -> Scheme:
    """The scheme with this name, whoever offers it."""
    form, _, variant = name.partition("_")
    return Scheme(name, FORMS.index(form), VARIANTS.index(variant))


@dataclass(frozen=True)
class Chosen:
    """A method with its parameters set; `str` is the canonical spec."""

    method: Method
    parameters: Mapping[str, Value]
    text: str

    def __str__(self) -> str:
        return self.text

    @cached_property
    def rankers(self) -> tuple[int, int | None]:
        """The fewest and the most rankers it compares; None: no bound."""
        if any(self.parameters[parameter.name] in parameter.for_two for parameter in self.method.parameters):
            return 2, 2
        return self.method.rankers

    def scheme(self, name: str | None, rankers: int) -> Scheme:
        """The named scheme, or the default one, if this method offers it for so many rankers."""
        offered = self.method.schemes_for(rankers)
        if not offered:
            raise SchemeError(
                f"{self.method.name} compares nothing, so it offers no scheme; compare its logs as A/B buckets"
            )
        if name is not None and name not in offered:
            form, _, variant = name.partition("_")
            known = form in FORMS and variant in VARIANTS
            problem = f"{self.method.name} does not offer scheme {name!r}" if known else f"unknown scheme {name!r}"
            raise SchemeError(f"{problem}; {self.method.name} offers {suggest(name, offered)}")
        return scheme_of(name or offered[0])
