"""H11, Table 3 and Figures 6 to 11: how often two-ranker methods find the better of two single-feature rankers.

Every pair of rankers is compared once on each of a fixed set of queries. People click perfectly, and the truth is NDCG
without cut on the same queries. Rankings depend on how ties are broken, and the result of one pass is noisy, so all is
repeated with other tie orders and more passes. Then a few pairs, chosen by the paper's rule, are followed query by
query (`hofmann2011_pairs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy.stats import binom

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.methods.schemes import TOLERANCE
from interleaf.simulate.data import Judged, shuffle
from interleaf.studies import hofmann2011_pairs as convergence
from interleaf.studies.datasets import find
from interleaf.studies.hofmann2011_pairs import CLICKS, RULES, FeatureRankings, Meeting, StudyPair, perfect, realistic
from interleaf.studies.study import (
    Answer,
    Cell,
    Finding,
    PrintedTables,
    Study,
    StudyRun,
    Table,
    falling,
    map_in_threads,
    near,
    number_in,
)

NAME, TITLE = "hofmann2011", "Hofmann, Whiteson and de Rijke (2011): accuracy and convergence of interleaving methods"
K = 10
LABELS = [rule.label for rule in RULES]
FOLLOWED = ("PI-MA", "TD", "BI (lowest)", "DC")  # the four methods of the paper choose the pairs
# Neighbours in the published order: with C12's depth and whole rankings, then with BI and DC as in the paper's text.
ORDER = (
    *(("PI-MA", "TD"), ("TD", "BI (lowest)"), ("BI (lowest)", "DC"), ("BI (lowest)", "DC, cut")),
    *(("TD", "BI (clicked), cut"), ("BI (clicked), cut", "DC, cut")),
)
EASY = (0.10, 0.05)
LEVEL = 0.05
_ACCURACY = ("Table 3: pairs whose better ranker was found", "ours %", "method")
_ANOTHER_SET, _UNVERIFIED = "the paper's set is MSLR-WEB30k", "the stop probabilities are unverified"
_LEVELS = {"PI-MA": 91.4, "TD": 89.8, "BI (lowest)": 88.1, "DC": 85.7}


@dataclass(frozen=True)
class HofmannScale:
    """Numbers of rankers (None: all), queries, tie orders, passes for each order, and repeats of convergence."""

    features: int | None
    queries: int
    orders: int
    passes: int
    repeats: int
    samples: int = 10_000


SCALES = {"quick": HofmannScale(40, 1000, 5, 3, 100), "paper": HofmannScale(None, 1000, 10, 4, 1000)}


def settles_first(tables: PrintedTables, clicks: str) -> Answer:
    """Whether PI-MA needs no more queries than any other method, on every pair but the easy ones."""
    easy = {row["pair"] for row in tables.rows("Table 4:") if row["chosen as"].startswith("easy")}
    rows = tables.rows(f"Clicked queries until 95% of repeats are right, for good ({clicks}")
    rows = [row for row in rows if row["pair"] not in easy]
    others = ("TD", "BI (lowest)", "DC")
    best = sum(number_in(row["PI-MA"]) <= min(number_in(row[other]) for other in others) for row in rows)
    return f"on {best} of {len(rows)} pairs that are not easy", best == len(rows)


def errs_systematically(tables: PrintedTables) -> Answer:
    """Whether DC errs on some rankers significantly more often than on average."""
    flagged = int(tables.number("Systematic errors", "rankers", method="DC"))
    return f"{flagged} rankers", flagged > 0


FINDINGS = (
    Finding("PI-MA is right more often than TD", "91.4, 89.8 %", falling, (*_ACCURACY, ("PI-MA", "TD"))),
    Finding(
        "TD more often than BI", "89.8, 88.1 %", falling, (*_ACCURACY, ("TD", "BI (lowest)")), "BI with C12's depth"
    ),
    Finding("BI more often than DC", "88.1, 85.7 %", falling, (*_ACCURACY, ("BI (lowest)", "DC"))),
    Finding(
        "the levels of PI-MA, TD, BI and DC", "91.4, 89.8, 88.1, 85.7 %", near, (*_ACCURACY, _LEVELS, 1.0), _ANOTHER_SET
    ),
    Finding("DC errs systematically on some rankers", "yes", errs_systematically, why=_ANOTHER_SET),
    Finding("perfect clicks: PI-MA settles first", "yes", settles_first, ("perfect",)),
    Finding("realistic clicks: PI-MA settles first", "yes", settles_first, ("realistic",), _UNVERIFIED),
)


@dataclass(frozen=True)
class PairVerdicts:
    """All pairs as (better, worse) ranker, how much better by NDCG, and outcomes summed `[rule, pair, pass]`."""

    rankings: FeatureRankings
    pairs: Sequence[tuple[int, int]]
    gaps: Array
    sums: Array

    @property
    def right(self) -> Array:
        """Whether the better ranker won; a tie is not right."""
        return np.asarray(self.sums > TOLERANCE)

    @property
    def right_together(self) -> Array:
        """Whether the better ranker won over all passes together."""
        return np.asarray(self.sums.sum(axis=2) > TOLERANCE)


def study(task: StudyRun) -> Study:
    """Run the protocol on a set, or on synthetic queries."""
    size, seed, folds = SCALES[task.scale], task.seed, find(task.folder, task.seed)
    data = folds.draw_queries(size.queries, seed)
    varying: list[int] = data.varying_features().tolist()
    features = sorted(varying[number] for number in shuffle(len(varying), (seed, "features"))[: size.features])

    def judge_order(_: str, order: int) -> PairVerdicts:
        return judge(FeatureRankings(data, features, K, (seed, "ties", order)), size.passes, (seed, "accuracy", order))

    def follow(clicks: str, pair: StudyPair) -> convergence.Converged:
        return convergence.converge(rankings, pair, clicks, size.repeats, size.samples, (seed, "convergence"))

    task.total = size.orders + len(CLICKS) * (len(FOLLOWED) + len(EASY))
    verdicts = task.compute([("accuracy", order) for order in range(size.orders)], judge_order)
    rankings, pairs = verdicts[0].rankings, choose(verdicts[0])
    task.total = size.orders + len(CLICKS) * len(pairs)
    curves = task.compute(list(product(CLICKS, pairs)), follow, parallel=True)
    tables = (
        *(_accuracy(verdicts), _order(verdicts), _systematic(verdicts[0])),
        *(convergence.pair_table(rankings, pairs), *convergence.tables(curves)),
    )
    charts, notes = convergence.charts(curves), _notes(data, verdicts, size)
    return Study(NAME, TITLE, folds.describe(data), task.scale, tables, charts, notes)


def judge(rankings: FeatureRankings, passes: int, key: Any) -> PairVerdicts:
    """Compare all pairs on all queries, `passes` times; pairs with equal NDCG are left out."""
    ndcg, model = rankings.ndcg.mean(axis=0), perfect(rankings.scale)
    ranked = np.argsort(-ndcg, kind="stable").tolist()
    pairs = [(one, other) for one, other in combinations(ranked, 2) if ndcg[one] - ndcg[other] > TOLERANCE]
    if not pairs:
        raise DataError("no two rankers differ in NDCG; give queries with grades and at least two features that vary")
    queries = np.tile(np.arange(len(rankings.data)), passes)

    def meet(pair: tuple[int, int]) -> Array:
        own = (key, *[rankings.features[ranker] for ranker in pair])
        meetings = [Meeting(rankings, pair, rules, model) for rules in convergence.RULES_BY_LISTS]
        outcomes = [meeting.outcomes(queries, np.arange(len(queries)), own)[0] for meeting in meetings]
        sums: Array = np.concatenate(outcomes).reshape(len(RULES), passes, -1).sum(axis=2)
        return sums

    sums = np.stack(list(map_in_threads(meet, pairs)), axis=1)
    return PairVerdicts(rankings, pairs, np.array([ndcg[one] - ndcg[other] for one, other in pairs]), sums)


def _accuracy(verdicts: Sequence[PairVerdicts]) -> Table:
    """Table 3."""
    once = np.concatenate([one.right.mean(axis=1) for one in verdicts], axis=1) * 100
    together = np.mean([one.right_together.mean(axis=1) for one in verdicts], axis=0) * 100
    first, gaps = verdicts[0], verdicts[0].gaps
    rows: list[tuple[Cell, ...]] = []
    for row, rule in enumerate(RULES):
        wrong, wrong_together = ~first.right[row, :, 0], ~first.right_together[row]
        numbers = (f"{once[row].mean():.1f}", f"{once[row].std(ddof=1):.1f}", f"{together[row]:.1f}")
        largest = [f"{gaps[some].max():.3f}" if some.any() else None for some in (wrong, wrong_together)]
        rows.append((rule.label, rule.lists, rule.judge, rule.published, *numbers, *largest))
    passes = first.sums.shape[2]
    columns = ("method", "lists by", "judged by", "published %", "ours %", "sd", f"after {passes} passes %")
    largest_columns = ("largest gap judged wrong", f"after {passes} passes")
    title = f"Table 3: pairs whose better ranker was found, one pass ({len(verdicts)} tie orders, {passes} passes each)"
    return Table("accuracy", title, (*columns, *largest_columns), tuple(rows))


def _order(verdicts: Sequence[PairVerdicts]) -> Table:
    """The published order of methods; tie orders are independent repetitions, passes of one tie order are not."""
    once = np.array([one.right.mean(axis=1) for one in verdicts]) * 100
    published = {rule.label: rule.published for rule in RULES}
    rows: list[tuple[Cell, ...]] = []
    for better, worse in ORDER:
        difference = once[:, LABELS.index(better)] - once[:, LABELS.index(worse)]
        means = difference.mean(axis=1)
        error = f"{means.std(ddof=1) / np.sqrt(len(means)):.1f}" if len(means) > 1 else None
        theirs = f"{(published[better] or 0) - (published[worse] or 0):.1f}"
        holds = f"{(difference > 0).sum()} of {difference.size}"
        rows.append((f"{better} over {worse}", theirs, f"{means.mean():.1f}", error, holds))
    columns = ("step", "published", "ours", "standard error", "passes where it holds")
    return Table("order", "The published order, in percentage points of accuracy", columns, tuple(rows))


def _systematic(verdicts: PairVerdicts) -> Table:
    """Rankers with more wrong pairs than the method's error rate explains, after the first pass as in the paper."""
    rankings = verdicts.rankings
    ndcg, rankers = rankings.ndcg.mean(axis=0), range(len(rankings.features))
    part = np.array([[ranker in pair for pair in verdicts.pairs] for ranker in rankers])
    rows: list[tuple[Cell, ...]] = []
    for row, rule in enumerate(RULES):
        wrong = ~verdicts.right[row, :, 0]
        counts, trials = part[:, wrong].sum(axis=1), part.sum(axis=1)
        p = binom.sf(counts - 1, trials, wrong.mean())
        flagged = [ranker for ranker in rankers if p[ranker] < LEVEL / len(rankers)]
        worst = int(np.argmin(p))
        cells = (rankings.features[worst], f"{counts[worst]} of {trials[worst]}", f"{ndcg[worst]:.3f}", float(p[worst]))
        rows.append((rule.label, f"{wrong.mean() * 100:.1f}", len(flagged), *cells))
    columns = ("method", "wrong %", "rankers", "worst feature", "its wrong pairs", "its NDCG", "p")
    title = f"Systematic errors: rankers with too many wrong pairs (binomial test, p below {LEVEL} / {len(rankers)})"
    return Table("systematic", title, columns, tuple(rows))


