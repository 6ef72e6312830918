"""The section of a report with its guardrails."""

from __future__ import annotations

from interleaf.report.format import Names, format_signed, span
from interleaf.report.model import GuardrailCode, ReportData
from interleaf.report.sections import Grid, Section, explain_missing, interval_name, write

GUARDRAIL_MARKS: dict[str, str] = {
    GuardrailCode.OK: "✓ ok",
    GuardrailCode.BROKEN: "✗ broken",
    GuardrailCode.UNDECIDED: "○ undecided",
    GuardrailCode.UNKNOWN: "○ unknown",
}
WORDS = (
    "Harm is the difference between an arm and the one that it is compared with, above 0 if the arm is worse. A "
    "guardrail is ok if the whole interval is below the margin, and broken if it is above. Each interval holds for its "
    "guardrail alone, and the preference between the rankers does not depend on it.",
)


def guardrails(report: ReportData, names: Names) -> Section | None:
    """Every guardrail with its harm, interval and margin."""
    if not report.guardrails:
        return None
    columns = ("value", "compared", "harm", interval_name(report), "margin")
    grid = Grid("guardrails", "", ("status", "guardrail", "arm", "against"), columns)
    for one in report.guardrails:
        arm, base = (None if name is None else names[name] for name in (one.arm, one.base))
        values = (write(lambda value: f"{value:.4g}", value) for value in (one.value, one.base_value))
        figures = *values, write(format_signed, one.harm), write(span, one.interval), f"{one.margin:g}"
        label = names[one.metric] if arm is None else f"{names[one.metric]} of {arm}"
        mark = GUARDRAIL_MARKS.get(one.code, one.code)  # a later version may have other codes
        grid.add(label, mark, names[one.metric], arm, base, *figures, reason=one.reason)
    reasons = tuple(map(names.within, explain_missing(grid.missing)))
    return Section("guardrails", "Guardrails", WORDS, (grid.table(),), reasons)
