"""The table of methods, one row per method. It is data only; the first use of a method imports its kernels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any

from interleaf import spec
from interleaf.errors import MethodError, SchemeError, suggest
from interleaf.methods.schemes import FORMS, VARIANTS, Scheme, scheme_of
from interleaf.spec import Parameter, Value

INDEPENDENT, DRAFTED = "independent", "drafted"


@dataclass(frozen=True)
class Claims:
    """The properties of a method. The audit proves each one, or has a counterexample; None: it does not apply.

    `considerate`: no document is shown above the best rank that any ranker gave it. `fair`: clicks that depend on the
    rank only prefer nobody, on average over the lists that the method draws. It does not mean that the winner would win
    an A/B test. `pareto`: a ranker that has every relevant document at least as high as each other ranker, and one of
    them higher, is preferred on average. `reusable`: every list can be shown, so old logs can be reweighted.
    """

    considerate: bool | None
    fair: bool | None
    pareto: bool | None
    reusable: bool | None


@dataclass(frozen=True)
class Kernels:
    """The functions of a method's module, by name; None where it has no such function.

    `settings(lengths, parameters, exact)` makes the last argument of every kernel. `compose` writes a list, `credit`
    adds credit for clicks; `credit_list` and `credit_place` do so in the variants of these names. `probability` writes
    the probability of each document given those above it. `place` writes the probability of each document at each
    position, `[document, position]`; the documents of the list come first, in its order, then those of `unshown_ranks`.
    `expected_sign` replaces the sign of the credit by its exact expectation over the owners. A method that has to solve
    something for given rankings does it in `prepare`, which returns the settings; `prepare_batch` does it for many
    queries, `settings_at` returns the settings of one of them, and `prepared_probability` is the probability of a list
    under such settings. The other functions whose names end in `_batch` are loops over rows, of `methods/loops.py`.
    """

    settings: Callable[..., Any]
    compose: Callable[..., Any]
    compose_batch: Callable[..., Any]
    credit: Callable[..., Any]
    credit_list: Callable[..., Any] | None = None
    credit_place: Callable[..., Any] | None = None
    probability: Callable[..., Any] | None = None
    place: Callable[..., Any] | None = None
    expected_sign: Callable[..., Any] | None = None
    expected_sign_batch: Callable[..., Any] | None = None
    prepare: Callable[..., Any] | None = None
    prepared_probability: Callable[..., Any] | None = None
    prepare_batch: Callable[..., Any] | None = None
    settings_at: Callable[..., Any] | None = None

    def credit_of(self, variant: int) -> Callable[..., Any]:
        """The kernel that adds credit in this variant."""
        return getattr(self, f"credit_{VARIANTS[variant]}", None) or self.credit


@dataclass(frozen=True, eq=False)  # compared and hashed by identity: hashing all fields is slow
class Method:
    """One row of the table of methods."""

    name: str
    title: str
    paper: str  # a key of the bibliography
    rankers: tuple[int, int | None]  # the smallest and the largest number of rankers; None: any number
    parameters: tuple[Parameter, ...]
    schemes: tuple[str, ...]  # the default first
    claims: Claims
    schemes_for_many: tuple[str, ...] | None = None  # for more than two rankers, if they differ
    module_name: str = ""  # the module with the kernels, if it is not interleaf.methods.NAME

    # Credit
    needs: tuple[str, ...] = ()  # the fields of an impression that credit needs besides the ranks
    needs_by_variant: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # where it needs other fields
    logs_unshown_ranks: bool = False  # lists are logged with the ranks of unshown documents
    rankless_schemes: tuple[str, ...] = ()  # schemes that do not need the ranks either
    additive: bool = False  # the credit for several clicks is the sum of the credit for each click alone

    # Lists
    has_teams: bool = False  # positions have owners
    whole_rankings: bool = False  # the list also depends on the rankings below rank k
    same_lists_as: str = ""  # the method that draws the same lists, if there is another
    list_parameters: tuple[str, ...] = ()  # the parameters that the lists depend on
    depends_on_k: bool = False  # a longer list need not begin with the shorter list of the same key
    even_owners: bool = False  # each ranker owns each position equally often, for any documents
    several_owners: bool = False  # of more than two rankers, several may own a position, which `teams` does not say
    even_tops: bool = False  # the top document of each ranker is shown first equally often
    drawn_by_unit: bool = False  # a unit always sees the list of the same ranker: the key must not depend on the query
    takes_best: bool = False  # each document is the best one of some ranking that is not shown above it
    unfair_values: tuple[Value, ...] = ()  # parameter values for which `fair`, `even_owners` and `even_tops` are false

    # Old lists scored for new rankers (H12h)
    abbreviation: str = ""  # the method's name in the names of estimates; "" if it cannot do this
    owners_given_list: str = ""  # INDEPENDENT by position, DRAFTED, or "" if credit does not depend on owners

    @cached_property
    def kernels(self) -> Kernels:
        """The method's functions; the first use imports their module, and the compiler with it."""
        module = import_module(self.module_name or f"interleaf.methods.{self.name}")
        functions: dict[str, Any] = {one.name: getattr(module, one.name, None) for one in fields(Kernels)}
        loops = import_module("interleaf.methods.loops")
        functions["compose_batch"] = loops.compose_batch(functions["compose"], functions["settings_at"])
        if functions["expected_sign"] is not None:
            functions["expected_sign_batch"] = loops.expected_sign_batch(functions["expected_sign"])
        return Kernels(**functions)

    def needs_of(self, scheme: Scheme) -> tuple[str, ...]:
        """The fields of an impression that credit by this scheme needs besides the ranks."""
        return self.needs_by_variant.get(VARIANTS[scheme.variant], self.needs)

    def sign_scheme(self, scheme: Scheme) -> Scheme | None:
        """The scheme by which lists that favour a ranker are counted; None if no sign is fair.

        It is the binary form of the same variant. An average over owners has none, so the drawn owners are taken.
        """
        variant = VARIANTS[scheme.variant]
        binary = [scheme_of(name) for name in self.schemes if scheme_of(name).form is FORMS["binary"]]
        same = [one for one in binary if one.variant == scheme.variant]
        return next(iter(same or (binary if variant in self.needs_by_variant else [])), None)

    def schemes_for(self, rankers: int, lacking: Collection[str] = ()) -> tuple[str, ...]:
        """The schemes on offer for this many rankers, the default first.

        `lacking` are fields that the lists do not have; schemes that need one are left out.
        """
        offered = self.schemes_for_many if self.schemes_for_many and rankers > 2 else self.schemes
        if not lacking:  # checked for each credit, so it must be quick
            return offered
        return tuple(name for name in offered if not self.fields_of(scheme_of(name)).intersection(lacking))

    def fields_of(self, scheme: Scheme) -> set[str]:
        """All fields of an impression that credit by this scheme needs."""
        return {*self.needs_of(scheme), *(() if scheme.name in self.rankless_schemes else ("ranks",))}


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
        """The smallest and the largest number of rankers that it compares; None: any number."""
        if any(self.parameters[parameter.name] in parameter.for_two for parameter in self.method.parameters):
            return 2, 2
        return self.method.rankers

    @property
    def stops_early(self) -> bool:
        """Whether a list ends where the shortest ranking ends, so that one empty ranking makes it empty."""
        return self.parameters.get("fill") in (False, "stop")

    def scheme(self, name: str | None, rankers: int) -> Scheme:
        """The scheme with this name, or the default one; the method must offer it for this number of rankers."""
        offered = self.method.schemes_for(rankers)
        if not offered:
            raise SchemeError(
                f"{self.method.name} compares nothing, so it offers no scheme; compare its logs as A/B arms"
            )
        if name is not None and name not in offered:
            form, _, variant = name.partition("_")
            is_known = form in FORMS and variant in VARIANTS
            problem = f"{self.method.name} does not offer scheme {name!r}" if is_known else f"unknown scheme {name!r}"
            if is_known and not FORMS[form].linear and variant in self.method.needs_by_variant:
                problem += ", because the sign of credit that is averaged over owners is not fair"
            raise SchemeError(f"{problem}; {self.method.name} offers {suggest(name, offered)}")
        return scheme_of(name or offered[0])


