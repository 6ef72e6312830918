"""What came back of each paper's findings: every verdict is computed from the figures in the tables of the study.

So the last table of a study cannot contradict the tables above it, and a page that prints both can be checked without
running the study again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from interleaf.tables import Cell, Table

CAME_BACK, DID_NOT, CANNOT = "came back", "did not", "cannot be tried here"
NEVER = float("inf")
LEFT_OUT = "this run leaves it out"


class NoFigureError(LookupError):
    """A run does not have the figure that a finding needs."""


class Figures:
    """The tables of a study as text, found by the beginning of their titles."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables

    def rows(self, title: str) -> list[Mapping[str, str]]:
        """The rows of the first table whose title begins so, by column."""
        for table in self._tables:
            if table.title.startswith(title):
                columns, *lines = table.lines()
                return [dict(zip(columns, line, strict=True)) for line in lines]
        raise NoFigureError(LEFT_OUT)

    def cell(self, title: str, column: str, **wanted: str) -> str:
        """The cell of the row with these values; a space in a column's name is an underscore here."""
        for row in self.rows(title):
            if all(row[name.replace("_", " ")] == value for name, value in wanted.items()):
                return row[column]
        raise NoFigureError(LEFT_OUT)

    def number(self, title: str, column: str, **wanted: str) -> float:
        """The first number in that cell."""
        return number_in(self.cell(title, column, **wanted))


def number_in(text: str) -> float:
    """The first number in a text; one that was never reached is infinite."""
    return NEVER if text.startswith("never") else float(figure_in(text).replace(",", ""))


def figure_in(text: str) -> str:
    """The first number in a text, as it is printed."""
    found = re.search(r"[-+]?\d[\d,]*\.?\d*", text)
    if found is None:
        raise NoFigureError("the run gave no figure")
    return found[0]


@dataclass(frozen=True)
class Finding:
    """A claim of a paper, its published figures, and how a run answers: in words, and whether the claim holds.

    Without an answer it cannot be tried, and `why` says why; with one, `why` says what may make the difference, and
    `needs` which run has the figures.
    """

    claim: str
    published: str
    answer: Callable[[Figures], tuple[str, bool]] | None
    why: str = ""
    needs: str = ""

    def row(self, figures: Figures) -> tuple[Cell, ...]:
        """The row of the table of findings."""
        if self.answer is None:
            return self.claim, self.published, None, CANNOT, self.why
        try:
            ours, holds = self.answer(figures)
        except NoFigureError as error:
            return self.claim, self.published, None, CANNOT, "; ".join(filter(None, (str(error), self.needs)))
        return self.claim, self.published, ours, CAME_BACK if holds else DID_NOT, self.why or None


def findings_table(findings: Sequence[Finding], tables: Sequence[Table]) -> Table:
    """What came back, what did not, and what cannot be tried."""
    figures = Figures(tables)
    columns = ("finding", "published", "here", "verdict", "why")
    rows = tuple(finding.row(figures) for finding in findings)
    return Table("findings", "What came back of the paper's findings", columns, rows)


def falling(title: str, column: str, by: str, names: Sequence[str]) -> Callable[[Figures], tuple[str, bool]]:
    """Whether the figures of these rows fall from one to the next."""

    def answer(figures: Figures) -> tuple[str, bool]:
        found = [figure_in(figures.cell(title, column, **{by: name})) for name in names]
        return ", ".join(found), all(number_in(one) > number_in(other) for one, other in pairwise(found))

    return answer


def near(
    title: str, column: str, by: str, published: Mapping[str, float], within: float
) -> Callable[[Figures], tuple[str, bool]]:
    """Whether the figures of these rows are the published ones, give or take so much."""

    def answer(figures: Figures) -> tuple[str, bool]:
        found = {name: figure_in(figures.cell(title, column, **{by: name})) for name in published}
        holds = all(abs(number_in(found[name]) - value) <= within for name, value in published.items())
        return ", ".join(found.values()), holds

    return answer


def above_one(title: str, scheme: str) -> Callable[[Figures], tuple[str, bool]]:
    """Whether a scheme's median z-score is above that of binary."""

    def answer(figures: Figures) -> tuple[str, bool]:
        middle = figures.number(title, "median", scheme=scheme, whose="ours")
        return f"median {middle:.2f}", middle > 1

    return answer


