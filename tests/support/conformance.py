"""What every row of the table of methods must keep; `complaints` lists what a row does not keep.

A claim must be proved in every world of the audit; what is not claimed must be refuted by a counterexample whose lists
and probabilities are those of `audit.distribution`; and a click must speak for whoever has its document on top.
"""

import fcntl
import os
import pickle
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction
from functools import cache
from itertools import permutations
from pathlib import Path

from interleaf import audit
from interleaf.audit import Counterexample, MethodAudit, PropertyVerdict, check
from interleaf.audit.overview import variants
from interleaf.audit.properties import Progress
from interleaf.audit.worlds import Shown
from interleaf.methods.registry import METHODS, Claims, Method
from tests.support.code_of import code_of

KNOWN = {text for row in METHODS.values() for text in variants(row)}  # not the methods that tests add
ROWS = dict(METHODS)  # as they are, whatever a test puts in their place
SWAPPED = (("a", "b"), ("b", "a"))


@cache
def _code() -> str:
    """All that an audit may depend on; methods are imported by their names in the table."""
    return code_of("interleaf.audit", "interleaf.methods")


@cache
def _checked(spec: str, row: Method) -> MethodAudit:
    if spec not in KNOWN or row is not ROWS[row.name]:
        return check(spec)
    folder = Path(tempfile.gettempdir()) / f"interleaf-audit-{os.getuid()}-{_code()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.utime(folder)
    for other in folder.parent.glob("interleaf-audit-*"):  # of other code
        if other.stat().st_mtime < time.time() - 86_400:
            shutil.rmtree(other, ignore_errors=True)
    file = folder / spec
    with (folder / f"{spec}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            made = folder / f"{spec}.made"
            made.write_bytes(pickle.dumps(check(spec)))
            made.rename(file)  # whole, or not there
    found = pickle.loads(file.read_bytes())
    assert isinstance(found, MethodAudit)
    return found


def checked(spec: str) -> MethodAudit:
    """What the audit finds, once for the same code: processes and runs share it, because some take half a minute."""
    return _checked(spec, METHODS[spec.partition("(")[0]])


def check_once(method: str, progress: Progress | None = None, max_worlds: int | None = None) -> MethodAudit:
    """`audit.check` where other tests have done the same: the whole audit of a method of the table is `checked`."""
    return checked(method) if method in KNOWN and max_worlds is None else check(method, progress, max_worlds)


def complaints(name: str) -> list[str]:
    """Everything in which a row of the table and the audit of its kernels disagree, the property first."""
    claims, found = METHODS[name].claims, checked(name)
    wrong = [
        f"{field.name}: claimed {getattr(claims, field.name)}, found {getattr(found.claims, field.name)}"
        for field in fields(Claims)
        if getattr(claims, field.name) is not getattr(found.claims, field.name)
    ]
    for what, verdict in verdicts(found):
        wrong += [f"{what}: {text}" for text in faults(verdict, name, what.partition(" ")[0])]
    return [*wrong, *_misdirected(name)]


def verdicts(found: MethodAudit) -> Iterator[tuple[str, PropertyVerdict]]:
    """Every verdict of a check, by property and scheme."""
    yield "considerate", found.considerate
    yield "reusable", found.reusable
    yield from ((f"fair {scheme}", verdict) for scheme, verdict in found.fair.items())
    yield from ((f"pareto {scheme}", verdict) for scheme, verdict in found.pareto.items())
    yield "pareto at the cut", found.pareto_at_cut
    yield from ((f"fair sign {scheme}", verdict) for scheme, verdict in found.sign.items())
    yield from ((f"{name.partition(':')[0]} lift", verdict) for name, verdict in found.lift.items())
    yield from ((f"averages {scheme}", verdict) for scheme, verdict in found.averages.items())


def faults(verdict: PropertyVerdict, name: str, about: str) -> list[str]:
    """Why a verdict proves nothing: it looked at nothing, or its evidence is not what the kernels do."""
    if verdict.holds is None:
        return [] if verdict.note and not verdict.refuted else ["without meaning, and without a reason"]
    if verdict.holds:
        sound = verdict.worlds > 0 and not verdict.refuted and verdict.counterexample is None
        return [] if sound else ["proved by nothing"]
    example = verdict.counterexample
    if example is None or not verdict.refuted or example.world != verdict.refuted[0]:
        return ["refuted without its smallest counterexample"]
    return _recomputed(example, name, about)


def _recomputed(example: Counterexample, name: str, about: str) -> list[str]:
    world = example.world
    real = audit.distribution(world.rankings, name, world.k)
    merged: dict[Shown, Fraction] = {}
    with_teams = example.lines[0].shown[1] is not None
    for (documents, teams), probability in real.items():
        shown = documents, teams if with_teams else None
        merged[shown] = merged.get(shown, Fraction(0)) + probability
    told = {line.shown: line.probability for line in example.lines}
    lengths = {len(documents) for documents, _ in told}
    if about == "considerate":
        expected = {shown: merged.get(shown) for shown in told}
    else:
        expected = {shown: merged[shown] for shown in merged if len(shown[0]) in lengths}
    wrong = [] if told == expected else ["the counterexample's lists are not those that are shown"]
    return wrong if _refutes(example, about) else [*wrong, "the counterexample is none"]


def _refutes(example: Counterexample, about: str) -> bool:
    """Whether the lines of a counterexample, added up, speak against the property."""
    world = example.world
    lists = {documents for documents, _ in (line.shown for line in example.lines)}
    if about == "considerate":
        (documents,) = lists
        return any(world.best_rank(str(d)) > rank for rank, d in enumerate(documents, 1))
    if about == "reusable":
        return not lists.issuperset(permutations(world.documents, world.k))
    said = [(line.probability, line.preference) for line in example.lines]
    total = sum((p * preference for p, preference in said if preference is not None), Fraction(0))
    if not all(preference is not None for _, preference in said) or f": {total}," not in example.conclusion:
        return False
    if about == "faithful":
        return not example.conclusion.endswith(f", {total}")
    return total != 0 if about == "fair" else total <= 0


def _misdirected(name: str) -> Iterator[str]:
    """A against B on (a, b) and (b, a), where only a is ever clicked: A must win somewhere, and lose nowhere."""
    for scheme in METHODS[name].schemes:
        expected = [
            audit.expectation(SWAPPED, name, k, lambda rank, document: document == "a", scheme)[0, 1] for k in (1, 2)
        ]
        if min(expected) < 0 or max(expected) <= 0:
            yield f"direction: {scheme} gives {' and '.join(map(str, expected))} for the clicked document on top"
