"""Whether a change of the source leaves every number as it was: record the numbers before and after, then compare.

    python -m tests.support.compare_numbers record before.json [--studies]
    python -m tests.support.compare_numbers record after.json [--studies]
    python -m tests.support.compare_numbers compare before.json after.json

The numbers are 44 reports (all methods, 2 to 12 rankers, arms, sessions, segments, schemes, looks), learned
credit, a caption diagnosis, an estimate from an old log, and the lists of 1,000 keys for every method; with --studies
also the tables of every quick study.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import interleaf
from interleaf import simulate
from interleaf.caption_bias import caption
from interleaf.cli import main as interleaf_command
from interleaf.click_value import learn
from interleaf.counterfactual import reuse
from interleaf.methods.registry import METHODS
from interleaf.studies import STUDIES

KEYS = 1_000
DATA = simulate.synthetic(queries=60, documents=12, features=12, seed=5)
MANY = ("team_draft", "probabilistic", "pairwise_preference", "sample_scored_only")


def log_of(method: str, rankers: int, seed: int, attraction: float = 0.0) -> Any:
    """A simulated log; with captions that attract people, if they do."""
    people = simulate.People(units=150, caption_strength=attraction)
    world = simulate.World(DATA, list(range(1, rankers + 1)), people, method, seed=seed)
    return next(iter(world.batches(units=150, threads=1, captions=attraction > 0, rankings=True)))


def reports() -> Iterator[tuple[str, dict[str, Any]]]:
    """Reports as plain data, by what they are of."""
    for method, row in METHODS.items():
        if not row.schemes:
            continue
        log = log_of(method, 2, 1)
        for scheme in row.schemes:
            yield f"{method} by {scheme}", interleaf.analyze(log, scheme).to_dict()
    for method in MANY:
        for rankers in (3, 5, 12):
            yield f"{method}, {rankers} rankers", interleaf.analyze(log_of(method, rankers, 2)).to_dict()
    log = log_of("team_draft", 2, 3)
    ways: dict[str, dict[str, Any]] = {
        "one look": {"look": (1, 1)},
        "look 2 of 5": {"look": (2, 5), "planned_units": 400},
        "a plan": {"planned_units": 300},
        "a control": {"control": "B"},
        "sessions": {"sessions": 1800},
        "segments": {"by": ["device"]},
        "an A/A test": {"aa": True},
        "first events": {"first": True, "window": 3600},
        "queries": {"cluster": "unit_and_query"},
    }
    for name, options in ways.items():
        yield name, interleaf.analyze(log, **options).to_dict()
    lesson = learn(log_of("team_draft", 2, 4), {"simulated": "A"}, resamples=20)
    yield "learned credit", json.loads(json.dumps(lesson.to_dict(), default=str))
    captions = log_of("team_draft", 2, 5, attraction=1.0)
    yield "captions", json.loads(json.dumps(caption(captions).to_dict(), default=str))
    old = log_of("probabilistic", 2, 6)
    yield "an old log", json.loads(json.dumps(reuse(old, {"A": None, "B": None}).to_dict(), default=str))


def lists() -> Iterator[tuple[str, list[Any]]]:
    """The lists of many keys for every method."""
    rankings = {"A": list("abcdefgh"), "B": list("badcfehg"), "C": list("hgfedcba")}
    for method, row in METHODS.items():
        used = dict(list(rankings.items())[: 3 if method in MANY else row.rankers[0]])
        drawn = (interleaf.interleave(used, method, key=("compare", number)) for number in range(KEYS))
        yield method, ["".join(map(str, one.documents)) for one in drawn]


def studies() -> Iterator[tuple[str, dict[str, str]]]:
    """The tables of every quick study, as files."""
    for study in STUDIES:
        with tempfile.TemporaryDirectory() as folder:
            interleaf_command(["reproduce", study, "--out", folder, "--fresh"])
            yield study, {path.name: path.read_text() for path in sorted(Path(folder).rglob("*.csv"))}


def record(path: str, with_studies: bool) -> None:
    """Write all numbers to a file."""
    found: dict[str, Any] = {"reports": dict(reports()), "lists": dict(lists())}
    if with_studies:
        found["studies"] = dict(studies())
    Path(path).write_text(json.dumps(found, indent=1, sort_keys=True))


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Where two records differ: in a number, a list, or a study. Texts may change, and fields may be added."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name not in after:
                yield f"{where}/{name} is gone"
            else:
                yield from differences(value, after[name], f"{where}/{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{where}[{place}]")
    elif before != after and not (isinstance(before, str) and isinstance(after, str) and "/reports/" in where):
        yield f"{where}: {before!r} became {after!r}"


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record")
    recording.add_argument("path")
    recording.add_argument("--studies", action="store_true")
    comparing = verbs.add_parser("compare")
    comparing.add_argument("before")
    comparing.add_argument("after")
    given = parser.parse_args()
    if given.verb == "record":
        record(given.path, given.studies)
        return 0
    found = list(differences(*(json.loads(Path(path).read_text()) for path in (given.before, given.after))))
    print("\n".join(found[:100]) or "every number is the same")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
