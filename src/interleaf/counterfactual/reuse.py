"""Compares new rankers on the impressions of an old log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from interleaf import log
from interleaf.analysis.plan import Planned, plan
from interleaf.counterfactual import estimators, new_rankings
from interleaf.counterfactual.estimators import (
    CLIPPED,
    JOINT,
    UNWEIGHTED,
    WEIGHTED,
    NoEstimate,
    is_same,
    without_interval,
)
from interleaf.counterfactual.list_outcomes import CLIP, Scorer, scorer_of
from interleaf.counterfactual.new_rankings import ListsInMemory, ListsReadAgain, LogCounts, RankersView, RankingSource
from interleaf.counterfactual.old_log import NOT_RANKED, LoggedRankings, LogSurvey, OldTask, nothing_left_error
from interleaf.counterfactual.reuse_result import PairEstimate, ReuseResult, ReuseWarning
from interleaf.decode.columns import Exclusion
from interleaf.errors import DataError, MethodError, RankingError
from interleaf.execution.options import LogOptions
from interleaf.execution.passes import Passes
from interleaf.kernels.arrays import pairs
from interleaf.methods.registry import METHODS, resolve
from interleaf.stable_codes import Note
from interleaf.stats import compare, power
from interleaf.stats.compare import Estimate
from interleaf.stats.multiplicity import holm

HANDFUL, FEW = 10, 100  # effective impressions
MIN_PLANNED = 0.95  # of the new rankers' lists, the share that the log could show
MIN_KNOWN = 0.995  # of the places in new lists: below it, a warning says so
MIN_LOOKS = 5  # impressions for each query
MAX_OUTSIDE = 0.5  # of the impressions, the share of queries that are not ranked


class ReuseEvidence(NamedTuple):
    """Counts of the old lists, the sums of each weighting, and the doubly robust estimate if there is one."""

    scorer: Scorer
    looks: LogCounts
    weighings: estimators.WeightingSums
    robust: estimators.DoublyRobust | None
    longest: int

    @property
    def known_share(self) -> float | None:
        """The share of places in new lists whose document the log shows for the query."""
        sums = self.weighings.foreseen
        return None if sums is None or not sums.places else sums.known / sums.places

    @property
    def is_limited(self) -> bool:
        """Whether the old methods cannot show every list of the new rankers; False for the old rankers themselves."""
        methods = [resolve(method).method for method, count in self.looks.methods.items() if count]
        return not all(method.claims.reusable for method in methods) and not is_same(self.weighings.sums[WEIGHTED])


def build_result(
    evidence: ReuseEvidence, rankers: tuple[str, ...], borrowed: LoggedRankings, confidence: float
) -> ReuseResult:
    """All numbers, warnings and plans."""
    scorer = evidence.scorer
    named = [(rankers[one], rankers[other]) for one, other in zip(*pairs(len(rankers)), strict=True)]
    names, columns = _names(scorer), []
    for name, by_pair in _estimates(evidence, confidence):
        adjusted = holm([one.p_value for one in by_pair])
        columns.append(
            [
                PairEstimate(
                    name, *pair, one.value, one.error, one.interval, one.p_value, against_all, one.reason, one.code
                )
                for pair, one, against_all in zip(named, by_pair, adjusted, strict=True)
            ]
        )
    estimates = [one for of_pair in zip(*columns, strict=True) for one in of_pair]
    by_model = evidence.robust is not None and not evidence.is_limited
    answers = tuple(one for one in estimates if one.estimator == names["robust" if by_model else "weighted"])
    sums, looks, known_share = evidence.weighings.sums, evidence.looks, evidence.known_share if by_model else None
    share = estimators.estimate_support(sums[WEIGHTED], confidence) if evidence.is_limited else None
    return ReuseResult(
        rankers=rankers,
        method=str(scorer.chosen),
        scheme=scorer.scheme.name,
        old_methods={method: count for method, count in looks.methods.most_common() if count},
        impressions=looks.impressions,
        clicked=looks.clicked,
        units=looks.units.count,
        confidence=confidence,
        estimates=tuple(estimates),
        weights={names[kind]: one.statistics for kind, one in sums.items() if one.impressions.any()},
        known=evidence.known_share,
        supported=share.value if share is not None else None,
        supported_interval=share.interval if share is not None else None,
        answers=answers,
        doubt="the log has too little data on the new rankers' lists"
        if known_share is not None and _is_thin(looks)
        else "",
        plans={pair: _plan(evidence, place, answers[place], share, confidence) for place, pair in enumerate(named)},
        warnings=(
            *_missing(looks, borrowed),
            *_warn_unsupported(share, any(one.interval is not None for one in answers)),
            *_warnings(sums[WEIGHTED].statistics, looks, known_share, evidence.is_limited),
        ),
        dropped={reason: count for reason, count in looks.dropped.items() if count},
    )


def _names(scorer: Scorer) -> dict[str, str]:
    """The names of the estimators that the method has, as in H12h."""
    short = scorer.chosen.method.abbreviation
    weighted = f"{short}+IS+MA" if scorer.independent else f"{short}+IS"
    forms = {"normalized": f"{weighted}, self-normalised", "clipped": f"{weighted}, clipped"}
    if not scorer.independent:
        return {"unweighted": str(short), "weighted": weighted, **forms}
    names = {"unweighted": f"{short}+MA", "joint": f"{short}+IS", "weighted": weighted, **forms}
    return names | {"model": f"{short}+DM", "robust": f"{short}+DR"}


def _estimates(evidence: ReuseEvidence, confidence: float) -> Iterator[tuple[str, tuple[Estimate, ...]]]:
    """The estimates of each estimator, one per pair: means of w o, or self-normalised (sums of w o over sums of w)."""
    scorer = evidence.scorer
    for kind, name in _names(scorer).items():
        if kind in ("model", "robust"):
            yield name, _by_model(evidence, kind == "robust", confidence)
            continue
        sums = evidence.weighings.sums[WEIGHTED if kind == "normalized" else kind]
        outcomes = scorer.by_pair(sums.outcomes)
        if kind == JOINT and not sums.impressions.any():
            yield name, _no_estimates(scorer, NoEstimate.NO_OWNERS)
        elif not sums.usable:
            yield name, _no_estimates(scorer, NoEstimate.NO_LIST)
        elif kind in (JOINT, WEIGHTED):
            yield name, estimators.bound_estimates(outcomes, sums, scorer.bound(evidence.longest), confidence)
        else:
            estimates = compare.estimates(outcomes, sums.weights[:, None], confidence)
            why = NoEstimate.SHOWN_ONLY
            if kind == UNWEIGHTED:
                why = NoEstimate.BIASED
            elif kind == CLIPPED and sums.lost > 0:
                why = NoEstimate.CLIPPED
            has_interval = is_same(evidence.weighings.sums[WEIGHTED])  # the old rankers themselves
            yield name, estimates if has_interval else tuple(without_interval(one, why) for one in estimates)


def _by_model(evidence: ReuseEvidence, mended: bool, confidence: float) -> tuple[Estimate, ...]:
    scorer, foreseen = evidence.scorer, evidence.weighings.foreseen
    if not scorer.foreseeable:
        return _no_estimates(scorer, NoEstimate.OTHER_SCHEME)
    if evidence.robust is None or foreseen is None:
        return _no_estimates(scorer, NoEstimate.NO_CLICK)
    if not evidence.known_share:
        return _no_estimates(scorer, NoEstimate.ALL_UNSEEN)
    estimates = evidence.robust.estimates(foreseen, mended, confidence)
    few = NoEstimate.FEW_LISTS
    return tuple(without_interval(one, few) for one in estimates) if evidence.is_limited else estimates


def _no_estimates(scorer: Scorer, why: NoEstimate) -> tuple[Estimate, ...]:
    return (Estimate(None, None, None, None, None, 0, why.text, why),) * len(pairs(scorer.rankers)[0])


def _is_thin(looks: LogCounts) -> bool:
    """Whether queries have so few impressions that intervals of a click model are too short."""
    return looks.impressions < MIN_LOOKS * looks.queries


def _missing(looks: LogCounts, borrowed: LoggedRankings) -> Iterator[Note]:
    """Warnings about queries outside the new rankings, and rankings that changed."""
    whole = looks.impressions + looks.dropped[NOT_RANKED]
    if looks.dropped[NOT_RANKED] > MAX_OUTSIDE * whole:
        yield ReuseWarning.MANY_NOT_RANKED.note(looks.impressions, whole)
    for name, queries in borrowed.changed.items():
        if queries:
            yield ReuseWarning.RANKINGS_CHANGED.note(name, len(queries), len(borrowed.rankings[name]))


def _warn_unsupported(share: Estimate | None, has_interval: bool) -> Iterator[Note]:
    """A warning about the share of the new rankers' lists that the log could show, unless it is 100 %."""
    if share is not None and share.value is not None:
        span = "" if share.interval is None else f" ({_percent(share.interval[0])} to {_percent(share.interval[1])} %)"
        allows = "; the interval allows for any clicks on them." if has_interval else "."
        yield ReuseWarning.PARTLY_SUPPORTED.note(_percent(share.value), span, allows)


