"""What was found of caption bias in a log: verdicts, scores with and without, weights, perplexity, preferences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from interleaf.caption_bias.model import ODDS, PROBABILITY, Model
from interleaf.caption_bias.predictions import Perplexity, Preference
from interleaf.caption_bias.results import ALL, SEGMENTS
from interleaf.caption_bias.scores import Rescored, centred
from interleaf.caption_bias.verdict import Page, Verdict
from interleaf.stats.compare import Estimate
from interleaf.tables import Cell, Table, escape, one_line

UNJUDGED = (
    "No result is judged, so looks are not told from relevance. Where attractive captions stand on better documents, "
    "their weights are too large, and a true preference is taken for caption bias, in part or in whole."
)
FEW_JUDGED = (
    "Only {:.0%} of the results are judged. Looks of the others are not told from their relevance, and a true "
    "preference may be taken for caption bias in part."
)
FEWEST_JUDGED = 0.2
NO_WEIGHTS = "No feature of captions changes clicks significantly (p < .001): all clicks weigh the same."
SEPARATED = (
    "Some features tell clicks from no clicks without a mistake, so their best weights are infinite: those without a "
    "standard error are shrunk."
)
NONE_HELD_OUT = "No unit is held out, so how well the models foretell clicks of others is not known."


@dataclass(frozen=True)
class CaptionReport:
    """All findings; what could not be computed is None, or not there."""

    impressions: int
    results: int
    clicks: int
    judged: int
    dropped: Mapping[str, int]
    others: int
    models: Mapping[str, Model]
    main: str
    weights: str
    confidence: float
    perplexities: tuple[Perplexity, ...]
    unjudged_perplexities: tuple[Perplexity, ...]
    preferences: tuple[Preference, ...]
    rescored: tuple[Rescored, ...]
    verdicts: tuple[Verdict, ...]
    page: Page | None

    @property
    def model(self) -> Model:
        """The model that clicks are weighted by."""
        return self.models[self.main]

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before believing it."""
        share = self.judged / self.results if self.results else 0.0
        found = [] if share >= FEWEST_JUDGED else [FEW_JUDGED.format(share)]
        found = found if self.model.is_judged and self.judged else [UNJUDGED]
        found += [] if self.model.weights else [NO_WEIGHTS]
        found += [SEPARATED] if self.model.separated else []
        found += [] if self._held_out else [NONE_HELD_OUT]
        found += [f"Not used, {reason}: {number:,} impressions." for reason, number in self.dropped.items()]
        if self.others:
            found.append(f"Not scored: {self.others:,} impressions of another version, method or set of rankers.")
        return tuple(found)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict on each pair, as scored by the method that composed the lists, or that was asked for."""
        found: dict[tuple[str, str], str] = {}
        for one, judged in self._judged:
            found.setdefault((one.first, one.second), judged.sentence)
        return tuple(found.values())

    @property
    def _held_out(self) -> int:
        return next((one.results for one in self.perplexities if one.segment == ALL), 0)

    @property
    def _judged(self) -> list[tuple[Rescored, Verdict]]:
        return list(zip(self.rescored, self.verdicts, strict=True))

    def tables(self) -> Iterator[Table]:
        """Every finding as a table."""
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
        rows = tuple(
            (
                f"{one.first} over {one.second}",
                one.method,
                _score(one.plain),
                *(_score(one.weighted[kind]) for kind in (PROBABILITY, ODDS)),
                judged.kind,
            )
            for one, judged in self._judged
        )
        columns = ("pair", "scored by", "as clicked", "captions alike", "1/exp(W X)", f"verdict, by {self.weights}")
        title = f"Scores around .5, with {self.confidence:.0%} intervals"
        return Table("scores", title, columns, rows, right=columns[2:5])

    def weight_table(self) -> Table:
        """Weights of all models (H12c, Table 3)."""
        names = [feature.name for feature in self.model.features]
        own = {name: {one.name: one for one in model.weights} for name, model in self.models.items()}
        shown = [name for name in own if own[name]]
        rows = tuple(
            (
                feature.name,
                feature.rule,
                *(_weight(own[model].get(feature.name)) for model in shown),
            )
            for feature in self.model.features
            if any(feature.name in own[model] for model in shown)
        )
        left = len(names) - len(rows)
        title = (
            f"Weights of captions (standard errors), p < .001 without each; {left} of {len(names)} features left out"
        )
        return Table("weights", title, ("feature", "rule", *shown), rows, right=tuple(shown))

    def perplexity_table(self) -> Table:
        """Perplexity of the models on held-out results (H12c, Table 4)."""
        blind = {one.model: one for one in self.unjudged_perplexities if one.segment == ALL}
        several = len(self.models) > 1
        columns = [
            "model",
            "features",
            "perplexity",
            *(("p, from the baseline", "p, from the best") if several else ()),
        ]
        columns += ["perplexity without judgments"] if blind else []
        rows: list[tuple[Cell, ...]] = []
        overall = [one for one in self.perplexities if one.segment == ALL]
        for one in overall:
            tests = (_p_value(one.p_value), _p_value(one.from_best)) if several else ()
            row: list[Cell] = [one.model, len(self.models[one.model].weights), _digits(one.perplexity), *tests]
            rows.append((*row, *([_digits(blind[one.model].perplexity)] if blind else [])))
        title = f"How well clicks on {self._held_out:,} held-out results are foretold: 1 perfect, 2 a coin"
        return Table("perplexity", title, tuple(columns), tuple(rows), right=tuple(columns[1:]))

    def segment_table(self) -> Table:
        """Perplexity of baseline and main model by kind of query (H12c, Tables 5 and 6)."""
        by = {(one.segment, one.model): one for one in self.perplexities}
        shown = list(dict.fromkeys([next(iter(self.models)), self.main]))
        several = len(shown) > 1
        rows = tuple(
            (
                segment,
                one.results,
                *(_digits(by[segment, name].perplexity) for name in shown),
                *((_p_value(one.p_value),) if several else ()),
            )
            for segment, one in ((segment, by[segment, self.main]) for segment in SEGMENTS)
            if segment != ALL and one.results
        )
        columns = ("queries", "results", *shown, *(("p of the difference",) if several else ()))
        return Table("segments", "Perplexity by kind of query", columns, rows, right=columns[1:])

    def preference_table(self) -> Table:
        """Preferences between two clicked results against judgments (H12c, Table 8)."""
        rows = tuple(
            (one.model, one.correct, one.none, one.incorrect, _p_value(one.p_value)) for one in self.preferences
        )
        columns = ("model", "correct", "no preference", "incorrect", "p against a coin")
        return Table(
            "preferences", "Which of two clicked results is better, by judges", columns, rows, right=columns[1:]
        )

    @property
    def _seen(self) -> str:
        share = f"{self.judged / self.results:.0%}" if self.results else "none"
        return f"{self.impressions:,} impressions, {self.results:,} results ({share} judged), {self.clicks:,} clicked"

    def __str__(self) -> str:
        before, after = (map(one_line, texts) for texts in ((*self.sentences, self._seen), self.notes))
        return "\n\n".join([*before, *map(str, self.tables()), *after])

    def to_markdown(self) -> str:
        """The same as Markdown."""
        before, after = (
            [escape(one_line(text)) for text in texts] for texts in ((*self.sentences, self._seen), self.notes)
        )
        return "\n\n".join([*before, *(table.to_markdown() for table in self.tables()), *after]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        plain = ("impressions", "results", "clicks", "judged", "others", "main", "weights", "confidence")
        return {
            **{name: getattr(self, name) for name in plain},
            "dropped": dict(self.dropped),
            "verdicts": [asdict(one) for one in self.verdicts],
            "rescored": [asdict(one) for one in self.rescored],
            "models": {name: model.to_dict() for name, model in self.models.items()},
            "perplexities": [asdict(one) for one in self.perplexities],
            "unjudged_perplexities": [asdict(one) for one in self.unjudged_perplexities],
            "preferences": [asdict(one) for one in self.preferences],
            "page": self.page and self.page.to_dict(),
            "notes": list(self.notes),
        }

    def chart(self) -> dict[str, Any]:
        """The weights of the main model in their intervals, as a chart."""
        from scipy.special import ndtri

        from interleaf import plots

        radius = float(ndtri((1 + self.confidence) / 2))
        rows = [
            {
                "feature": one.name,
                "weight": one.weight,
                "low": one.weight - radius * (one.error or 0),
                "high": one.weight + radius * (one.error or 0),
            }
            for one in sorted(self.model.weights, key=lambda one: -one.weight)
        ]
        return plots.intervals(rows, "feature", "weight", ("low", "high"))


def _score(found: Estimate) -> str | None:
    if found.value is None:
        return None
    text = f"{centred(found.value):.4f}"
    if found.interval is None:
        return text
    low, high = (centred(end) for end in found.interval)
    return f"{text} ({low:.4f} to {high:.4f})"


def _weight(one: Any) -> str | None:
    if one is None:
        return None
    return f"{one.weight:+.3f}" + (f" ({one.error:.3f})" if one.error is not None else "")


def _p_value(value: float | None) -> str | None:
    return None if value is None else "< 0.001" if value < 0.001 else f"{value:.2g}"


def _digits(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"
