"""The table of methods: what a row says, and a row for each method. Data only; kernels load on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any

from interleaf import spec
from interleaf.errors import MethodError, SchemeError, suggest
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
class ResolvedMethod:
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


DEFAULT = "team_draft"


def resolve(text: str | ResolvedMethod) -> ResolvedMethod:
    """The method a spec string names, its parameters checked and completed.

    >>> str(resolve("probabilistic(tau=3.0)"))
    'probabilistic'
    """
    if isinstance(text, ResolvedMethod):
        return text
    if not isinstance(text, str):
        raise MethodError(f"a method is named by a spec string such as 'team_draft', not {text!r}")
    return _resolve(text, METHODS.get(text.partition("(")[0].strip()))


@lru_cache(maxsize=1024)
def _resolve(text: str, method: Method | None) -> ResolvedMethod:
    name, given = spec.parse(text)
    if method is None:
        raise MethodError(f"unknown method {name!r}; known are {suggest(name, METHODS)}")
    names = [parameter.name for parameter in method.parameters]
    for unknown in given.keys() - set(names):
        raise MethodError(f"{name} has no parameter {unknown!r}; it has {suggest(unknown, names)}")
    values = {p.name: p.check(given[p.name], name) if p.name in given else p.default for p in method.parameters}
    return ResolvedMethod(method, values, spec.render(name, values, method.parameters))


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
            takes_best=True,
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
                Parameter("prefix", False, "put the shared prefix first, owned by nobody, not drafted", (True, False)),
            ),
            schemes=tuple(form + variant for variant in ("_deduped", "") for form in FORMS),
            additive=True,
            claims=Claims(considerate=True, unbiased=True, pareto=False, reusable=False),
            needs=("teams",),
            has_teams=True,
            rankless_schemes=FORMS,
            even_owners=True,
            unfair=("owned", "stop"),
            short="TD",
            owners_given_list=DRAFTED,
            takes_best=True,
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
            short="PI",
            owners_given_list=INDEPENDENT,
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
                Parameter("samples", 50, "how many lists are drawn where there are too many", whole=True, most=10_000),
            ),
            schemes=("click", "normalized"),
            additive=True,
            claims=Claims(considerate=True, unbiased=False, pareto=False, reusable=False),
            needs=("lengths",),
            composing=("credit",),
            drawn_whole=True,
            takes_best=True,
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
            short="PP",
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


def unchanged(ranker: str) -> ResolvedMethod:
    """The method that shows one ranker's list as it is.

    >>> str(unchanged("production"))
    'single(ranker=production)'
    """
    method = METHODS["single"]
    return resolve(spec.render(method.name, {"ranker": ranker}, method.parameters))


def methods() -> tuple[Method, ...]:
    """The table of methods: name, title, paper, rankers, parameters, schemes, claims."""
    return tuple(METHODS.values())
