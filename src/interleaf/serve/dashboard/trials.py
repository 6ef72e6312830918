"""What a set-up on trial should show, and whether it does: A/A, known loser, holdout."""

from __future__ import annotations

from dataclasses import dataclass

from interleaf.experiment import Experiment
from interleaf.experiment.settings import AA, LOSER, RELABELLED
from interleaf.render.figures import Names, share
from interleaf.report.record import FAILED, WARNING
from interleaf.report.report import Report


@dataclass(frozen=True)
class Trial:
    """A mode, what it should show, and what it shows so far."""

    title: str
    should: str
    shows: str


def trials(settings: Experiment, report: Report | None) -> tuple[Trial, ...]:
    """Those that are on."""
    found = []
    if settings.mode in (AA, RELABELLED):
        found.append(_alike(settings, report))
    if settings.mode == LOSER:
        found.append(_loser(settings, report))
    if settings.holdout:
        found.append(
            Trial(
                "Holdout",
                f"{share(settings.holdout)} of the units see the control's list unchanged. Interleaved units should "
                "fare no worse than they, unless a candidate is worse than the control: otherwise interleaving itself "
                "hurts, by its latency or by how lists are shown.",
                _held_out(report),
            )
        )
    return tuple(found)


def _held_out(report: Report | None) -> str:
    wrong = [] if report is None else [check for check in report.health if check.status in (WARNING, FAILED)]
    said = [f"{check.name}: {check.figure}." for check in wrong if "holdout" in check.name.lower()]
    return " ".join(said) or "So far no check on the holdout is amiss."


def _alike(settings: Experiment, report: Report | None) -> Trial:
    how = (
        "Every ranker is given the control's ranking"
        if settings.mode == AA
        else "The names of the rankers are swapped by a coin for each unit"
    )
    title = "A/A" if settings.mode == AA else "Relabelled A/A"
    should = (
        f"{how}, so that there is nothing to prefer: no winner should be shown, and the check named A/A should be "
        "fine. If it fails, do not trust other comparisons of this set-up."
    )
    if report is None:
        return Trial(title, should, "There is nothing to see yet.")
    failed = any(pair.winner is not None for pair in report.comparisons)
    shows = "A difference is shown where there should be none." if failed else "So far it shows no difference."
    return Trial(title, should, shows)


def _loser(settings: Experiment, report: Report | None) -> Trial:
    control = Names(settings.rankers)[settings.control]
    should = (
        f"Every ranker but {control} shows {control}'s first page upside down: {control} should win, and soon. If it "
        "does not by the planned size, clicks are lost, or they reach the wrong list."
    )
    if report is None:
        return Trial("Known loser", should, "There is nothing to see yet.")
    won = report.verdict.winner == settings.control
    lost = any(pair.winner not in (None, settings.control) for pair in report.comparisons)
    shows = f"{control} wins, as it should." if won else f"So far {control} has not won."
    return Trial("Known loser", should, "The ranker that is worse by design is preferred." if lost else shows)
