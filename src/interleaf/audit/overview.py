"""The table of properties over all methods (O17's Table 1, extended), with the counterexamples as footnotes.

Each parameter choice that is not the default is audited, too; it gets a row if it changes an answer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import Any

from interleaf.audit.properties import MethodAudit, Progress, check
from interleaf.audit.worlds import PropertyVerdict
from interleaf.methods.registry import METHODS, Method, resolve
from interleaf.tables import Table

MARKS = {True: "yes", False: "no", None: "-"}


@dataclass(frozen=True)
class Overview:
    """The results of the audit by method, and where they contradict the claims in the table of methods."""

    checks: tuple[MethodAudit, ...]

    @property
    def contradictions(self) -> list[str]:
        """Methods whose claims in the table of methods differ from the results of the audit."""
        rows = {row.name: row for row in METHODS.values()}
        return [c.method for c in self.checks if c.method in rows and rows[c.method].claims != c.claims]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the answers, and each counterexample as text."""
        return {"methods": [_plain(check) for check in self.checks], "contradictions": self.contradictions}

    def __str__(self) -> str:
        notes: list[str] = []
        header = ("method", "considerate", "fair", "Pareto", "reusable", "source")
        table = Table("methods", "", header, tuple(tuple(_row(check, notes)) for check in self.checks))
        return "\n".join([str(table), "", _LEGEND, "", *notes])


_LEGEND = """\
considerate: no document is shown above the best rank any ranker gave it
fair:        clicks that depend on the rank only prefer nobody, on average over the lists that the method draws
Pareto:      a ranker with every relevant document at least as high as all others, and one higher, is preferred
reusable:    every list can be shown, so old logs can be reweighted
Proved by running the production code on all small cases of rankings (Pareto: for several ways to click);
[n]: the smallest counterexample, below."""


def overview(progress: Progress | None = None) -> Overview:
    """Audit every method, and every parameter choice that changes an answer, on all cores."""
    texts = [text for row in METHODS.values() for text in variants(row)]
    texts.sort(key=lambda text: resolve(text).method.whole_rankings, reverse=True)  # the slow ones first
    audits: dict[str, MethodAudit] = {}
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        tasks = {pool.submit(check, text): text for text in texts}
        for task in as_completed(tasks):
            audits[tasks[task]] = task.result()
            if progress is not None:
                progress(len(audits), len(texts))
    return overview_of(audits)


def overview_of(audits: Mapping[str, MethodAudit]) -> Overview:
    """The table of audits by method text, without variants that do not change an answer."""
    rows = [(row.name, text) for row in METHODS.values() for text in variants(row)]
    return Overview(tuple(audits[t] for name, t in rows if t == name or audits[t].claims != audits[name].claims))


def variants(row: Method) -> list[str]:
    """The method with its defaults, then with each other parameter choice."""
    changed = [f"{row.name}({p.name}={choice})" for p in row.parameters for choice in p.choices if choice != p.default]
    return [row.name, *(resolve(text).text for text in changed)]


def _row(check: MethodAudit, notes: list[str]) -> Iterator[str]:
    claims = check.claims
    yield check.method
    yield _mark(claims.considerate, "considerate", check, {"": check.considerate}, notes)
    signs = {f"fair sign of the score (so {name} is not offered)": one for name, one in check.sign.items()}
    yield _mark(claims.fair, "fair", check, check.fair, notes, signs)
    at_cut = "Pareto-faithful if people may click on the last shown rank"
    yield _mark(claims.pareto, "Pareto-faithful", check, check.pareto, notes, {at_cut: check.pareto_at_cut})
    yield MARKS[claims.reusable]
    yield resolve(check.method).method.paper


def _mark(
    holds: bool | None,
    what: str,
    check: MethodAudit,
    verdicts: Mapping[str, PropertyVerdict],
    notes: list[str],
    limits: Mapping[str, PropertyVerdict] | None = None,
) -> str:
    """The answer; a no has a footnote, and so has a yes with a limitation."""
    if holds is False:
        scheme, verdict = next((name, verdict) for name, verdict in verdicts.items() if not verdict.holds)
        of_scheme = f" ({scheme})" if scheme else ""
        return f"no [{_note(notes, f'{check.method}, {what}{of_scheme}: {verdict}')}]"
    if holds:
        for limit, verdict in (limits or {}).items():
            if verdict.holds is False:
                return f"yes [{_note(notes, f'{check.method}, {limit}: {verdict}')}]"
    return MARKS[holds]


def _note(notes: list[str], text: str) -> int:
    """The number of a footnote; a variant that fails in the same way as its method shares the method's footnote."""
    for number, note in enumerate(notes, 1):
        if note.partition(", ")[2] == text.partition(", ")[2]:
            return number
    notes.append(f"[{len(notes) + 1}] {text}")
    return len(notes)


def _plain(check: MethodAudit) -> dict[str, Any]:
    def verdict(one: PropertyVerdict) -> dict[str, Any]:
        return {"holds": one.holds, "worlds": one.worlds, "refuted": len(one.refuted),
                "counterexample": one.counterexample and str(one.counterexample), "note": one.note or None}  # fmt: skip

    return {
        "method": check.method,
        "claims": asdict(check.claims),
        "considerate": verdict(check.considerate),
        "fair": {name: verdict(one) for name, one in check.fair.items()},
        "pareto": {name: verdict(one) for name, one in check.pareto.items()},
        "pareto_at_cut": verdict(check.pareto_at_cut),
        "sign": {name: verdict(one) for name, one in check.sign.items()},
        "averages": {name: verdict(one) for name, one in check.averages.items()},
        "lift": {name: verdict(one) for name, one in check.lift.items()},
        "reusable": verdict(check.reusable),
    }
