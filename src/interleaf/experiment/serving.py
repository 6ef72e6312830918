"""Composes the list for a request, and the row of the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from interleaf.errors import ExperimentError, suggest
from interleaf.experiment.assignment import OUTSIDE, assign
from interleaf.experiment.settings import AA, CHOOSE, LOSER, RELABELLED, Experiment
from interleaf.interleaving.api import DrawnList, draw_all
from interleaf.interleaving.rankings import (
    CheckedRankings,
    count_free_ranks,
    insert_fixed,
    refuse_duplicate,
    remove_documents,
)
from interleaf.kernels.randomness import Keyed, key_of
from interleaf.log.schema import ALONE, FALLBACK, INTERLEAVED, arm_of
from interleaf.methods.registry import ResolvedMethod, resolve, show_unchanged

Rankings = dict[str, Sequence[str]]
MAX_TOGETHER = 1000  # documents in the rankings of a list that is drawn together with others


@dataclass(slots=True)
class Request:
    """A request for a list: rankings for one query of one unit.

    None stands for a ranking that failed or came too late, as does one that is left out. An empty ranking is an answer:
    the ranker found nothing. `fixed` are documents at fixed ranks, such as ads; they belong to no ranker.
    """

    impression: str
    unit: str | None
    query: str | None
    rankings: Mapping[str, Sequence[str] | None]
    k: int | None = None
    page: int = 1
    fixed: Mapping[int, str] = field(default_factory=dict)


class ChosenGroup(NamedTuple):
    """The rankers of a unit in an epoch, if the best of many rankers is chosen."""

    epoch: int
    rankers: tuple[str, ...]


@dataclass(slots=True)
class Noted:
    """What is logged of a request: the list, after it is drawn, and what it is drawn from."""

    about: dict[str, Any]  # the row without the list
    request: Request
    chosen: ResolvedMethod
    rankings: Rankings
    length: int  # without fixed documents
    key: str
    drawn_list: DrawnList = field(init=False)

    @property
    def row(self) -> dict[str, Any]:
        """The row of the log, and `k` and `fixed`."""
        return self.drawn_list.interleaving().to_dict(rankings=True, probability=False) | self.about


@dataclass(slots=True)
class Shown:
    """The documents of the requested page, the arm of the unit, and what is logged (None: nothing)."""

    documents: list[str]
    arm: str
    record: Noted | dict[str, Any] | None

    @property
    def rankers(self) -> tuple[str, ...]:
        """The rankers of the list that is logged."""
        return tuple(self.record.rankings if isinstance(self.record, Noted) else ())

    @property
    def row(self) -> dict[str, Any] | None:
        """The row of the log, or None."""
        return self.record.row if isinstance(self.record, Noted) else self.record


def show(experiment: Experiment, version: int, request: Request) -> Shown:
    """Compose the list of a request. The same unit and query get the same list, for any number of pages.

    >>> shoes = Experiment.of({"name": "shoes", "rankers": ["production", "candidate"], "k": 2})
    >>> rankings = {"production": ["a", "b", "c"], "candidate": ["b", "c", "a"]}
    >>> show(shoes, 1, Request("i-1", "user-7", "trail", rankings)).documents
    ['a', 'b']
    >>> show(shoes, 1, Request("i-1", "user-7", "trail", rankings, page=2)).documents
    ['c']
    """
    shown = plan_list(experiment, version, request)
    draw_lists([shown])
    return shown


def plan_list(experiment: Experiment, version: int, request: Request, group: ChosenGroup | None = None) -> Shown:
    """What is shown for a request, without the list if `draw_lists` has to draw it.

    If the best of many rankers is chosen, `group` are those of the unit; without it, the control is shown.
    """
    unit = request.unit if request.unit is not None else request.impression
    if experiment.mode == CHOOSE and group is None:
        return Shown(unmixed_page(experiment, request), FALLBACK, None)
    needed = experiment.needed_rankers if group is None else group.rankers
    available = _complete_rankings(experiment, request, None if group is None else needed)
    missing = _find_missing(experiment, request, available, needed)
    if group is not None and missing:
        available |= _complete_rankings(experiment, request, (*needed, experiment.control))
    size = request.k or experiment.k
    arm, shown_ranker = assign(experiment, unit), _find_shown_ranker(experiment, request, available)
    length = count_free_ranks(size * request.page, request.fixed)
    if arm == OUTSIDE or shown_ranker is None or not length:
        return Shown(unmixed_page(experiment, request), arm, None)
    if missing:
        arm = FALLBACK
    elif arm == INTERLEAVED and len(needed) == 1 and group is not None:
        arm = ALONE
    if arm == INTERLEAVED:
        mixed = (experiment.name, version, unit)
        rankings = available if group is not None else _as_mode(experiment, available, mixed, size)
        chosen = experiment.resolved_method
    else:
        rankings, chosen = available, show_unchanged(shown_ranker)
    _check_drawable(rankings, chosen, request.page)
    key = chance_key(chosen, experiment.name, version, unit, request.query)
    about = {"experiment": experiment.name, "version": version, "impression": request.impression, "unit": request.unit}
    about |= {"query": request.query, "arm": arm, "k": size, "page": request.page}
    about["fallback_reason"] = f"no ranking of {', '.join(missing)}" if missing else None
    if group is not None:
        about["epoch"] = group.epoch
    if request.fixed:
        about["fixed"] = {str(rank): document for rank, document in request.fixed.items()}
    return Shown([], arm, Noted(about, request, chosen, rankings, length, key))


def draw_lists(planned: Sequence[Shown]) -> None:
    """Draw the lists that are planned, those of short rankings together."""
    alike = defaultdict[tuple[Any, ...], list[tuple[Shown, Noted]]](list)
    for shown in planned:
        if isinstance(note := shown.record, Noted):
            rankers, longest = len(note.rankings), max(map(len, note.rankings.values()))
            alone = id(shown) if rankers * longest > MAX_TOGETHER else 0
            alike[note.chosen.text, note.length, rankers, alone, longest > 0].append((shown, note))
    for (_, length, *_), some in alike.items():
        rankings, keys = [note.rankings for _, note in some], [note.key for _, note in some]
        for (shown, note), drawn_list in zip(some, _draw_alike(rankings, some[0][1].chosen, length, keys), strict=True):
            note.drawn_list, request = drawn_list, note.request
            if shown.arm == INTERLEAVED:
                names = drawn_list.problem.rankers
                shown.arm = note.about["arm"] = arm_of(note.chosen.text, names, drawn_list.teams, note.key)
            shown.documents = _page(drawn_list.documents, request.fixed, note.about["k"], request.page)


def _draw_alike(
    rankings: Sequence[Rankings], chosen: ResolvedMethod, length: int, keys: Sequence[str]
) -> list[DrawnList]:
    """A list for each of these rankings, which are all empty, or of which each has a document of some ranker."""
    if any(rankings[0].values()):
        return draw_all(rankings, chosen, length, keys)
    rankers, teams = tuple(rankings[0]), () if chosen.method.has_teams else None
    nothing = [CheckedRankings(tuple(one), ((),) * len(rankers), ({},) * len(rankers)) for one in rankings]
    return [DrawnList(chosen, problem, key, (), teams) for problem, key in zip(nothing, keys, strict=True)]


def _check_drawable(rankings: Rankings, chosen: ResolvedMethod, page: int) -> None:
    """Refuse duplicates, rankings that are too long for the method, and pages that would change earlier ones."""
    if page > 1 and chosen.method.depends_on_k:
        raise ExperimentError("page", page, f"{chosen} draws its lists as a whole; ask for one page, with a larger k")
    for ranker, ranking in rankings.items():
        if len(set(ranking)) < len(ranking):
            refuse_duplicate(ranker, ranking)
    chosen.method.kernels.settings((max(map(len, rankings.values())),), chosen.parameters, False)


def unmixed_page(experiment: Experiment, request: Request) -> list[str]:
    """The requested page of the control's list, or of another one if the control failed; for units outside."""
    available = _complete_rankings(experiment, request)
    shown_ranker = _find_shown_ranker(experiment, request, available)
    ranking = [] if shown_ranker is None else available[shown_ranker]
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
    chosen = resolve(row["method"])
    _check_drawable(rankings, chosen, page)
    (drawn_list,) = _draw_alike([rankings], chosen, count_free_ranks(size * page, fixed), [row["key"]])
    longer = dict(row) | drawn_list.interleaving().to_dict(rankings=True, probability=False) | {"page": page}
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


