"""The whole way: an old log and new rankings in, what the old impressions say of the new rankers out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interleaf import log
from interleaf.counterfactual.history import CLIP
from interleaf.counterfactual.lists import Kept, Looks, Reread, View
from interleaf.counterfactual.old_log import Borrowed, OldTask, Survey, nothing_left
from interleaf.counterfactual.outcomes import scorer_of
from interleaf.counterfactual.rankings import Source, by_query, ranked
from interleaf.counterfactual.record import Reused
from interleaf.counterfactual.report import Found, reported
from interleaf.counterfactual.robust import Robust
from interleaf.counterfactual.sums import Weigher
from interleaf.decode import Counting
from interleaf.decode.attributes import Exclusion
from interleaf.engines.passes import Passes
from interleaf.errors import DataError, MethodError, RankingError
from interleaf.methods.table import METHODS, resolve
from interleaf.score import Scoring


def reuse(
    log: Any,
    rankings: Mapping[str, Source | None],
    method: str | None = None,
    scheme: str | None = None,
    *,
    events: str | Mapping[str, float] = "click",
    dwell: float | None = None,
    first: bool = False,
    window: float | None = None,
    experiment: str | None = None,
    version: int | None = None,
    exclude: Exclusion | None = None,
    engine: str | None = None,
    clip: float = CLIP,
    confidence: float = 0.95,
    seed: int = 0,
    progress: log.Progress | None = None,
) -> Reused:
    """What an old log says of new rankers, which it never showed (H12h, and a doubly robust estimate).

    `log` is whatever `analyze` takes, of lists drawn by a method that knows how likely they were, with queries and
    documents. `rankings` are those of the new rankers by name: the path of a TREC run, a mapping from queries to
    documents, a function of a query; None stands for the log's own ranker of that name, where rankings are logged.
    `method` is what the new rankers would be compared by, as the old ones if left out; `events` are the kinds of events
    that count as a click. `clip` bounds the weights of the clipped estimate, `seed` draws the new rankers' lists. The
    log is held in memory; with `engine="spark"` executors read it three times instead.
    """
    if len(rankings) < 2:
        raise RankingError(f"{len(rankings)} new rankers cannot be compared; give at least 2")
    if not clip > 0:
        raise MethodError(f"weights cannot be clipped at {clip!r}; give a number above 0, such as {CLIP:g}")
    counting = Counting(events, dwell, first, window)
    if set(counting.weights.values()) != {1.0}:
        raise DataError(f"old impressions are scored by clicks alike, not by {counting}; give kinds without weights")
    borrowed = tuple(name for name, source in rankings.items() if source is None)
    task = OldTask(Scoring(counting=counting), (), exclude or Exclusion(), experiment, version, rankers=borrowed)
    passes = Passes(log, task, engine, progress)
    survey = passes.summed(Survey(borrowed, keep=not passes.on_spark), Survey.read)
    if not survey.longest:
        raise nothing_left(survey.dropped)
    scorer = scorer_of(method or _method(survey), scheme, len(rankings))
    new = ranked(_by_query(survey, rankings), max(survey.longest.values()))
    if not new.queries:
        raise DataError("the new rankers rank no query of the log; rankings are found by the text of its column query")
    view = View(new, scorer, max(survey.longest[name] for name in new.queries))
    lists = Reread(passes, view) if survey.kept is None else Kept(survey.kept, view, survey.dropped)
    return reused(lists, view, survey.borrowed, clip, confidence, seed)


def reused(
    lists: Kept | Reread, view: View, borrowed: Borrowed, clip: float = CLIP, confidence: float = 0.95, seed: int = 0
) -> Reused:
    """The same, of old lists as the new rankers see them."""
    new, scorer = view.new, view.scorer
    looks = lists.summed(Looks(len(new.queries), view.longest, scorer.rankers), Looks.add)
    if not looks.impressions:
        raise nothing_left(looks.dropped)
    robust = None
    if scorer.foreseeable and looks.clicked:
        robust = Robust(scorer, new, looks.cells, looks.counts, view.longest)
    has_joint = scorer.independent and not looks.unowned
    weigher = Weigher(new, scorer, robust, has_joint, looks.group_of, clip, ("reuse", seed))
    weighings = lists.summed(weigher.empty(), weigher.add)
    return reported(Found(looks, weighings, robust, view.longest), new.rankers, scorer, borrowed, confidence)


def _method(survey: Survey) -> str:
    """What most of the log was composed by, of what new rankers can be compared by; else one that fits any list."""
    for method, _ in survey.methods.most_common():
        if resolve(method).method.short:
            return method
    return next(name for name, method in METHODS.items() if method.claims.reusable)


def _by_query(survey: Survey, rankings: Mapping[str, Source | None]) -> dict[str, Mapping[str, Any]]:
    """Rankings of the log's queries, in the order of their names: the same, however the log was read."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, source in rankings.items():
        given = survey.borrowed.rankings[name] if source is None else source
        if source is None and not given:
            raise DataError(f"the log has no rankings of a ranker {name!r}; give its new rankings, or log them")
        found[name] = by_query(given, sorted(survey.longest), name)
    return found
