"""The verdict on each pair of rankers, the explanation of one page, and the report with all tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from interleaf import plots
from interleaf.caption_bias.features import FIRST
from interleaf.caption_bias.logistic_model import ODDS, PROBABILITY, CaptionModel
from interleaf.caption_bias.shown_results import ALL, SEGMENTS, ShownResults
from interleaf.caption_bias.training import ModelPerplexity, Preference
from interleaf.caption_bias.weighted_scores import Rescored, centre_score, credit_alone, scheme_for
from interleaf.decode.scoring import drop_unscorable
from interleaf.kernels.arrays import Array
from interleaf.log.drop_reasons import text_of
from interleaf.log.schema import INTERLEAVED
from interleaf.methods.registry import resolve
from interleaf.stable_codes import Code, Note
from interleaf.stats.compare import Estimate, significance
from interleaf.tables import Cell, Table, escape, one_line, percent

MAX_TITLE = 48


@dataclass(frozen=True)
class ExplainedResult:
    """A result: its title, its owner, whether it was clicked, its click weight, and what adds to its odds.

    `credit` is the credit of the first ranker minus that of the second for a click, before its weight; None if unknown.
    """

    rank: int
    title: str
    ranker: str | None
    clicked: bool
    weight: float
    credit: float | None
    parts: dict[str, float]


@dataclass(frozen=True)
class ExplainedPage:
    """The explanation of a page; `weights` is the kind of click weight that the verdict uses."""

    impression: str
    lines: tuple[ExplainedResult, ...]
    rankers: tuple[str, ...]
    weights: str

    @property
    def outcome(self) -> tuple[float, float] | None:
        """Credit of the first ranker minus that of the second, without and with weights; None if unknown."""
        if all(line.credit is None for line in self.lines):
            return None
        clicks = [(line.credit, line.weight) for line in self.lines if line.clicked and line.credit is not None]
        return float(sum(credit for credit, _ in clicks)), float(sum(credit * weight for credit, weight in clicks))

    def table(self) -> Table:
        rows = tuple(
            (
                f"{line.rank}{'*' if line.clicked else ''}",
                line.title if len(line.title) <= MAX_TITLE else line.title[: MAX_TITLE - 1] + "…",
                line.ranker,
                f"{line.weight:.3f}",
                ", ".join(f"{name} {part:+.2f}" for name, part in line.parts.items()) or None,
            )
            for line in self.lines
        )
        title = f"Impression {self.impression}: what a click counts for, by {self.weights} (* clicked)"
        if self.outcome is not None:
            (one, other), (plain, weighted) = self.rankers, self.outcome
            title += f"; {one} over {other}: {plain:+.3g} clicks, {weighted:+.3f} weighted"
        if any(line.clicked and line.credit == 0 for line in self.lines):
            title += "; clicks that the score gives to nobody are left out"
        return Table("page", title, ("rank", "title", "ranker", "weight", "adds to the odds"), rows, right=("weight",))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"rankers": list(self.rankers), "outcome": self.outcome}


def explain_pages(
    results: ShownResults, codes: Array, model: CaptionModel, impression: str, kind: str, method: str | None
) -> Iterator[ExplainedPage]:
    """Explain the pages with this id, with this kind of click weights and this method."""
    weights, starts = model.click_weights(codes, kind), np.cumsum(results.counts) - results.counts
    rankers, names = results.decoded.design.rankers, [feature.name for feature in model.features]
    for page, captions in results.pages(impression):
        lines, credits = [], _credits(results, page, method)
        for place, caption in enumerate(captions):
            row, team = starts[page] + place, int(results.decoded.impressions.teams[page, place])
            owner = rankers[team] if team >= 0 and results.decoded.has["teams"][page] else None
            title = (caption or {}).get("title") or ""
            clicked, weight = bool(results.clicked[row]), float(weights[row])
            log_odds = dict(zip(names, (codes[row, FIRST:] * model.caption_weights).tolist(), strict=True))
            parts = {name: odds for name, odds in sorted(log_odds.items(), key=lambda part: -abs(part[1])) if odds}
            lines.append(ExplainedResult(place + 1, title, owner, clicked, weight, credits[place], parts))
        yield ExplainedPage(impression, tuple(lines), rankers, kind)


def _credits(results: ShownResults, page: int, method: str | None) -> list[float] | list[None]:
    """The credit of the first of two rankers minus that of the second, for a click on each result."""
    decoded = results.decoded.only(np.arange(len(results.counts)) == page)._replace(dropped=Counter())
    unknown = [None] * int(decoded.counts[0])
    if decoded.design.arm != INTERLEAVED or len(decoded.design.rankers) != 2:
        return unknown
    chosen = resolve(method or decoded.design.method)
    scheme = scheme_for(chosen, results.decoded)
    if not len(drop_unscorable(decoded, chosen, scheme).rows):
        return unknown
    places = np.arange(len(unknown))
    credits = credit_alone(decoded, chosen, scheme, np.zeros_like(places), places)
    return [float(value) for value in credits[:, 0] - credits[:, 1]]


class CaptionCode(Code):
    """Whether captions explain the preference between two rankers."""

    NONE = "no_preference", "no preference"
    STANDS = "stands", "stands"
    PARTLY = "partly_explained", "partly explained"
    EXPLAINED = "explained", "explained"
    REVERSED = "reversed", "reversed"
    HIDDEN = "hidden", "hidden"
    UNKNOWN = "unknown", "unknown"
    NEEDS_JUDGMENTS = "needs_judgments", "needs judgments"


NONE, STANDS, PARTLY, EXPLAINED, REVERSED, HIDDEN, UNKNOWN, NEEDS_JUDGMENTS = CaptionCode
CAUSES = (PARTLY, EXPLAINED, REVERSED, HIDDEN)
SMALL, LARGE = 0.25, 0.75  # shares of the preference that remain
MIN_UNJUDGED_CHANGE, MAX_UNJUDGED_SHARE = 0.05, 0.5  # of a score from -1 to 1; the share of it that remains


@dataclass(frozen=True)
class CaptionVerdict:
    """Whether captions explain the preference between two rankers."""

    kind: CaptionCode
    sentence: str

    @property
    def is_clean(self) -> bool:
        """Whether captions give no reason to doubt the comparison."""
        return self.kind in (NONE, STANDS)


def verdict(
    rescored: Rescored, weights: str = PROBABILITY, confidence: float = 0.95, is_judged: bool = True
) -> CaptionVerdict:
    """The verdict on a pair by one kind of weights; `is_judged`: the model was fitted to judged results."""
    before, after, change = rescored.plain, rescored.weighted[weights], rescored.change[weights]
    if before.value is None or before.p_value is None or after.value is None or after.p_value is None:
        return CaptionVerdict(UNKNOWN, f"Whether captions matter is unknown: {before.reason or after.reason}.")
    level = significance(confidence)
    was, remains = before.p_value <= level, after.p_value <= level
    moved = change.p_value is not None and change.p_value <= level
    kind, words = _kind(before.value, after.value, was, remains, moved), _words(rescored, before.value, after.value)
    if kind in CAUSES and not is_judged:
        share = after.value / before.value if kind == PARTLY else 0.0
        if abs(after.value - before.value) < MIN_UNJUDGED_CHANGE or share > MAX_UNJUDGED_SHARE:
            return CaptionVerdict(NEEDS_JUDGMENTS, _NEEDS_JUDGMENTS.format(**words))  # relevance could explain it, too
    sentence = _SENTENCES[kind].format(**words) + _WEIGHTED
    if kind == EXPLAINED:
        sentence += _REMAINS if remains else _NOTHING_REMAINS.format(**words)
    return CaptionVerdict(kind, sentence)


def _kind(before: float, after: float, was: bool, remains: bool, moved: bool) -> CaptionCode:
    if not was:
        return HIDDEN if remains and moved else NONE
    share = after / before
    if moved and share >= 2:
        return HIDDEN
    if not moved or share > LARGE:
        return STANDS
    if share < -SMALL and remains:
        return REVERSED
    return EXPLAINED if share <= SMALL or (share <= 0.5 and not remains) else PARTLY


def _words(rescored: Rescored, was: float, now: float) -> dict[str, str]:
    return {
        "first": rescored.first,
        "second": rescored.second,
        "winner": rescored.first if was > 0 else rescored.second,
        "loser": rescored.second if was > 0 else rescored.first,
        "later": rescored.first if now > 0 else rescored.second,
        "before": f"{centre_score(was):.4f}",
        "after": f"{centre_score(now):.4f}",
        "share": percent(1 - now / was, 0) if was else "nothing",
    }


_SENTENCES = {
    NONE: "No preference between {first} and {second} is shown: the score is {before}, and {after}",
    STANDS: "Captions do not explain the preference for {winner} over {loser}: the score is {before}, and {after}",
    PARTLY: "Captions explain {share} of the preference for {winner} over {loser}: the score is {before}, and {after}",
    EXPLAINED: "Captions explain the preference for {winner} over {loser}: the score is {before}, but {after}",
    REVERSED: "Captions turned the comparison around: the score is {before}, for {winner}, but {after}, for {later},",
    HIDDEN: "Captions hid a preference for {later}, or most of it: the score is {before}, but {after}",
}
_WEIGHTED = " with clicks weighted by their captions."
_NEEDS_JUDGMENTS = (
    "Whether captions matter to {first} and {second} is unknown without judgments: the score is {before}, and "
    "{after} with clicks weighted by their captions, but better documents with more attractive captions would give the "
    "same result. Log grades to find out."
)
_NOTHING_REMAINS = " That {winner} is better is not shown."
_REMAINS = " The rest is significant, but not larger than what imperfect weights may leave."


class CaptionNote(Code):
    """Limits of a diagnosis, and impressions that it did not use."""

    NOT_JUDGED = (
        "not_judged",
        "No result is judged, so the effects of captions and of relevance cannot be separated. If better documents "
        "have more attractive captions, their weights are too large, and a true preference is mistaken for caption "
        "bias.",
    )
    FEW_JUDGED = (
        "few_judged",
        "Only {} of the results are judged. For the others the effects of captions and of relevance cannot be "
        "separated, and a true preference may partly be mistaken for caption bias.",
    )
    NO_WEIGHTS = (
        "no_weights",
        "No feature of captions changes clicks significantly (p < .001): all clicks weigh the same.",
    )
    SEPARATED = (
        "separated",
        "Some features separate clicked from other results perfectly, so their best weights are infinite; weights "
        "without a standard error are shrunk.",
    )
    NONE_HELD_OUT = (
        "none_held_out",
        "No unit is held out, so it is not known how well the models predict clicks of other units.",
    )
    NOT_USED = "not_used", "Not used, {}: {:,} impressions."
    NOT_SCORED = "not_scored", "Not scored: {:,} impressions of another version, method or set of rankers."


MIN_JUDGED = 0.2


@dataclass(frozen=True)
class CaptionReport:
    """All results; what could not be computed is None or missing."""

    impressions: int
    results: int
    clicks: int
    judged: int
    dropped: Mapping[str, int]
    others: int
    models: Mapping[str, CaptionModel]
    main: str
    weights: str
    confidence: float
    perplexities: tuple[ModelPerplexity, ...]
    unjudged_perplexities: tuple[ModelPerplexity, ...]
    preferences: tuple[Preference, ...]
    rescored: tuple[Rescored, ...]
    verdicts: tuple[CaptionVerdict, ...]
    page: ExplainedPage | None

    @property
    def model(self) -> CaptionModel:
        return self.models[self.main]

    @property
    def notes(self) -> tuple[Note, ...]:
        """Limits of the diagnosis, and impressions that were not used."""
        share = self.judged / self.results if self.results else 0.0
        is_judged = self.model.is_judged and self.judged
        notes = {
            CaptionNote.NOT_JUDGED: not is_judged,
            CaptionNote.FEW_JUDGED: is_judged and share < MIN_JUDGED,
            CaptionNote.NO_WEIGHTS: not self.model.weights,
            CaptionNote.SEPARATED: self.model.separated,
            CaptionNote.NONE_HELD_OUT: not self._held_out,
        }
        limits = [code.note(percent(share, 0)) for code, applies in notes.items() if applies]
        limits += [CaptionNote.NOT_USED.note(text_of(reason), count) for reason, count in self.dropped.items()]
        return (*limits, *([CaptionNote.NOT_SCORED.note(self.others)] if self.others > 0 else []))

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict on each pair, as scored by the requested method, else by the method of the lists."""
        sentences: dict[tuple[str, str], str] = {}
        for one, judged in zip(self.rescored, self.verdicts, strict=True):
            sentences.setdefault((one.first, one.second), judged.sentence)
        return tuple(sentences.values())

    @property
    def _held_out(self) -> int:
        return next((one.results for one in self.perplexities if one.segment == ALL), 0)

    def tables(self) -> Iterator[Table]:
        if self.rescored:
            yield self.comparison_table()
        if any(model.weights for model in self.models.values()):
            yield self.weight_table()
        if self._held_out:
            yield self.perplexity_table()
            yield self.segment_table()
        if any(one.correct + one.none + one.incorrect for one in self.preferences):
            yield self.preference_table()
        if self.page is not None:
            yield self.page.table()

    def comparison_table(self) -> Table:
        """Scores with and without weights, centred at .5 (H12c, Table 9)."""
        rows = []
        for one, judged in zip(self.rescored, self.verdicts, strict=True):
            scores = [_score(score) for score in (one.plain, one.weighted[PROBABILITY], one.weighted[ODDS])]
            rows.append((f"{one.first} over {one.second}", one.method, *scores, judged.kind.text))
        columns = ("pair", "scored by", "as clicked", "captions alike", "1/exp(W X)", f"verdict, by {self.weights}")
        title = f"Scores around .5, with {percent(self.confidence)} intervals"
        return Table("scores", title, columns, tuple(rows), right=columns[2:5])

    def weight_table(self) -> Table:
        """Weights of all models (H12c, Table 3)."""
        features = self.model.features
        weights = {name: {one.name: one for one in model.weights} for name, model in self.models.items()}
        shown = [name for name in weights if weights[name]]
        rows = tuple(
            (one.name, one.rule, *(_weight_cell(weights[model].get(one.name)) for model in shown))
            for one in features
            if any(one.name in weights[model] for model in shown)
        )
        left = f"{len(features) - len(rows)} of {len(features)} features left out"
        title = f"Weights of captions (standard errors), p < .001 without each; {left}"
        return Table("weights", title, ("feature", "rule", *shown), rows, right=tuple(shown))

    def perplexity_table(self) -> Table:
        """Perplexity of the models on held-out results (H12c, Table 4)."""
        blind = {one.model: one for one in self.unjudged_perplexities if one.segment == ALL}
        several = len(self.models) > 1
        columns = ["model", "features", "perplexity"]
        columns += ["p, from the baseline", "p, from the best"] if several else []
        columns += ["perplexity without judgments"] if blind else []
        rows: list[tuple[Cell, ...]] = []
        for one in (one for one in self.perplexities if one.segment == ALL):
            row: list[Cell] = [one.model, len(self.models[one.model].weights), _digits(one.perplexity)]
            row += [_p_value(one.p_value), _p_value(one.from_best)] if several else []
            rows.append((*row, *([_digits(blind[one.model].perplexity)] if blind else [])))
        title = f"How well clicks on {self._held_out:,} held-out results are predicted: 1 perfect, 2 a coin"
        return Table("perplexity", title, tuple(columns), tuple(rows), right=tuple(columns[1:]))

    def segment_table(self) -> Table:
        """Perplexity of baseline and main model by kind of query (H12c, Tables 5 and 6)."""
        by = {(one.segment, one.model): one for one in self.perplexities}
        shown = list(dict.fromkeys([next(iter(self.models)), self.main]))
        several = len(shown) > 1
        rows = []
        for segment in SEGMENTS:
            one = by[segment, self.main]
            if segment != ALL and one.results:
                perplexities = [_digits(by[segment, name].perplexity) for name in shown]
                rows.append((segment, one.results, *perplexities, *([_p_value(one.p_value)] if several else [])))
        columns = ("queries", "results", *shown, *(("p of the difference",) if several else ()))
        return Table("segments", "Perplexity by kind of query", columns, tuple(rows), right=columns[1:])

    def preference_table(self) -> Table:
        """Preferences between two clicked results against judgments (H12c, Table 8)."""
        rows = tuple(
            (one.model, one.correct, one.none, one.incorrect, _p_value(one.p_value)) for one in self.preferences
        )
        columns = ("model", "correct", "no preference", "incorrect", "p against a coin")
        title = "Which of two clicked results is better, by judges"
        return Table("preferences", title, columns, rows, right=columns[1:])

    @property
    def _basis(self) -> str:
        share = percent(self.judged / self.results, 0) if self.results else "none"
        return f"{self.impressions:,} impressions, {self.results:,} results ({share} judged), {self.clicks:,} clicked"

    def __str__(self) -> str:
        before, after = (*self.sentences, self._basis), [note.text for note in self.notes]
        return "\n\n".join([*map(one_line, before), *map(str, self.tables()), *map(one_line, after)])

    def to_markdown(self) -> str:
        texts = (*self.sentences, self._basis), [note.text for note in self.notes]
        before, after = ([escape(one_line(text)) for text in some] for some in texts)
        return "\n\n".join([*before, *(table.to_markdown() for table in self.tables()), *after]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        data = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        models = {name: model.to_dict() for name, model in self.models.items()}
        return data | {
            "models": models,
            "page": self.page and self.page.to_dict(),
            "notes": [note.to_dict() for note in self.notes],
        }

    def chart(self) -> dict[str, Any]:
        """The weights of the main model with their intervals, as a chart."""
        rows = []
        for one in sorted(self.model.weights, key=lambda one: -one.weight):
            radius = float(ndtri((1 + self.confidence) / 2)) * (one.error or 0)
            low, high = one.weight - radius, one.weight + radius
            rows.append({"feature": one.name, "weight": one.weight, "low": low, "high": high})
        return plots.intervals(rows, "feature", "weight", ("low", "high"))


def _score(score: Estimate) -> str | None:
    if score.value is None:
        return None
    text = f"{centre_score(score.value):.4f}"
    if score.interval is None:
        return text
    low, high = (centre_score(end) for end in score.interval)
    return f"{text} ({low:.4f} to {high:.4f})"


def _weight_cell(one: Any) -> str | None:
    if one is None:
        return None
    return f"{one.weight:+.3f}" + (f" ({one.error:.3f})" if one.error is not None else "")


def _p_value(value: float | None) -> str | None:
    return None if value is None else "< 0.001" if value < 0.001 else f"{value:.2g}"


def _digits(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"
