"""The table of comparison methods: a row each, data only, so that listing them needs no compiler.

A row names the module that holds the method's kernels; `Method.kernels` loads it on first use. What is in a module:

* `settings(lengths, parameters, exact)`: the last argument of every kernel of the file, a named tuple.
* `compose(given, k, chance, shown, teams, settings)` writes the shown documents (and teams), returns how many.
* `credit(impression, clicks, variant, credit, settings)` adds each ranker's credit to zeros, returns how many clicks
  were credited.
* `compose_batch`, `credit_batch`: the same over many impressions, in one compiled loop.
* optional `probability(impression, factors, settings)` writes the probability of each shown document given those
  above it, and returns whether it can tell.
* optional `expected_sign(impression, clicks, preference, settings)`, and its batch, where the binary scheme is not the
  sign of credit.
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

from interleaf import spec
from interleaf.errors import MethodError, SchemeError, listed
from interleaf.spec import Parameter as Parameter
from interleaf.spec import Value

FORMS = ("binary", "click", "normalized")
VARIANTS = ("", "direct", "deduped")


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


@dataclass(frozen=True)
class Method:
    """One row of the table; `schemes` with the default first, `many_schemes` where more than two rankers differ.

    `needs` is what credit needs besides ranks; `rankless_schemes` need no ranks either; `additive` says that credit is
    the sum of that of each click alone. Of the lists: `composes_as` is
    the method whose lists it shows, if another's, and `composing` are the parameters that have a part in them;
    `even_owners` says that every position is owned by each ranker alike, whatever is shown there, and `even_tops` that
    the top document of each is shown first as often. `unfair` are values of parameters that make all this untrue.
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
    even_owners: bool = False
    even_tops: bool = False
    unfair: tuple[Value, ...] = ()
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


@dataclass(frozen=True)
class Chosen:
    """A method with its parameters set; `str` is the canonical spec."""

    method: Method
    parameters: Mapping[str, Value]
    text: str

    def __str__(self) -> str:
        return self.text

    @property
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
            known = name in ALL_SCHEMES
            problem = f"{self.method.name} does not offer scheme {name!r}" if known else f"unknown scheme {name!r}"
            raise SchemeError(f"{problem}; {self.method.name} offers {listed(offered)}")
        return scheme_of(name or offered[0])


def resolve(text: str | Chosen) -> Chosen:
    """The method a spec string names, its parameters checked and completed.

    >>> str(resolve("probabilistic(tau=3.0)"))
    'probabilistic'
    """
    if isinstance(text, Chosen):
        return text
    if not isinstance(text, str):
        raise MethodError(f"a method is named by a spec string such as 'team_draft', not {text!r}")
    return _resolve(text, METHODS.get(text.partition("(")[0].strip()))


@lru_cache(maxsize=1024)
def _resolve(text: str, method: Method | None) -> Chosen:
    name, given = spec.parse(text)
    if method is None:
        raise MethodError(f"unknown method {name!r}; known are {listed(METHODS)}")
    names = [parameter.name for parameter in method.parameters]
    for unknown in given.keys() - set(names):
        raise MethodError(f"{name} has no parameter {unknown!r}; it has {listed(names)}")
    values = {p.name: p.check(given[p.name], name) if p.name in given else p.default for p in method.parameters}
    return Chosen(method, values, spec.render(name, values, method.parameters))


@lru_cache(maxsize=64)
def scheme_of(name: str) -> Scheme:
    """The scheme with this name, whoever offers it."""
    form, _, variant = name.partition("_")
    return Scheme(name, FORMS.index(form), VARIANTS.index(variant))


_TAU = Parameter("tau", 3, "how steeply a rank's weight, rank to the power -tau, falls")

