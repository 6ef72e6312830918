"""How often health checks catch a fault, and how often they fail a sound log: `python -m benchmarks.checks`.

people, rankings, lists and clicks (faulty_logs.py) ──▶ a fault ──▶ a log as documented ──▶ `interleaf.analyze`
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import interleaf
from benchmarks.faulty_logs import (
    Fault,
    People,
    ab_arms,
    bots,
    copied,
    dead_tracker,
    flipped,
    fresh_ids,
    longer_texts,
    lost_clicks,
    none,
    shuffled,
    sound,
    swapped_teams,
    table,
    too_deep,
    unfair_segment,
)
from interleaf.report.model import FAILED, WARNING
from interleaf.report.report import Report
from interleaf.tables import Table

RUNS = 10
PEOPLE = People()
SOUND: dict[str, tuple[People, Fault]] = {
    "1,000 people, equal rankers": (PEOPLE, none),
    "300 people": (replace(PEOPLE, units=300), none),
    "one ranker much better": (replace(PEOPLE, noise=2.0, edge=0.9), none),
    "few with most visits": (replace(PEOPLE, units=600, tail=1.05, most=1000), none),
    "one visit each": (replace(PEOPLE, units=3000, tail=0.0), none),
    "few clicks": (replace(PEOPLE, clicks=0.05), none),
    "all ranks read alike": (replace(PEOPLE, decay=0.0, clicks=0.2), none),
    "people with tastes": (replace(PEOPLE, taste=1.0), none),
    "heavy users with another taste": (replace(PEOPLE, heavy_taste=0.7), none),
    "no click, another query": (replace(PEOPLE, again=0.8), none),
    "one query asks it all": (replace(PEOPLE, queries=1), none),
    "A/B arms beside, equal": (PEOPLE, ab_arms(0.5)),
}
FAULTS: dict[str, tuple[People, Fault, str]] = {
    "all clicks of one ranker lost": (PEOPLE, lost_clicks(1.0), "clicks_by_ranker"),
    "half of its clicks lost": (PEOPLE, lost_clicks(0.5), "clicks_by_ranker"),
    "half lost, 5,000 people": (replace(PEOPLE, units=5000), lost_clicks(0.5), "clicks_by_ranker"),
    "a quarter lost, 5,000 people": (replace(PEOPLE, units=5000), lost_clicks(0.25), "clicks_by_ranker"),
    "half lost, rankers that differ much": (replace(PEOPLE, noise=3.0), lost_clicks(0.5), "clicks_by_ranker"),
    "one query makes the difference": (PEOPLE, lost_clicks(1.0, query=0), "holds_without_query"),
    "clicks one rank too deep": (PEOPLE, too_deep, "clicks_by_rank"),
    "lists logged in another order": (PEOPLE, shuffled(1.0), "possible_lists"),
    "5 % of lists in another order": (PEOPLE, shuffled(0.05), "possible_lists"),
    "teams the other way round": (PEOPLE, swapped_teams(1.0), "possible_lists"),
    "5 % of lists with such teams": (PEOPLE, swapped_teams(0.05), "possible_lists"),
    "click tracker dead for a day": (PEOPLE, dead_tracker(24), "events_over_time"),
    "dead for 6 hours": (PEOPLE, dead_tracker(6), "events_over_time"),
    "rankers exchanged midway": (replace(PEOPLE, noise=1.0, edge=0.8, units=3000), flipped, "effect_over_time"),
    "A/B arms 60 to 40": (PEOPLE, ab_arms(0.4), "ab_split"),
    "A/B arms 55 to 45": (PEOPLE, ab_arms(0.45), "ab_split"),
    "a new id at each visit": (PEOPLE, fresh_ids, "units_come_back"),
    "20 % bots that come once": (PEOPLE, bots(0.2), "units_once"),
    "5 % bots that come once": (PEOPLE, bots(0.05), "units_once"),
    "bots that click like people": (PEOPLE, bots(0.2, 0.55), "units_once"),
    "texts of one ranker a third longer": (PEOPLE, longer_texts(1.33), "passage_lengths"),
    "5 % of rows again, other ids": (PEOPLE, copied(0.05), "repeated_content"),
    "half of such lists lost in a segment": (PEOPLE, unfair_segment(0.5), "fair_segments"),
    "20 % lost in a segment": (PEOPLE, unfair_segment(0.2), "fair_segments"),
}


def analyzed(people: People, fault: Fault, seed: int) -> Report:
    """The report of one log."""
    chance = np.random.default_rng([seed, 7])
    return interleaf.analyze(table(fault(sound(people, chance), chance), people), by=["device"])


def alarms(people: People, fault: Fault, runs: int) -> tuple[Counter[str], Counter[str], int]:
    """Of sound logs: failed checks and warnings by code, and how many logs have a failed check."""
    failed, warned, any_failed = Counter[str](), Counter[str](), 0
    for seed in range(runs):
        health = analyzed(people, fault, seed).health
        failed.update({check.code for check in health if check.status == FAILED})
        warned.update({check.code for check in health if check.status == WARNING})
        any_failed += any(check.status == FAILED for check in health)
    return failed, warned, any_failed


def caught(people: People, fault: Fault, code: str, runs: int) -> Counter[str]:
    """Of logs with a fault: how often its check has each status, and how often the verdict is not trusted."""
    counts: Counter[str] = Counter()
    for seed in range(runs):
        report = analyzed(people, fault, seed)
        counts.update(check.status for check in report.health if check.code == code)
        counts["any"] += not report.verdict.trusted
    return counts


def false_alarms(runs: int) -> Iterator[tuple[str, ...]]:
    """Sound logs: how many have a failed check, and which."""
    total: Counter[str] = Counter()
    for name, (people, fault) in SOUND.items():
        failed, warned, any_failed = alarms(people, fault, runs)
        total["failed"] += any_failed
        yield name, f"{any_failed} of {runs}", told(failed), told(warned)
    yield "all of them", f"{total['failed']} of {runs * len(SOUND)}", "", ""


def told(counter: Counter[str]) -> str:
    return ", ".join(f"{code} {number}" for code, number in counter.most_common())


def power(runs: int) -> Iterator[tuple[str, ...]]:
    """Logs with a fault: how often its check fails, warns, or any check fails; and false winners that are trusted."""
    for name, (people, fault, code) in FAULTS.items():
        counts = caught(people, fault, code, runs)
        yield name, code, *(f"{counts[key]} of {runs}" for key in (FAILED, WARNING, "any"))


def main(runs: int) -> None:
    """Print both tables."""
    print(f"{runs} logs of each kind")
    alarms = ("sound log", "a check failed", "which", "warnings")
    print(Table("alarms", "", alarms, tuple(false_alarms(runs))), end="\n\n", flush=True)
    faults = ("fault", "check", "failed", "warned", "a check failed")
    print(Table("power", "", faults, tuple(power(runs))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help=f"logs of each kind ({RUNS})")
    main(parser.parse_args().runs)
