"""Composes the list for a request, and the row of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from interleaf.errors import ExperimentError, suggest
from interleaf.experiment.assignment import OUTSIDE, assign
from interleaf.experiment.settings import AA, LOSER, RELABELLED, Experiment
from interleaf.interleaving.api import DrawnList, draw
from interleaf.interleaving.rankings import count_free_ranks, insert_fixed, remove_documents
from interleaf.kernels.randomness import Keyed, key_of
from interleaf.log.schema import FALLBACK, INTERLEAVED, arm_of
from interleaf.methods.registry import ResolvedMethod, resolve, unchanged

Rankings = dict[str, Sequence[str]]


@dataclass(slots=True)
class Request:
    """A request for a list: rankings for one query of one unit; None stands for a ranking that failed or came too late.

    `fixed` are documents at fixed ranks, such as ads; they belong to no ranker.
    """

    impression: str
    unit: str | None
    query: str | None
    rankings: Mapping[str, Sequence[str] | None]
    k: int | None = None
    page: int = 1
    fixed: Mapping[int, str] = field(default_factory=dict)


class Noted(NamedTuple):
    """What is logged of a request: the list, and what it was drawn from."""

    drawn: DrawnList
    experiment: str
    version: int
    impression: str
    unit: str | None
    query: str | None
    arm: str
    k: int
    page: int
    fallback_reason: str | None
    fixed: dict[str, str] | None

    @property
    def row(self) -> dict[str, Any]:
        """The row of the log, and `k` and `fixed`."""
        about = self._asdict()
        drawn: DrawnList = about.pop("drawn")
        if not self.fixed:
            del about["fixed"]
        return drawn.interleaving().to_dict(rankings=True, probability=False) | about


@dataclass(slots=True)
class Shown:
    """The documents of the requested page, the arm of the unit, and what is logged (None: nothing)."""

    documents: list[str]
    arm: str
    noted: Noted | dict[str, Any] | None

    @property
    def row(self) -> dict[str, Any] | None:
        """The row of the log, or None."""
        return self.noted.row if isinstance(self.noted, Noted) else self.noted


def show(experiment: Experiment, version: int, request: Request) -> Shown:
    """Compose the list of a request. The same unit and query get the same list, for any number of pages.

    >>> shoes = Experiment.of({"name": "shoes", "rankers": ["production", "candidate"], "k": 2})
    >>> rankings = {"production": ["a", "b", "c"], "candidate": ["b", "c", "a"]}
    >>> show(shoes, 1, Request("i-1", "user-7", "trail", rankings)).documents
    ['a', 'b']
    >>> show(shoes, 1, Request("i-1", "user-7", "trail", rankings, page=2)).documents
    ['c']
    """
    unit = request.unit if request.unit is not None else request.impression
    available = _complete_rankings(experiment, request)
    size = request.k or experiment.k
    arm, shown_ranker = assign(experiment, unit), _find_shown_ranker(experiment, available)
    if arm == OUTSIDE or not shown_ranker or not count_free_ranks(size * request.page, request.fixed):
        return Shown(unmixed_page(experiment, request), arm, None)
    missing = [name for name in experiment.needed if not available[name]]
    if missing:
        arm = FALLBACK
    if arm == INTERLEAVED:
        rankings = _as_mode(experiment, available, (experiment.name, version, unit), size)
        chosen = experiment.chosen
    else:
        rankings, chosen = available, unchanged(shown_ranker)
    key = chance_key(chosen, experiment.name, version, unit, request.query)
    drawn = _draw_pages(rankings, chosen, key, size, request.page, request.fixed)
    if arm == INTERLEAVED:
        arm = arm_of(chosen.text, drawn.problem.rankers, drawn.teams)
    about = request.impression, request.unit, request.query
    reason = f"no ranking of {', '.join(missing)}" if missing else None
    fixed = {str(rank): document for rank, document in request.fixed.items()} or None
    noted = Noted(drawn, experiment.name, version, *about, arm, size, request.page, reason, fixed)
    return Shown(_page(drawn.documents, request.fixed, size, request.page), arm, noted)


def unmixed_page(experiment: Experiment, request: Request) -> list[str]:
    """The requested page of the control's list, or of the first available one, for units outside the experiment."""
    available = _complete_rankings(experiment, request)
    shown_ranker = _find_shown_ranker(experiment, available)
    ranking = available[shown_ranker] if shown_ranker else []
    return _page(ranking, request.fixed, request.k or experiment.k, request.page)


def chance_key(chosen: ResolvedMethod, experiment: str, version: int, unit: str, query: str | None) -> str:
    """The random key of a list; without the page, so that all pages belong to the same list."""
    return key_of((experiment, version, unit, "" if chosen.method.drawn_by_unit else query or ""))


