"""One impression: rankings become a shown list (`interleave`), clicks on it become an outcome (`credit`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from interleaf.errors import ClickError, ListError, RankingError
from interleaf.interleaving import serialisation
from interleaf.interleaving.rankings import (
    CheckedRankings,
    Document,
    Rankings,
    check_fixed,
    check_k,
    collapse,
    count_free_ranks,
    insert_fixed,
    remove_documents,
    shift_rank,
    unshown_rank_lists,
)
from interleaf.kernels.arrays import Array, Impression
from interleaf.kernels.randomness import Key, bytes_of, key_of
from interleaf.methods.registry import DEFAULT, FOREIGN, ResolvedMethod, resolve


@dataclass(frozen=True, eq=False)
class Interleaving:
    """A shown list with everything that is needed to credit clicks; log what `to_dict` returns.

    `teams[position]` is the index of the ranker that owns it, -1 nobody, None where the method has no teams;
    `ranks[ranker, position]` is where each ranker has each shown document, 1 = top, 0 = not at all. `unshown_ranks` are
    the ranks of documents that are not shown, but would be if one ranker had made the list; None if they are not known.

    `documents` is the list that is logged. `fixed` are documents at given ranks, which no ranker owns, and `whole_list`
    is what people see: `documents` with the fixed ones at their ranks.
    """

    documents: tuple[Document, ...]
    rankers: tuple[str, ...]
    method: str
    teams: tuple[int, ...] | None
    ranks: Array
    lengths: tuple[int, ...]
    union: int
    choices: tuple[int, ...] | None = None
    key: str | None = None
    relaxed: bool | None = None
    known_log_probability: float | None = None
    rankings: tuple[tuple[Document, ...], ...] | None = None
    known_unshown_ranks: Array | None = None
    fixed: Mapping[int, Document] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rankings: Rankings,
        documents: Sequence[Document],
        method: str = FOREIGN,
        teams: Sequence[int] | None = None,
        *,
        fixed: Mapping[int, Document] | None = None,
    ) -> Interleaving:
        """A list that another system composed from these rankings.

        `fixed` are documents at given ranks of the list that people saw, such as ads. `documents` and `teams` are
        without them.

        >>> Interleaving.of([["a", "b"], ["b", "a"]], ["b", "a"], teams=(1, 0)).ranks.tolist()
        [[2, 1], [1, 2]]
        >>> Interleaving.of([["a", "b"], ["b", "a"]], ["b", "a"], teams=(1, 0), fixed={1: "ad"}).whole_list
        ('ad', 'b', 'a')
        """
        chosen, places = resolve(method), check_fixed(fixed or {})
        if places:
            rankings = remove_documents(rankings, places.values())
        problem = CheckedRankings.of(rankings, chosen)
        shown = serialisation.check_documents(documents)
        ranks = problem.ranks_of(shown)
        for position, document in enumerate(shown):
            if not ranks[:, position].any():
                raise ListError(
                    f"document {document!r}, shown at rank {position + 1}, is in none of the rankings "
                    f"{problem.rankers!r}; leave it out, or add it to the ranking it came from"
                )
        owners = serialisation.check_teams(teams, len(shown), len(problem.rankers), chosen)
        return replace(DrawnList(chosen, problem, None, shown, owners, ranks=ranks).interleaving(), fixed=places)

    @property
    def log_probability(self) -> float | None:
        """The log of the list's probability under its method; None if the method cannot compute it, -inf if it is 0."""
        if self.known_log_probability is not None:
            return self.known_log_probability
        chosen = resolve(self.method)
        if any(getattr(self, need) is None for need in chosen.method.needs):
            return None
        factors = _kernels().probability(chosen, self.impression())
        if factors is None:
            return None
        return math.fsum(math.log(factor) for factor in factors) if (factors > 0).all() else -math.inf

    @cached_property
    def unshown_ranks(self) -> Array | None:
        """`[ranker, document]`: ranks of the documents that are not shown, down to the rank of the list's last one.

        >>> interleave([["a", "b"], ["b", "c"]], k=2, key="user-7").unshown_ranks.tolist()
        [[0], [2]]
        """
        if self.rankings is None:
            return self.known_unshown_ranks
        return np.array(unshown_rank_lists(self.rankings, self.documents), np.int32)

    @property
    def whole_list(self) -> tuple[Document, ...]:
        """The list that people see, fixed documents included."""
        return tuple(insert_fixed(self.documents, self.fixed))

    def rank_in_log(self, rank: int) -> int | None:
        """A rank of the list that people see as the rank that is logged; None for a fixed document.

        A log holds no fixed documents, and its ranks do not count them.

        >>> shown = interleave([["a", "b"], ["b", "a"]], key="user-7", fixed={2: "ad"})
        >>> [shown.rank_in_log(rank) for rank in (1, 2, 3)]
        [1, None, 2]
        """
        if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)):
            raise ClickError(f"a click is a rank in the shown list, a whole number, not {rank!r}")
        count = len(self.whole_list)
        if not 1 <= rank <= count:
            raise ClickError(f"click at rank {rank}, but ranks 1 to {count} were shown; ranks start at 1 at the top")
        return shift_rank(rank, self.fixed)

    def impression(self, unshown: bool = True) -> Impression:
        """The record that kernels credit, with the ranks of unshown documents if `unshown`."""
        count = len(self.documents)
        teams = np.full(count, -1, np.int32) if self.teams is None else np.array(self.teams, np.int32)
        choices = np.zeros(count, np.int32) if self.choices is None else np.array(self.choices, np.int32)
        fields = self.ranks, teams, np.array(self.lengths, np.int32), self.union, choices
        if not unshown:
            return Impression.of(*fields)
        words = None if self.key is None else np.frombuffer(bytes_of(self.key), "<u8")
        return Impression.of(*fields, self.unshown_ranks, words)

    def to_dict(self, rankings: bool = False, probability: bool = True) -> dict[str, Any]:
        """A mapping for JSON, with the names of the log's columns, and with the input rankings if `rankings` is true.

        With fixed documents there is also `fixed`, which is not a column of the log. Without `probability`, the list's
        probability is left out if it follows from the rest: that is faster.
        """
        return serialisation.to_dict(self, rankings, probability)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Interleaving:
        """Read and check what `to_dict` wrote; `rankings` may replace `ranks`."""
        if not isinstance(data, Mapping):
            raise ListError(f"a stored list is a mapping, as to_dict gives it, not {data!r}")
        chosen = resolve(data.get("method", FOREIGN))
        if "ranks" not in data and "rankings" in data:
            shown = cls.of(*serialisation.rankings_and_documents(data, chosen), chosen.text, data.get("teams"))
            return replace(shown, **serialisation.check_extras(data))
        return cls(**serialisation.check_fields(data, chosen))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interleaving) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.documents, self.rankers, self.method, self.key))