def sooner(title: str, first: str, others: Sequence[str]) -> Callable[[Figures], tuple[str, bool]]:
    """Whether one method needs no more queries than any other on every pair but the easy ones."""

    def answer(figures: Figures) -> tuple[str, bool]:
        easy = {row["pair"] for row in figures.rows("Table 4:") if row["chosen as"].startswith("easy")}
        rows = [row for row in figures.rows(title) if row["pair"] not in easy]
        best = sum(number_in(row[first]) <= min(number_in(row[other]) for other in others) for row in rows)
        return f"on {best} of {len(rows)} pairs that are not easy", best == len(rows)

    return answer


def data_ratios(figures: Figures) -> tuple[str, bool]:
    """C12's Table X: on which side of 1 each ratio lies that could be computed."""
    rows = figures.rows("Table X: data ratio of Clicks@1 to interleaving, pairs like Yahoo's")
    known = [row for row in rows if row["balanced n'/n''"] != "-"]
    if not known:
        raise NoFigureError("Clicks@1 is no better than a coin on every pair")
    sides = [(number_in(row["balanced n'/n''"]) > 1) == (number_in(row["published n'/n''"]) > 1) for row in known]
    said = f"{sum(sides)} on the same side of 1, {len(sides) - sum(sides)} not"
    return f"{said}, {len(rows) - len(known)} without a ratio", all(sides)


def judged_worth(figures: Figures) -> tuple[str, bool]:
    """C12's Figure 7: clicked queries that are worth a judged one, in the median over pairs."""
    rows = [row for row in figures.rows("Figure 7:") if row["judged by"] == "NDCG@5" and row["balanced, binary"] != "-"]
    middle = median(number_in(row["balanced, binary"]) for row in rows)
    return f"median {middle:.1f} over {len(rows)} pairs", 5 <= middle <= 20


def verdicts(title: str) -> Callable[[Figures], tuple[str, bool]]:
    """Whether balanced interleaving is right, and sure, on all six pairs."""

    def answer(figures: Figures) -> tuple[str, bool]:
        weak = figures.cell(title, "ours: weak", metric="Balanced interleaving")
        sure = figures.cell(title, "ours: significant", metric="Balanced interleaving")
        return f"{weak}, {sure} sure", weak == sure == "6 / 0"

    return answer


def no_metric_is_as_good(figures: Figures) -> tuple[str, bool]:
    """C12's Table IX: absolute metrics that are right on all pairs, significantly."""
    rows = figures.rows("Table IX:")
    metrics = [row for row in rows if row["metric"] not in ("Balanced interleaving", "Team draft")]
    good = [row["metric"] for row in metrics if row["ours: significant"] == "6 / 0"]
    return ", ".join(good) or "none is", not good


def transitive(figures: Figures) -> tuple[str, bool]:
    """C12's Table IV."""
    rows = figures.rows("Table IV:")
    holds = sum(row["AC at least AB and BC"] == "yes" for row in rows)
    return f"in {holds} of {len(rows)} triples", holds == len(rows)


def same_signs(figures: Figures) -> tuple[str, bool]:
    """C12's Figures 2 and 3: pairs on which interleaving and judges agree."""
    rows = [row for row in figures.rows("Table III:") if row["judged by"] == "NDCG@5"]
    said = [row["same sign"] for row in rows]
    return ", ".join(said), all(text == "6 of 6" for text in said)


def steady(row: str, rising: bool) -> Callable[[Figures], tuple[str, bool]]:
    """Whether an estimator's accuracy changed after the first thousand impressions by more than chance."""

    def answer(figures: Figures) -> tuple[str, bool]:
        points = figures.number("Differences of accuracy", "points", of=row)
        error = figures.number("Differences of accuracy", "standard error", of=row)
        return f"{points:+.1f} points, standard error {error:.1f}", (points > 2 * error) == rising

    return answer


def significance(world: str, before: bool) -> Callable[[Figures], tuple[str, bool]]:
    """H12c's Table 9: in most worlds significant before weighting, or only after it."""

    def answer(figures: Figures) -> tuple[str, bool]:
        row = {"world": world, "judged": "yes", "scored_by": "team_draft"}
        cells = [figures.cell("Scores around .5", column, **row) for column in ("as clicked", "captions alike")]
        counts = [re.search(r"\((\d+) of (\d+)\)", cell) for cell in cells]
        shares = [int(count[1]) / int(count[2]) for count in counts if count]
        holds = (shares[0] > 0.5) == before and (shares[1] > 0.5) != before
        return f"{cells[0]}, then {cells[1]}", holds

    return answer