def extend_list(
    row: Mapping[str, Any],
    page: int,
    more_fixed: Mapping[int, str] | None = None,
    groups: Mapping[str, str] | None = None,
) -> Shown:
    """A further page of a list that was shown; its row has all pages so far, with documents fixed on this page."""
    fixed = _read_fixed(row)
    size, arm = row["k"], row["arm"]
    added = {rank: one for rank, one in (more_fixed or {}).items() if fixed.get(rank) != one}
    _check_added(row, fixed, added, groups or {})
    fixed |= added
    if page <= (row["page"] or 1):
        return Shown(_page(row["documents"], fixed, size, page), arm, dict(row))
    rankings = dict(zip(row["rankers"], row["rankings"], strict=True))
    drawn = _draw_pages(rankings, resolve(row["method"]), row["key"], size, page, fixed)
    longer = dict(row) | drawn.interleaving().to_dict(rankings=True, probability=False) | {"page": page}
    if added:
        longer["fixed"] = {str(rank): document for rank, document in fixed.items()}
    return Shown(_page(longer["documents"], fixed, size, page), arm, longer)


def _check_added(
    row: Mapping[str, Any], fixed: Mapping[int, str], added: Mapping[int, str], groups: Mapping[str, str]
) -> None:
    """Refuse documents that are fixed on a further page if their rank was shown already, or if they or others of their
    group are in a ranking: the list is drawn already.
    """
    documents = set(fixed.values()).union(*row["rankings"]) if added else set()
    used_groups = {groups[document] for document in documents if document in groups}
    for rank, document in added.items():
        if rank in fixed or rank <= row["k"] * (row["page"] or 1):
            raise ExperimentError("fixed", {rank: document}, "this rank was shown before; fix documents of later pages")
        if document in documents or list(added.values()).count(document) > 1:
            remedy = "the document is in a ranking or fixed at another rank; give fixed documents with the first page"
            raise ExperimentError("fixed", {rank: document}, remedy)
        if groups.get(document) in used_groups:
            remedy = "another document of its group is in the list; give fixed documents with the first page"
            raise ExperimentError("fixed", {rank: document}, remedy)


def build_whole_list(row: Mapping[str, Any]) -> Sequence[str]:
    """The list that users saw, with fixed documents."""
    return insert_fixed(row["documents"], _read_fixed(row))


def _read_fixed(row: Mapping[str, Any]) -> dict[int, str]:
    return {int(rank): document for rank, document in (row.get("fixed") or {}).items()}


def _complete_rankings(experiment: Experiment, request: Request) -> Rankings:
    """A ranking for each ranker, without fixed documents; empty if it is missing."""
    for name in request.rankings:
        if name not in experiment.rankers:
            remedy = f"there is no such ranker; there are {suggest(name, experiment.rankers)}"
            raise ExperimentError("rankings", name, remedy)
    rankings = {name: request.rankings.get(name) or [] for name in experiment.rankers}
    if not request.fixed:
        return rankings
    if len(set(request.fixed.values())) < len(request.fixed):
        raise ExperimentError("fixed", dict(request.fixed), "give each document one rank")
    return remove_documents(rankings, request.fixed.values())


def _find_shown_ranker(experiment: Experiment, available: Rankings) -> str | None:
    """The ranker whose list is shown if nothing can be mixed: the control, or the first one with a ranking."""
    if available[experiment.control]:
        return experiment.control
    return next((name for name in experiment.rankers if available[name]), None)


def _as_mode(experiment: Experiment, available: Rankings, key: tuple[Any, ...], size: int) -> Rankings:
    """The rankings to mix: those available, or, in a check of the set-up, copies or reversals of the control's."""
    control = available[experiment.control]
    if experiment.mode == AA:
        return dict.fromkeys(experiment.rankers, control)
    if experiment.mode == LOSER:
        worse = [*reversed(control[:size]), *control[size:]]
        return {name: control if name == experiment.control else worse for name in experiment.rankers}
    if experiment.mode == RELABELLED:
        # One level deeper than the key of a list, (*key, query), so that no query has this key.
        chance, names = Keyed(key_of((key, "relabelled"))), list(experiment.rankers)
        swapped = [names.pop(chance.pick(len(names))) for _ in experiment.rankers]
        return {name: available[other] for name, other in zip(experiment.rankers, swapped, strict=True)}
    return available


def _draw_pages(
    rankings: Rankings, chosen: ResolvedMethod, key: str, size: int, page: int, fixed: Mapping[int, str]
) -> DrawnList:
    """Draw all pages up to this one; refuse further pages if the method would change earlier ones."""
    if page > 1 and chosen.method.depends_on_k:
        raise ExperimentError("page", page, f"{chosen} draws its lists as a whole; ask for one page, with a larger k")
    return draw(rankings, chosen, count_free_ranks(size * page, fixed), key)


def _page(documents: Sequence[Any], fixed: Mapping[int, str], size: int, page: int) -> list[str]:
    """One page of the list that users see."""
    return list(insert_fixed(documents[: size * page], fixed)[size * (page - 1) : size * page])
