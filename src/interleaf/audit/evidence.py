"""What an audit says: a verdict on a property, and a counterexample that a person can follow by hand."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from interleaf.audit.enumerate import Shown
from interleaf.audit.worlds import World
from interleaf.problem import letter


@dataclass(frozen=True)
class Line:
    """One list that can be shown, how likely, and what the clicks on it say of the pair in question."""

    shown: Shown
    probability: Fraction
    preference: Fraction | None = None

    def __str__(self) -> str:
        documents, teams = self.shown
        owners = [""] * len(documents) if teams is None else [f"({letter(t) if t >= 0 else '-'})" for t in teams]
        text = f"  {self.probability!s:>7}  {' '.join(d + o for d, o in zip(map(str, documents), owners, strict=True))}"
        return text if self.preference is None else f"{text}   {self.preference}"


@dataclass(frozen=True)
class Counterexample:
    """Rankings for which a property fails, with every list, and the sum that should have come out otherwise."""

    world: World
    what: str
    lines: tuple[Line, ...]
    conclusion: str

    def __str__(self) -> str:
        rankings = "   ".join(f"{letter(i)} = {' '.join(r) or '(empty)'}" for i, r in enumerate(self.world.rankings))
        return "\n".join([f"{rankings}   k = {self.world.k}", self.what, *map(str, self.lines), self.conclusion])


@dataclass(frozen=True)
class Verdict:
    """Whether a property holds in all of the world; None: it has no meaning for the method.

    `worlds` were looked at, it fails in `refuted`, and `counterexample` is the smallest; `note` says what the verdict
    alone would hide.
    """

    holds: bool | None
    worlds: int
    refuted: tuple[World, ...] = ()
    counterexample: Counterexample | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.holds is None:
            return f"no meaning here: {self.note}"
        answer = f"proved in all {self.worlds} worlds"
        if not self.holds:
            answer = f"no, it fails in {len(self.refuted)} of {self.worlds} worlds; the smallest:"
        details = "" if self.counterexample is None else "\n" + _indented(str(self.counterexample))
        return answer + details + (f"\n    ({self.note})" if self.note else "")


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.split("\n"))
