"""The table of comparison methods: a row each, data only, so that listing them needs no compiler."""

from __future__ import annotations

from functools import lru_cache

from interleaf import spec
from interleaf.errors import MethodError, suggest
from interleaf.methods.method import DRAFTED as DRAFTED
from interleaf.methods.method import FORMS as FORMS
from interleaf.methods.method import INDEPENDENT as INDEPENDENT
from interleaf.methods.method import Chosen as Chosen
from interleaf.methods.method import Claims as Claims
from interleaf.methods.method import Kernels as Kernels
from interleaf.methods.method import Method as Method
from interleaf.methods.method import Scheme as Scheme
from interleaf.methods.method import scheme_of as scheme_of
from interleaf.spec import Parameter as Parameter

DEFAULT = "team_draft"


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
        raise MethodError(f"unknown method {name!r}; known are {suggest(name, METHODS)}")
    names = [parameter.name for parameter in method.parameters]
    for unknown in given.keys() - set(names):
        raise MethodError(f"{name} has no parameter {unknown!r}; it has {suggest(unknown, names)}")
    values = {p.name: p.check(given[p.name], name) if p.name in given else p.default for p in method.parameters}
    return Chosen(method, values, spec.render(name, values, method.parameters))


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


def unchanged(ranker: str) -> Chosen:
    """The method that shows one ranker's list as it is.

    >>> str(unchanged("production"))
    'single(ranker=production)'
    """
    method = METHODS["single"]
    return resolve(spec.render(method.name, {"ranker": ranker}, method.parameters))


def methods() -> tuple[Method, ...]:
    """The table of methods: name, title, paper, rankers, parameters, schemes, claims."""
    return tuple(METHODS.values())
