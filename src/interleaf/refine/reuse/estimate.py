"""The whole way: an old log and new rankings in, what the old impressions say of the new rankers out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from interleaf import buckets, log
from interleaf.decode import Counting
from interleaf.decode.attributes import Exclusion
from interleaf.errors import DataError, MethodError, RankingError
from interleaf.methods.arrays import Array, Impression
from interleaf.methods.table import METHODS, resolve
from interleaf.refine.history import CLIP, MOST_LOG_WEIGHT
from interleaf.refine.reuse.chances import log_chances
from interleaf.refine.reuse.foresee import Lists
from interleaf.refine.reuse.old import NEVER_SHOWN, NOT_RANKED, Old, Rows, Wanted, nothing_left, read_old
from interleaf.refine.reuse.outcomes import Scorer, scorer_of
from interleaf.refine.reuse.rankings import Ranked, Source, by_query, ranked
from interleaf.refine.reuse.record import Reused
from interleaf.refine.reuse.report import Found, reported
from interleaf.refine.reuse.robust import GROUPS, Robust, impressions_of
from interleaf.refine.reuse.sums import Weighted

CHUNK = 65_536


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
    that count as a click. `clip` bounds the weights of the clipped estimate, `seed` draws the new rankers' lists.
    """
    if len(rankings) < 2:
        raise RankingError(f"{len(rankings)} new rankers cannot be compared; give at least 2")
    if not clip > 0:
        raise MethodError(f"weights cannot be clipped at {clip!r}; give a number above 0, such as {CLIP:g}")
    counting = Counting(events, dwell, first, window)
    if set(counting.weights.values()) != {1.0}:
        raise DataError(f"old impressions are scored by clicks alike, not by {counting}; give kinds without weights")
    borrowed = [name for name, source in rankings.items() if source is None]
    wanted = Wanted(counting, experiment, version, exclude or Exclusion(), borrowed)
    old = read_old(log, wanted, progress)
    scorer = scorer_of(method or _method(old), scheme, len(rankings))
    new = ranked(_by_query(old, rankings), int(old.rows.counts.max(initial=1)))
    return reused(old, new, scorer, clip, confidence, seed)


def reused(
    old: Old, new: Ranked, scorer: Scorer, clip: float = CLIP, confidence: float = 0.95, seed: int = 0
) -> Reused:
    """The same, of a log that has been read, and rankings that are numbered."""
    found = _summed(_held(old, new, scorer), new, scorer, clip, ("reuse", seed))
    return reported(found, new.rankers, scorer, old, confidence)


def _method(old: Old) -> str:
    """What most of the log was composed by, of what new rankers can be compared by; else one that fits any list."""
    for method, _ in old.composed(old.rows).most_common():
        if resolve(method).method.short:
            return method
    return next(name for name, method in METHODS.items() if method.claims.reusable)


def _by_query(old: Old, rankings: Mapping[str, Source | None]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for name, source in rankings.items():
        if source is None and not old.borrowed.rankings[name]:
            raise DataError(f"the log has no rankings of a ranker {name!r}; give its new rankings, or log them")
        found[name] = old.borrowed.rankings[name] if source is None else by_query(source, old.queries, name)
    return found


class Held(NamedTuple):
    """The old impressions that the new rankers have rankings for.

    `rows.query` now counts the queries of the new rankings; `entries` are the documents there; `pages` is how long the
    new rankers' list would be, `possible` whether it could be the old one; and the logs of the weights.
    """

    rows: Rows
    entries: Array
    pages: Array
    possible: Array
    log_weight: Array
    log_joint: Array


def _held(old: Old, new: Ranked, scorer: Scorer) -> Held:
    names = np.array([new.queries.get(name, -1) for name in old.queries], np.int64)
    rows = old.rows._replace(query=names[old.rows.query])
    old.dropped[NOT_RANKED] += int((rows.query < 0).sum())
    rows = rows.only(rows.query >= 0)
    if not len(rows.query):
        raise DataError("the new rankers rank no query of the log; rankings are found by the text of its column query")
    held = _weighed(rows, new, scorer)
    wrong = held.log_weight > MOST_LOG_WEIGHT
    old.dropped[NEVER_SHOWN] += int(wrong.sum())
    if wrong.all():
        raise nothing_left(old.dropped)
    return Held(held.rows.only(~wrong), *(values[~wrong] for values in held[1:]))


def _weighed(rows: Rows, new: Ranked, scorer: Scorer) -> Held:
    inside = np.arange(rows.documents.shape[1]) < rows.counts[:, None]
    entries = np.where(inside, new.find(rows.query, rows.documents), -1)
    cut = (rows.union > 0) & (rows.counts < rows.union)
    # A list that ended for want of documents does not say how long the page might be: take the longest list's length.
    pages = np.where(cut, rows.counts, rows.counts.max(initial=1))
    lengths = np.minimum(pages, new.union[rows.query])
    possible = ((entries >= 0) | ~inside).all(axis=1) & (rows.counts == lengths)
    log_weight, log_joint = np.full((2, len(rows.query)), -np.inf)
    for part in _parts(np.flatnonzero(possible)):
        some = impressions_of(new, rows.query[part], np.maximum(entries[part], 0), rows.teams[part])
        of_list, of_joint = log_chances(scorer.chosen, some, rows.counts[part])
        log_weight[part], log_joint[part] = of_list - rows.log_chance[part], of_joint - rows.log_joint[part]
    return Held(rows, entries, pages, possible, log_weight, log_joint)


def _summed(held: Held, new: Ranked, scorer: Scorer, clip: float, key: Any) -> Found:
    """All estimators' sums, in one pass over the impressions."""
    rows, bucket, usable = held.rows, buckets.buckets(held.rows.unit), held.log_weight > -np.inf
    groups = np.unique(bucket % GROUPS, return_inverse=True)[1]
    robust = None
    if scorer.foreseeable and rows.clicks.any():
        robust = Robust(scorer, new, held.entries, rows.clicks, groups)
        robust.foresee(rows.query, held.pages, groups, key)
    sums = {name: Weighted(scorer.columns) for name in ("unweighted", "weighted", "clipped", "joint")}
    owned = (rows.rankers == scorer.rankers) & ~np.isnan(held.log_joint)
    has_joint = scorer.independent and bool(owned[held.possible].all())
    for part in _parts(np.arange(len(bucket))):
        some, weights = held.possible[part], np.exp(held.log_weight[part])
        entries = np.maximum(held.entries[part], 0)
        lists = impressions_of(new, rows.query[part], entries, rows.teams[part])
        outcomes = np.zeros((len(part), scorer.columns))
        outcomes[some] = scorer(_only(lists, some), rows.counts[part][some], rows.clicks[part][some])
        kept = np.minimum(weights, clip)
        sums["unweighted"].add(bucket[part], usable[part].astype(np.float64), outcomes)
        sums["weighted"].add(bucket[part], weights, outcomes)
        sums["clipped"].add(bucket[part], kept, outcomes, weights - kept)
        if has_joint:
            observed = scorer.observed(lists, rows.clicks[part])
            sums["joint"].add(bucket[part], np.exp(held.log_joint[part]), observed)
        if robust is not None:
            robust.mend(Lists(lists, entries, rows.counts[part], groups[part]), weights, outcomes)
    return Found(rows, bucket, usable, sums, robust)


def _only(impressions: Impression, keep: Array) -> Impression:
    return Impression(*(values[keep] for values in impressions))


def _parts(rows: Array) -> list[Array]:
    return [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]
