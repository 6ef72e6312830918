"""H12c: caption bias is measured and removed, in simulated worlds with a known truth, and on real clicks.

The paper's logs are not public, and of its tables only a few numbers survive in the text. So the study checks in
simulated worlds what the paper could not check on its logs: whether the diagnosis is right. With the folder of the TREC
Session track (`sessiontrack2012.xml.gz`, its qrels, ...), the models are also fitted to real clicks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from interleaf import plots
from interleaf.caption_bias import CaptionReport, caption
from interleaf.caption_bias.diagnosis_report import EXPLAINED, HIDDEN, NONE, REVERSED, STANDS, CaptionCode, verdict
from interleaf.caption_bias.logistic_model import ODDS, PROBABILITY
from interleaf.caption_bias.weighted_scores import centre_score
from interleaf.importers.trec import read_trec_session
from interleaf.log import rows_to_batch
from interleaf.simulate.data import Judged, freeze, synthetic
from interleaf.simulate.people import People
from interleaf.simulate.world import World
from interleaf.studies.study import Answer, Cell, Finding, PrintedTables, Study, StudyRun, Table, falling

QUERIES, DOCUMENTS = 500, (10, 25)
EQUAL, BETTER = (0.5, 0.5), (0.6, 0.4)  # quality of the rankers A and B: correlation of score and grade
NAME, TITLE = "caption2012", "Hofmann, Behr and Radlinski (2012): caption bias in interleaving experiments"
# The weights by model of Table 3 that are in the available text.
WEIGHTS = {
    "deep links": {"document-wise": 1.041, "combined": 1.048},
    "short URL": {"document-wise": 0.470, "combined": 0.403},
    "Δ url slashes above": {"pairwise": -0.184},
    "Δ url slashes below": {"pairwise": 0.160, "combined": 0.109},
}
PREFERENCES = {
    "baseline": (0, 86, 0),
    "highlighting": (44, 1, 41),
    "document-wise": (43, 11, 32),
    "pairwise": (43, 0, 43),
    "combined": (47, 0, 39),
}
E4 = "E4: 0.5031, weighted 0.5005; probabilistic: significant, weighted not"
E6 = "E6: not significant, weighted significantly worse"
_LIKE_E4 = {"world": "only prettier", "judged": "yes", "scored_by": "team_draft"}
_LIKE_E6 = _LIKE_E4 | {"world": "better, plainer"}
_PERPLEXITY = ("How well clicks on", "perplexity", "model")


@dataclass(frozen=True)
class Case:
    """A kind of world: quality of the rankers, effect of captions, which captions attract, and the right verdicts."""

    name: str
    strengths: tuple[float, float]
    captions: float
    lean: float
    right: tuple[CaptionCode, ...]
    what: str

    def world(self, seed: int, clicks: str = "realistic") -> World:
        """The world of this seed."""
        equal = self.strengths[0] == self.strengths[1]
        queries = QUERIES // 2 if equal else QUERIES
        data = synthetic(queries, DOCUMENTS, 2, strengths=self.strengths, seed=("caption2012", seed))
        people = People(clicks=clicks, caption_strength=self.captions, caption_lean=self.lean)
        return World(mirror(data) if equal else data, [1, 2], people, "team_draft", seed=seed)

    def log(self, seed: int, impressions: int, clicks: str = "realistic", judged: bool = True) -> pa.Table:
        """Its log, with captions, and with judgments or without."""
        log = pa.Table.from_batches(list(self.world(seed, clicks).batches(impressions, captions=True, threads=1)))
        if judged:
            return log
        place = log.schema.get_field_index("grades")
        return log.set_column(place, "grades", pa.nulls(len(log), log.schema.field(place).type))


CASES = (
    Case("only prettier", EQUAL, 1.5, 1, (EXPLAINED,), "as good; A's captions attract"),
    Case("pretty, unheeded", BETTER, 0, 1, (STANDS,), "A is better; its captions are prettier, and nobody cares"),
    Case("alike", BETTER, 1.5, 0, (STANDS,), "A is better; captions attract, for both alike"),
    Case("nothing", EQUAL, 0, 1, (NONE, STANDS), "as good; A's captions are prettier, and nobody cares"),
    Case("better, plainer", BETTER[::-1], 1, 1, (HIDDEN, REVERSED), "B is better; A's captions attract"),
)


def mirror(data: Judged) -> Judged:
    """Every query twice, the second time with the features in reverse order, so that two rankers are equally good."""
    return replace(
        data,
        features=freeze(np.concatenate([data.features, data.features[:, ::-1]])),
        grades=np.concatenate([data.grades, data.grades]),
        offsets=np.concatenate([data.offsets, data.offsets[1:] + data.offsets[-1]]),
        queries=tuple(str(number + 1) for number in range(2 * len(data))),
        name=f"{data.name}, mirrored",
    )


@dataclass(frozen=True)
class CaptionScale:
    """Number of worlds of each kind, impressions in each, and impressions in the world that is shown in detail."""

    seeds: int
    impressions: int
    detailed: int


SCALES = {"quick": CaptionScale(8, 4_000, 20_000), "paper": CaptionScale(100, 10_000, 200_000)}


def significance(tables: PrintedTables, row: dict[str, str], before: bool) -> Answer:
    """Table 9: whether most worlds are significant before weighting and not after it, or the other way round."""
    cells = [tables.cell("Scores around .5", column, **row) for column in ("as clicked", "captions alike")]
    counts = [re.search(r"\((\d+) of (\d+)\)", cell) for cell in cells]
    shares = [int(count[1]) / int(count[2]) for count in counts if count]
    return f"{cells[0]}, then {cells[1]}", (shares[0] > 0.5) == before and (shares[1] > 0.5) != before


def pairwise_weight(tables: PrintedTables, feature: str, positive: bool) -> Answer:
    """Whether a weight of the pairwise model has the published sign."""
    weight = tables.number("Weights of captions", "pairwise", feature=feature)
    return f"pairwise {weight:+.3f}", (weight > 0) == positive


FINDINGS = (
    Finding("a preference that captions made vanishes with weights", E4, significance, (_LIKE_E4, True)),
    Finding(
        "one that captions hid comes out", E6, significance, (_LIKE_E6, False),
        "captions attract more here: they turn the preference round instead of hiding it",
    ),
    Finding(
        "more slashes than the result above: fewer clicks", "pairwise -0.184",
        pairwise_weight, ("Δ url slashes above", False),
    ),
    Finding(
        "more slashes than the result below: more clicks", "pairwise +0.160",
        pairwise_weight, ("Δ url slashes below", True), "here attraction is planted in the result itself",
    ),
    Finding("deep links attract most", "document-wise +1.041", None, why="simulated captions have no deep links"),
    Finding(
        "document-wise features foretell better than pairwise ones", "yes",
        falling, (*_PERPLEXITY, ("pairwise", "document-wise")),
    ),
    Finding(
        "both together foretell best", "yes", falling, (*_PERPLEXITY, ("document-wise", "combined")),
        "nothing pairwise is planted",
    ),
    Finding(
        "highlighting foretells worse than no captions", "yes",
        falling, (*_PERPLEXITY, ("highlighting", "baseline")), "highlighting is planted",
    ),
    Finding("the scores of experiments E1 to E6", "table 9", None, why="the paper's logs are not public"),
)  # fmt: skip


def study(task: StudyRun) -> Study:
    """The study on simulated worlds, and on the TREC Session logs of a folder."""
    size = SCALES[task.scale]
    task.total = 2 * len(CASES) * size.seeds

    def diagnose_world(case: Case, judged: bool, number: int) -> CaptionReport:
        return caption(case.log(task.seed + number, size.impressions, judged=judged))

    reports: Reports = [
        (case, judged, task.compute([(case, judged, number) for number in range(size.seeds)], diagnose_world))
        for case in CASES
        for judged in (True, False)
    ]
    detailed = caption(CASES[0].log(task.seed, size.detailed))
    real = list(_real(task.folder)) if task.folder is not None else []
    return Study(
        name=NAME,
        title=TITLE,
        data=f"simulated worlds of {size.impressions:,} impressions" + (f"; {task.folder}" if real else ""),
        scale=task.scale,
        tables=(
            _diagnoses(reports),
            _scores(reports),
            *_models(detailed, "world"),
            *(table for year, report in real for table in _models(report, year)),
        ),
        charts={"scores": _chart(reports), "weights": detailed.chart()},
    )


Reports = list[tuple[Case, bool, list[CaptionReport]]]


def _diagnoses(reports: Reports) -> Table:
    """How often the verdict is right, for each kind of weight."""
    rows: list[tuple[Cell, ...]] = []
    for case, judged, of_case in reports:
        kinds = {
            kind: Counter(verdict(one.rescored[0], kind, is_judged=judged).kind.text for one in of_case)
            for kind in (PROBABILITY, ODDS)
        }
        right = [f"{sum(kinds[kind][code.text] for code in case.right)} of {len(of_case)}" for kind in kinds]
        verdicts = ", ".join(f"{name} {number}" for name, number in kinds[PROBABILITY].most_common())
        rows.append((case.name, case.what, "yes" if judged else "no", *right, verdicts))
    columns = ("world", "in it", "judged", "right, captions alike", "right, 1/exp(W X)", "verdicts, captions alike")
    return Table("diagnoses", "Is the diagnosis right?", columns, tuple(rows), right=columns[3:5])


def _scores(reports: Reports) -> Table:
    """H12c, Table 9: mean scores without and with weights, by team draft and by the probabilistic posterior."""
    rows: list[tuple[Cell, ...]] = []
    for case, judged, of_case in reports:
        for place, method in enumerate(one.method for one in of_case[0].rescored):
            scores = [_mean_scores([one.rescored[place] for one in of_case], kind) for kind in ("", PROBABILITY, ODDS)]
            published = {"only prettier": E4, "better, plainer": E6}.get(case.name) if judged and not place else None
            rows.append((case.name, "yes" if judged else "no", method, *scores, published))
    columns = ("world", "judged", "scored by", "as clicked", "captions alike", "1/exp(W X)", "published")
    title = "Scores around .5, mean over worlds (significant in)"
    return Table("scores", title, columns, tuple(rows), right=columns[3:6])


def _mean_scores(scores: list[Any], kind: str) -> str:
    estimates = [one.weighted[kind] if kind else one.plain for one in scores]
    mean = sum(centre_score(one.value) for one in estimates) / len(estimates)
    return f"{mean:.4f} ({sum((one.p_value or 1) <= 0.05 for one in estimates)} of {len(estimates)})"


def _models(report: CaptionReport, name: str) -> Iterator[Table]:
    """H12c, Tables 3 to 8, of one log."""
    for table in report.tables():
        if table.name in ("scores", "page"):
            continue
        columns, rows = list(table.columns), [list(row) for row in table.rows]
        if table.name == "weights" and "combined" in columns:
            columns.append("published")
            published = [WEIGHTS.get(str(row[0]), {}).items() for row in rows]
            texts = [", ".join(f"{model} {weight:+.3f}" for model, weight in weights) for weights in published]
            rows = [[*row, text or None] for row, text in zip(rows, texts, strict=True)]
        if table.name == "preferences":
            columns.append("published")
            rows = [[*row, " / ".join(map(str, PREFERENCES[str(row[0])]))] for row in rows]
        title = f"{table.title} ({name}: {report.results:,} results, {report.clicks:,} clicked)"
        own = f"{name.lower().replace(' ', '-')}-{table.name}"
        yield Table(own, title, tuple(columns), tuple(map(tuple, rows)), right=table.right)


def _real(folder: Path) -> Iterator[tuple[str, CaptionReport]]:
    """The years of the TREC Session track in a folder, and all of them together."""
    batches = []
    for path in sorted(folder.glob("sessiontrack*.xml*")):
        year = "".join(letter for letter in path.name.partition(".")[0] if letter.isdecimal())
        judgments = next(iter(sorted(folder.glob(f"*rel*{year}*.txt"))), None)
        batches.append(rows_to_batch(read_trec_session(path, judgments, highlight=True)))
        yield f"TREC {year}", caption(batches[-1])
    if len(batches) > 1:
        yield "TREC all years", caption(pa.Table.from_batches(batches))


def _chart(reports: Reports) -> dict[str, Any]:
    """The first world of each kind, without and with weights."""
    rows = []
    for case, judged, of_case in reports:
        one = of_case[0].rescored[0]
        for name, estimate in (("as clicked", one.plain), ("captions alike", one.weighted[PROBABILITY])):
            if judged and estimate.value is not None and estimate.interval is not None:
                low, high = (centre_score(end) - 0.5 for end in estimate.interval)
                score = centre_score(estimate.value) - 0.5
                rows.append({"world": f"{case.name}\n{name}", "A over B": score, "low": low, "high": high, "as": name})
    colours = {"as clicked": plots.ORANGE, "captions alike": plots.BLUE}
    return plots.intervals(rows, "world", "A over B", ("low", "high"), colour="as", colours=colours)