def _complete_rankings(experiment: Experiment, request: Request, only: Sequence[str] | None = None) -> Rankings:
    """A ranking for each ranker, or each of `only`, without fixed documents; also empty if it is missing."""
    for name in request.rankings:
        if name not in experiment.rankers:
            remedy = f"there is no such ranker; there are {suggest(name, experiment.rankers)}"
            raise ExperimentError("rankings", name, remedy)
    rankings = {name: request.rankings.get(name) or [] for name in only or experiment.rankers}
    if not request.fixed:
        return rankings
    if len(set(request.fixed.values())) < len(request.fixed):
        raise ExperimentError("fixed", dict(request.fixed), "give each document one rank")
    return remove_documents(rankings, request.fixed.values())


def _find_missing(experiment: Experiment, request: Request, available: Rankings, needed: Sequence[str]) -> list[str]:
    """The rankers that did not answer, or found nothing, if one empty ranking would make the mixed list empty."""
    answers, stops_early = request.rankings, experiment.resolved_method.stops_early
    return [name for name in needed if answers.get(name) is None or (stops_early and not available[name])]


def _find_shown_ranker(experiment: Experiment, request: Request, available: Rankings) -> str | None:
    """The ranker whose list is shown if nothing is mixed: the control if it answered, else the first one that found
    something, else the first one that answered.
    """
    answered = [name for name in available if request.rankings.get(name) is not None]
    if experiment.control in answered:
        return experiment.control
    return next((name for name in answered if available[name]), next(iter(answered), None))


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


def _page(documents: Sequence[Any], fixed: Mapping[int, str], size: int, page: int) -> list[str]:
    """One page of the list that users see."""
    return list(insert_fixed(documents[: size * page], fixed)[size * (page - 1) : size * page])