def _percent(share: float) -> str:
    return f"{100 * min(1.0, max(0.0, share)):.0f}"


def _warnings(
    weights: estimators.WeightStatistics, looks: LogCounts, known_share: float | None, is_limited: bool
) -> Iterator[Note]:
    """Warnings about few or uneven data."""
    effective = weights.effective
    if effective < FEW:
        few = "a handful of impressions" if effective < HANDFUL else "few impressions"
        end = ", so do not use them" if effective < HANDFUL else ""
        end += ", and the answer depends on the click model." if known_share else "."
        yield ReuseWarning.FEW_IMPRESSIONS.note(few, weights.impressions, effective, end)
    if weights.largest_share is not None and weights.largest_share > 0.1:
        yield ReuseWarning.ONE_IMPRESSION.note(100 * weights.largest_share)
    if weights.mean is not None and not 0.5 < weights.mean < 2 and not is_limited:
        end = ", and there the answer comes from the click model." if known_share else "."
        yield ReuseWarning.UNEVEN_WEIGHTS.note(weights.mean, end)
    if looks.clicked < FEW:
        yield ReuseWarning.FEW_EVENTS.note(looks.clicked)
    if known_share is not None and known_share < MIN_KNOWN:
        end = "; the interval allows for users who always click them, or never." if known_share else "."
        yield ReuseWarning.UNSEEN_DOCUMENTS.note(100 * (1 - known_share), end)
    if known_share and _is_thin(looks):
        yield ReuseWarning.SPARSE_QUERIES.note(looks.impressions / looks.queries)