METHODS: dict[str, Method] = {
    row.name: row
    for row in (
        Method(
            name="balanced",
            title="Balanced interleaving",
            paper="C12",
            rankers=(2, 2),
            parameters=(
                Parameter("fill", True, "go on with the longer ranking when the other one is used up", (True, False)),
                Parameter(
                    "depth",
                    "lowest",
                    "credit depth from the lowest click (C12) or from every clicked document (H11)",
                    ("lowest", "clicked"),
                ),
            ),
            schemes=tuple(form + variant for variant in ("", "_direct") for form in FORMS),
            claims=Claims(considerate=True, unbiased=False, pareto=False, reusable=False),
            composing=("fill",),
            even_tops=True,
        ),
        Method(
            name="document_constraint",
            title="Document constraints on balanced lists",
            paper="H11",
            rankers=(2, 2),
            parameters=(
                Parameter(
                    "constraints",
                    1,
                    "a click over skipped ones above (1), also the next (2), next unclicked (3), or the lowest's next",
                    (1, 2, 3, "lowest"),
                ),
            ),
            schemes=("binary", "click"),
            claims=Claims(considerate=True, unbiased=False, pareto=False, reusable=False),
            composes_as="balanced",
            even_tops=True,
        ),
        Method(
            name="team_draft",
            title="Team draft",
            paper="C12",
            rankers=(2, None),
            parameters=(
                Parameter(
                    "fill",
                    "fair",
                    "after the shortest ranking's length: nobody owns (fair), the drafter does (owned), or end (stop)",
                    ("fair", "owned", "stop"),
                ),
                Parameter(
                    "prefix",
                    False,
                    "put the shared prefix first, owned by nobody, instead of drafting it",
                    (True, False),
                ),
            ),
            schemes=tuple(form + variant for variant in ("_deduped", "") for form in FORMS),
            additive=True,
            claims=Claims(considerate=True, unbiased=True, pareto=False, reusable=False),
            needs=("teams",),
            has_teams=True,
            rankless_schemes=FORMS,
            even_owners=True,
            unfair=("owned", "stop"),
        ),
        Method(
            name="probabilistic",
            title="Probabilistic interleaving",
            paper="H11",
            rankers=(2, None),
            parameters=(_TAU,),
            schemes=FORMS,
            many_schemes=("click", "normalized", "binary"),
            additive=True,
            claims=Claims(considerate=False, unbiased=True, pareto=True, reusable=True),
            needs=("lengths", "union"),
            has_teams=True,
            whole_rankings=True,
            composing=("tau",),
            even_owners=True,
        ),
        Method(
            name="optimized",
            title="Optimized interleaving",
            paper="R13",
            rankers=(2, None),
            parameters=(
                Parameter(
                    "credit",
                    "inverse",
                    "what a document's rank is worth: 1/rank, -rank, or the sign of the difference (two rankers)",
                    ("inverse", "linear", "binary"),
                    for_two=("binary",),
                ),
                Parameter(
                    "samples", 50, "how many lists are drawn where all of them are too many", whole=True, most=10_000
                ),
            ),
            schemes=("click", "normalized"),
            additive=True,
            claims=Claims(considerate=True, unbiased=False, pareto=False, reusable=False),
            needs=("lengths",),
            composing=("credit",),
        ),
        Method(
            name="sample_scored_only",
            title="Sample-scored-only multileaving",
            paper="B16",
            rankers=(2, None),
            parameters=(_TAU,),
            schemes=("binary", "click"),
            additive=True,
            claims=Claims(considerate=True, unbiased=False, pareto=False, reusable=False),
            needs=("lengths",),
            has_teams=True,
            composes_as="team_draft",
        ),
        Method(
            name="pairwise_preference",
            title="Pairwise preference multileaving",
            paper="O17",
            rankers=(2, None),
            parameters=(
                Parameter(
                    "pairs",
                    "global",
                    "which skipped documents a click is preferred to",
                    ("global", "per_click", "next_unclicked"),
                ),
            ),
            schemes=("click", "normalized"),
            claims=Claims(considerate=True, unbiased=True, pareto=True, reusable=False),
            needs=("choices",),
            even_tops=True,
        ),
        Method(
            name="single",
            title="One ranker's list unchanged",
            paper="C12",
            rankers=(1, None),
            parameters=(Parameter("ranker", None, "whose list is shown; the first ranker's if left out"),),
            schemes=(),
            claims=Claims(considerate=True, unbiased=None, pareto=None, reusable=False),
            has_teams=True,
        ),
    )
}

ALL_SCHEMES = tuple(dict.fromkeys(scheme for row in METHODS.values() for scheme in row.schemes))


def methods() -> tuple[Method, ...]:
    """The table of methods: name, title, paper, rankers, parameters, schemes, claims."""
    return tuple(METHODS.values())