DEFAULT = "competitive_pairs"  # of all functions and commands that make lists; docs/studies/sensitivity.md says why
FOREIGN = "team_draft"  # of lists that another system made, if nothing says how: search engines use team draft


def resolve(text: str | ResolvedMethod) -> ResolvedMethod:
    """The method of a spec string; parameters are checked, and the others have their defaults.

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
    name, changed = spec.parse(text)
    if method is None:
        raise MethodError(f"unknown method {name!r}; known are {suggest(name, METHODS)}")
    names = [parameter.name for parameter in method.parameters]
    for unknown in changed.keys() - set(names):
        raise MethodError(f"{name} has no parameter {unknown!r}; it has {suggest(unknown, names)}")
    values = {p.name: p.check(changed[p.name], name) if p.name in changed else p.default for p in method.parameters}
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
            claims=Claims(considerate=True, fair=False, pareto=False, reusable=False),
            list_parameters=("fill",),
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
            claims=Claims(considerate=True, fair=False, pareto=False, reusable=False),
            same_lists_as="balanced",
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
            schemes=(
                *(form + variant for variant in ("_deduped", "") for form in FORMS),
                *(form.name + variant for variant in ("_list", "_place") for form in FORMS.values() if form.linear),
            ),
            additive=True,
            claims=Claims(considerate=True, fair=True, pareto=False, reusable=False),
            needs=("teams",),
            needs_by_variant={"list": ("lengths",), "place": ("lengths", "unshown_ranks", "teams")},
            logs_unshown_ranks=True,
            has_teams=True,
            rankless_schemes=tuple(FORMS),
            even_owners=True,
            unfair_values=("owned", "stop"),
            abbreviation="TD",
            owners_given_list=DRAFTED,
            takes_best=True,
        ),
        Method(
            name="competitive_pairs",
            title="Competitive pairs",
            paper="A25",
            rankers=(2, None),
            parameters=(
                Parameter(
                    "coins",
                    "pair",
                    "one coin for each pair of documents, or one for the list (two rankers)",
                    ("pair", "list"),
                    for_two=("list",),
                ),
            ),
            schemes=tuple(FORMS),
            additive=True,
            claims=Claims(considerate=True, fair=True, pareto=False, reusable=False),
            needs=("lengths",),
            logs_unshown_ranks=True,
            has_teams=True,
            several_owners=True,
            takes_best=True,
        ),
        Method(
            name="probabilistic",
            title="Probabilistic interleaving",
            paper="H11",
            rankers=(2, None),
            parameters=(_TAU,),
            schemes=tuple(FORMS),
            schemes_for_many=("click", "normalized", "binary"),
            additive=True,
            claims=Claims(considerate=False, fair=True, pareto=True, reusable=True),
            needs=("lengths", "union"),
            has_teams=True,
            whole_rankings=True,
            list_parameters=("tau",),
            even_owners=True,
            abbreviation="PI",
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
                Parameter("samples", 50, "lists to draw, if there are too many to list", whole=True, max_value=10_000),
            ),
            schemes=("click", "normalized"),
            additive=True,
            claims=Claims(considerate=True, fair=False, pareto=False, reusable=False),
            needs=("lengths",),
            list_parameters=("credit",),
            depends_on_k=True,
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
            claims=Claims(considerate=True, fair=False, pareto=False, reusable=False),
            needs=("lengths",),
            has_teams=True,
            same_lists_as="team_draft",
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
            claims=Claims(considerate=True, fair=True, pareto=True, reusable=False),
            needs=("choices",),
            even_tops=True,
            abbreviation="PP",
        ),
        Method(
            name="single",
            title="One ranker's list unchanged",
            paper="C12",
            rankers=(1, None),
            parameters=(Parameter("ranker", None, "whose list is shown; the first ranker's if left out"),),
            schemes=(),
            claims=Claims(considerate=True, fair=None, pareto=None, reusable=False),
            has_teams=True,
        ),
        Method(
            name="one_list",
            title="One ranker's list, the same one for a user",
            paper="C12",
            rankers=(2, None),
            parameters=(),
            schemes=(),
            claims=Claims(considerate=True, fair=None, pareto=None, reusable=False),
            logs_unshown_ranks=True,
            has_teams=True,
            drawn_by_unit=True,
        ),
    )
}

ONE_LIST = "one_list"

ALL_SCHEMES = tuple(dict.fromkeys(scheme for row in METHODS.values() for scheme in row.schemes))


def show_unchanged(ranker: str) -> ResolvedMethod:
    """The method that shows one ranker's list unchanged.

    >>> str(show_unchanged("production"))
    'single(ranker=production)'
    """
    method = METHODS["single"]
    return resolve(spec.render(method.name, {"ranker": ranker}, method.parameters))


def methods() -> tuple[Method, ...]:
    """The table of methods: name, title, paper, rankers, parameters, schemes, claims."""
    return tuple(METHODS.values())
