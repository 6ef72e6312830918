"""All health checks of a report. To add one, declare a function with its code in a module of checks."""

from __future__ import annotations

from interleaf.report import effect_checks, list_checks, log_checks, traffic_checks
from interleaf.report.codes import CheckCode, CheckInput, HealthCheck
from interleaf.report.model import Check

CHECKS = {
    value.code: value
    for module in (log_checks, traffic_checks, list_checks, effect_checks)
    for value in vars(module).values()
    if isinstance(value, HealthCheck)
}


def run_checks(data: CheckInput) -> tuple[Check, ...]:
    """Run every check that applies, in the order of the codes."""
    return tuple(check for code in CheckCode for check in CHECKS[code].run(data))