class DrawnList(NamedTuple):
    """A list drawn from checked rankings. What is None, and choices, are computed only when they are needed."""

    chosen: ResolvedMethod
    problem: CheckedRankings
    key: str | None
    documents: tuple[Document, ...]
    teams: tuple[int, ...] | None
    relaxed: bool | None = None
    log_probability: float | None = None
    union: int | None = None
    ranks: Array | None = None
    unshown_ranks: Array | None = None

    @property
    def choices(self) -> tuple[int, ...] | None:
        """How many documents some ranker has in its top x, for each x; None if the method's credit does not use it."""
        return self.problem.choices(len(self.documents)) if "choices" in self.chosen.method.needs else None

    def interleaving(self) -> Interleaving:
        """The list with everything that is needed to credit clicks."""
        problem = self.problem
        return Interleaving(
            self.documents,
            problem.rankers,
            self.chosen.text,
            self.teams,
            problem.ranks_of(self.documents) if self.ranks is None else self.ranks,
            problem.lengths,
            problem.union if self.union is None else self.union,
            self.choices,
            self.key,
            self.relaxed,
            self.log_probability,
            problem.rankings,
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of clicks on one shown list.

    `credit` is each ranker's credit; `preference[i, j]` is above 0 if ranker i is preferred to j; `score` is the
    preference of the first over the second of two rankers, and None for more.
    """

    credit: dict[str, float]
    preference: Array
    scheme: str

    @property
    def score(self) -> float | None:
        return float(self.preference[0, 1]) if len(self.credit) == 2 else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        preference = self.preference.tolist()
        return {"scheme": self.scheme, "credit": self.credit, "preference": preference, "score": self.score}


def interleave(
    rankings: Rankings,
    method: str = DEFAULT,
    k: int = 10,
    key: Key | None = None,
    *,
    groups: Mapping[Any, Any] | None = None,
    fixed: Mapping[int, Document] | None = None,
) -> Interleaving:
    """Mix rankings into one list; the same key gives the same list.

    `groups` says which documents are variants of one thing: a list shows one of each group, and none of a group that
    has a fixed document.

    `fixed` are documents at given ranks, such as ads. They are removed from the rankings, belong to no ranker, and take
    ranks of the `k` that people see. Show `whole_list` then, which has them.

    >>> shown = interleave({"production": ["d4", "d1"], "candidate": ["d1", "d9"]}, key=("experiment", "user-7"))
    >>> shown.documents, shown.teams
    (('d1', 'd4', 'd9'), (1, 0, -1))
    >>> interleave([["d4", "d1"], ["d1", "d9"]], k=3, key=("experiment", "user-7"), fixed={1: "ad"}).whole_list
    ('ad', 'd1', 'd4')
    """
    if fixed is None:
        merged = rankings if groups is None else collapse(rankings, groups)
        return draw(merged, resolve(method), k, key).interleaving()
    size = check_k(k)
    places = check_fixed(fixed, size)
    merged = rankings if groups is None else collapse(rankings, groups, places.values())
    rest = remove_documents(merged, places.values())
    if not any(rest.values()):
        raise RankingError("no ranking holds a document that is not fixed; at least one must")
    shown = draw(rest, resolve(method), count_free_ranks(size, places), key).interleaving()
    return replace(shown, fixed=places)


def draw(rankings: Rankings, chosen: ResolvedMethod, k: int, key: Key | None) -> DrawnList:
    """The list that `interleave` shows, without the fields that only credit needs."""
    problem = CheckedRankings.of(rankings, chosen)
    size, name = check_k(k), key_of(key)
    return DrawnList(chosen, problem, name, *_kernels().compose(chosen, problem, size, name))


def draw_all(
    rankings: Sequence[Mapping[str, Sequence[Document]]], chosen: ResolvedMethod, k: int, keys: Sequence[str]
) -> list[DrawnList]:
    """The same for several rankings, which are short, without duplicates, and of the same number of rankers."""
    calls, kernels = _kernels(), chosen.method.kernels
    if len(rankings) == 1 or kernels.prepare is not None or not calls.is_compiled(kernels.compose_batch):
        return [draw(one, chosen, k, key) for one, key in zip(rankings, keys, strict=True)]
    problems = [CheckedRankings(tuple(one), tuple(map(tuple, one.values())), ()) for one in rankings]
    rows = zip(problems, keys, calls.batch.draw(chosen, problems, k, keys), strict=True)
    return [DrawnList(chosen, problem, key, *fields) for problem, key, fields in rows]


def credit(shown: Interleaving, clicks: Iterable[int], scheme: str | None = None) -> Outcome:
    """Turn clicks, as ranks in the shown list from 1, into credit and preferences; repeated clicks count once.

    Ranks are those of `shown.whole_list`. Clicks on fixed documents count for nobody.

    >>> shown = Interleaving.of([["a", "b", "c"], ["b", "c", "a"]], ["a", "b", "c"], teams=(0, 1, 0))
    >>> credit(shown, clicks=[2]).credit
    {'A': 0.0, 'B': 1.0}
    """
    if not isinstance(shown, Interleaving):
        raise ListError(
            f"a shown list is an Interleaving, not {type(shown).__name__}; Interleaving.from_dict reads one"
        )
    chosen = resolve(shown.method)
    named = chosen.scheme(scheme, len(shown.rankers))
    serialisation.check_needs(shown, chosen, named)
    impression = shown.impression("unshown_ranks" in chosen.method.needs_of(named))
    values, preference = _kernels().credit(chosen, named, impression, _mark_clicks(clicks, shown))
    return Outcome(dict(zip(shown.rankers, values.tolist(), strict=True)), preference, named.name)


def warm(method: str = DEFAULT, rankers: int = 2) -> None:
    """Compile a method's kernels now, so that the first request does not wait for it."""
    with _kernels().compiling():
        shown = warm_composing(method, rankers)
        shown.to_dict()
        for scheme in resolve(method).method.schemes_for(rankers):
            credit(shown, [1], scheme)


def warm_composing(method: str, rankers: int) -> Interleaving:
    """Compile only what composes lists: a service computes neither credit nor probabilities of single lists."""
    chosen = resolve(method)
    if rankers < 2:
        raise RankingError(f"there is nothing to warm for {rankers} rankers; give the number you compare, at least 2")
    names = [str(chosen.parameters.get("ranker") or "first"), *map(str, range(1, rankers))]
    rankings = dict(zip(names, [[0, 1, 2], [1, 0, 2], *([[2, 0, 1]] * (rankers - 2))], strict=True))
    with _kernels().compiling():
        draw_all([rankings, rankings], chosen, 2, [key_of("warm")] * 2)
        return interleave(rankings, method, k=2, key="warm")


@cache
def _kernels() -> ModuleType:
    """The module that calls kernels, imported on first use, because it imports the compiler."""
    from interleaf.interleaving import kernel_calls

    return kernel_calls


def _mark_clicks(clicks: Iterable[int], shown: Interleaving) -> list[bool]:
    """Which of `shown.documents` were clicked."""
    clicked = [False] * len(shown.documents)
    if not isinstance(clicks, Iterable):
        raise ClickError(f"clicks are ranks in the shown list, such as [1, 3], not {clicks!r}")
    for rank in clicks:
        logged = shown.rank_in_log(rank)
        if logged is not None:
            clicked[logged - 1] = True
    return clicked