def _plan(
    evidence: ReuseEvidence, pair: int, answer: PairEstimate, share: Estimate | None, confidence: float
) -> Planned | str:
    """The plan of a live experiment that can detect the estimated difference, given the variance in the log."""
    if share is not None and share.value is not None and share.value < MIN_PLANNED:
        return "it cannot be planned: the log does not say how large the difference is."
    if not answer.value:
        return "no difference is estimated, so that there is none to plan for."
    looks, sums = evidence.looks, evidence.scorer.by_pair(evidence.weighings.sums[UNWEIGHTED].outcomes)[:, pair]
    if not looks.pilot.any():
        return f"it cannot be planned: {NoEstimate.NO_LIST.text}."
    pilot = power.pilot(np.where(looks.pilot > 0, sums, 0.0), looks.pilot, looks.pilot_units.count)
    if pilot.variance is None or pilot.impressions_per_unit is None:
        return f"it cannot be planned: {pilot.reason}."
    effect = answer.value / (looks.clicked / looks.impressions)
    # The mean score of old lists is not that of the new rankers, D: take the variance about D, E(o - D)^2.
    variance = pilot.variance * pilot.impressions_per_unit + (sums.sum() / looks.pilot.sum() - effect) ** 2
    try:
        planned = plan(
            abs(effect),
            confidence=confidence,
            variance=variance,
            impressions_per_unit=looks.clicked / looks.clicking_units.count,
            share_with_event=looks.clicking_units.count / looks.units.count,
            even_activity=True,
        )
    except DataError as problem:
        return f"it cannot be planned: {problem}."
    return replace(planned, pilot="old lists, which are not the new rankers' (expect up to twice as many units)")