def choose(verdicts: PairVerdicts) -> list[StudyPair]:
    """The paper's rule: two easy pairs, and of each method's wrong pairs the one with the largest gap."""
    right = verdicts.right[:, :, 0]
    chosen: dict[int, list[str]] = {}
    easy = np.flatnonzero(right.all(axis=0))
    for gap in EASY if len(easy) else ():
        nearest = easy[np.argmin(np.abs(verdicts.gaps[easy] - gap))]
        chosen.setdefault(int(nearest), []).append(f"easy, gap near {gap:.2f}")
    for label in FOLLOWED:
        wrong = np.flatnonzero(~right[LABELS.index(label)])
        if len(wrong):
            chosen.setdefault(int(wrong[np.argmax(verdicts.gaps[wrong])]), []).append(label)
    return [StudyPair(number + 1, verdicts.pairs[at], tuple(why)) for number, (at, why) in enumerate(chosen.items())]


def _notes(data: Judged, verdicts: Sequence[PairVerdicts], size: HofmannScale) -> list[str]:
    first = verdicts[0]
    click = ", ".join(f"{float(share):.3g}" for share in perfect(first.rankings.scale).click)
    noisy = realistic(first.rankings.scale)
    noise = " and ".join(", ".join(f"{float(share):.3g}" for share in table) for table in (noisy.click, noisy.stop))
    return [
        f"{len(first.rankings.features)} rankers (features that vary), {len(first.pairs):,} pairs with a better "
        f"ranker, {len(data):,} queries, k = {K}; ties: an order of its own for each ranker; perfect clicks by grade: "
        f"{click}; truth: NDCG without cut on the same queries.",
        "Depth of the input rankings: whole, so that ranks below the list count where a method asks for them; the "
        f"rows with 'cut' judge by ranks 1 to {K} only. PI takes the teams that composed the list, PI-MA their exact "
        "expectation.",
        f"Convergence: first tie order, {size.repeats:,} repeats, queries without a click skipped and not counted. "
        f"Realistic people click and stop by grade with {noise}; the stop probabilities are unverified: the paper's "
        "table of them is lost to us.",
    ]