def weight_sign(feature: str, model: str, positive: bool) -> Callable[[Figures], tuple[str, bool]]:
    """Whether a weight of captions has the published sign."""

    def answer(figures: Figures) -> tuple[str, bool]:
        weight = figures.number("Weights of captions", model, feature=feature)
        return f"{model} {weight:+.3f}", (weight > 0) == positive

    return answer


def reached(title: str, method: str, expected: bool = True) -> Callable[[Figures], tuple[str, bool]]:
    """Whether the error of five rankers under noisy clicks falls to a tenth, as expected."""

    def answer(figures: Figures) -> tuple[str, bool]:
        row = {"rankers": "5", "clicks": "informational", "method": method}
        point = figures.cell(title, "impressions to 0.1", **row)
        left = next(name for name in figures.rows(title)[0] if name.startswith("at "))
        said = "never" if point == "-" else f"after {point} impressions"
        return f"{figures.cell(title, left, **row)} at the end; below .1 {said}", (point != "-") == expected

    return answer


def smallest(title: str, clicks: str, tolerance: float = 0.0) -> Callable[[Figures], tuple[str, bool]]:
    """O17: whether PPM has the smallest error of all methods, give or take."""

    def answer(figures: Figures) -> tuple[str, bool]:
        row = next(row for row in figures.rows(title) if row["clicks"] == clicks)
        errors = {name: number_in(row[name]) for name in ("TDM", "OM", "PM", "SOSM", "PPM")}
        said = ", ".join(f"{name} {error:.3f}" for name, error in errors.items())
        return said, errors["PPM"] <= min(errors.values()) + tolerance

    return answer


def published_in_reach(title: str) -> Callable[[Figures], tuple[str, bool]]:
    """O17: published means that lie within a standard deviation of ours."""

    def answer(figures: Figures) -> tuple[str, bool]:
        inside, rows = [], figures.rows(title)
        for ours, theirs in pairwise(rows):
            if theirs[""].startswith("published"):
                for name in ("TDM", "OM", "PM", "SOSM", "PPM"):
                    mean, deviation = map(float, ours[name].rstrip(")").split(" ("))
                    inside.append(abs(number_in(theirs[name]) - mean) <= deviation)
        if not inside:
            raise NoFigureError("nothing is published for this set")
        return f"{sum(inside)} of {len(inside)} cells within a standard deviation", all(inside)

    return answer


def never_worse(figures: Figures) -> tuple[str, bool]:
    """O17: whether some method beats PPM at p below .05."""
    rows = figures.rows("Two-tailed t-tests")
    worse = [row for row in rows for cell in list(row.values())[2:] if cell.endswith(">") and number_in(cell) < 0.05]
    return f"{len(worse)} significant losses", not worse


def systematic(method: str) -> Callable[[Figures], tuple[str, bool]]:
    """H11: whether a method errs on some rankers more often than chance."""

    def answer(figures: Figures) -> tuple[str, bool]:
        flagged = int(figures.number("Systematic errors", "rankers", method=method))
        return f"{flagged} rankers", flagged > 0

    return answer


_LEARNED, _WAY = "Figures 8 and 9", "as published"


def learned(credit: str) -> Callable[[Figures], tuple[str, bool]]:
    """C12, section 10: whether most experiments are decided more clearly by credit learned elsewhere."""

    def answer(figures: Figures) -> tuple[str, bool]:
        cell = figures.cell(_LEARNED, "more clearly", credit=credit, whose=_WAY)
        better, _, number = cell.partition(" of ")
        return cell, int(better) > int(number) / 2

    return answer


def learned_gains(published: Sequence[float]) -> Callable[[Figures], tuple[str, bool]]:
    """C12, section 10: whether the median gains are the published ones, give or take a tenth."""

    def answer(figures: Figures) -> tuple[str, bool]:
        found = [number_in(row["median relative z"]) for row in figures.rows(_LEARNED) if row["whose"] == _WAY]
        holds = all(abs(ours - theirs) <= 0.1 for ours, theirs in zip(found, published, strict=True))
        return ", ".join(f"{ours:.2f}" for ours in found), holds

    return answer