def reuse(
    log: Any,
    rankings: Mapping[str, RankingSource | None],
    *,
    compare_by: str | None = None,
    clip: float = CLIP,
    confidence: float = 0.95,
    seed: int = 0,
    scheme: str | None = None,
    events: str | Mapping[str, float] = "click",
    dwell: float | None = None,
    first: bool = False,
    window: float | None = None,
    experiment: str | None = None,
    version: int | None = None,
    exclude: Exclusion | Mapping[str, Collection[str]] | None = None,
    engine: str | None = None,
    progress: log.Progress | None = None,
) -> ReuseResult:
    """Compare new rankers on an old log that never showed their lists (H12h, and a doubly robust estimate).

    `log` is a log as `analyze` takes it, with queries and documents, and with lists drawn by a method whose list
    probabilities are known. `rankings[ranker]` is the path of a TREC run, a mapping from queries to documents, or a
    function of a query; None means the ranker of that name in the log, if its rankings are logged. `compare_by`
    is the method that compares the new rankers (default: that of most old lists). `clip` is the largest weight of the
    clipped estimate, and `seed` the random seed of the new rankers' lists. All other options are those of `analyze`,
    but events have no weights here. The log is held in memory; with `engine="spark"` executors read it three times
    instead.
    """
    options = LogOptions.of_arguments(locals())
    if compare_by is not None:
        resolve(compare_by)  # raises before the log is read
    if len(rankings) < 2:
        raise RankingError(f"{len(rankings)} new rankers cannot be compared; give at least 2")
    if not clip > 0:
        raise MethodError(f"weights cannot be clipped at {clip!r}; give a number above 0, such as {CLIP:g}")
    if set(options.counting.weights.values()) != {1.0}:
        raise DataError(f"the weights of events in {options.counting} cannot be used here; give kinds without weights")
    borrowed = tuple(name for name, source in rankings.items() if source is None)
    task = replace(options, scheme=None).task(OldTask, rankers=borrowed)
    passes = Passes(log, task, options)
    survey = passes.add_up(LogSurvey(borrowed, keep=not passes.on_spark), LogSurvey.read)
    if not survey.longest:
        raise nothing_left_error(survey.dropped)
    scorer = scorer_of(compare_by or _method(survey), scheme, len(rankings))
    new = new_rankings.encode_rankings(_by_query(survey, rankings), max(survey.longest.values()))
    if not new.queries:
        raise DataError("the new rankers rank no query of the log; rankings are found by the text of its column query")
    view = RankersView(new, scorer, max(survey.longest[name] for name in new.queries))
    lists = ListsReadAgain(passes, view) if survey.kept is None else ListsInMemory(survey.kept, view, survey.dropped)
    return reuse_lists(lists, view, survey.borrowed, clip, confidence, seed)


def reuse_lists(
    lists: ListsInMemory | ListsReadAgain,
    view: RankersView,
    borrowed: LoggedRankings,
    clip: float = CLIP,
    confidence: float = 0.95,
    seed: int = 0,
) -> ReuseResult:
    """Compare the new rankers on old lists that were looked up in their rankings."""
    new, scorer = view.new, view.scorer
    looks = lists.accumulate(LogCounts(len(new.queries), view.longest, scorer.rankers), LogCounts.add)
    if not looks.impressions:
        raise nothing_left_error(looks.dropped)
    robust = None
    if scorer.foreseeable and looks.clicked:
        robust = estimators.DoublyRobust(scorer, new, looks.cells, looks.counts, view.longest)
    has_joint = scorer.independent and not looks.unowned
    weigher = estimators.Weigher(new, scorer, robust, has_joint, looks.group_of, clip, ("reuse", seed))
    empty = estimators.WeightingSums(scorer.columns, None if robust is None else robust.empty())
    evidence = ReuseEvidence(scorer, looks, lists.accumulate(empty, weigher.add), robust, view.longest)
    return build_result(evidence, new.rankers, borrowed, confidence)


def _method(survey: LogSurvey) -> str:
    """The method of most old lists among those that can score them; else one that can score any list."""
    for method, _ in survey.methods.most_common():
        if resolve(method).method.abbreviation:
            return method
    return next(name for name, method in METHODS.items() if method.claims.reusable)


def _by_query(survey: LogSurvey, rankings: Mapping[str, RankingSource | None]) -> dict[str, Mapping[str, Any]]:
    """Rankings of the log's queries, in the order of their names, which does not depend on how the log was read."""
    sources: dict[str, RankingSource] = {
        name: survey.borrowed.rankings[name] if source is None else source for name, source in rankings.items()
    }
    for name in survey.borrowed.rankings:
        if not sources[name]:
            raise DataError(f"the log has no rankings of a ranker {name!r}; give its new rankings, or log them")
    queries = sorted(survey.longest)
    return {name: new_rankings.by_query(source, queries, name) for name, source in sources.items()}
