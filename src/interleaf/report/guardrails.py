"""Guardrails: does an arm do more harm than is acceptable, by a metric of its own, compared with the control's arm?

    harm = s (metric of the arm - metric of the base),   s = -1 if less of the metric is harm, else 1

Both metrics are ratios of sums over searches, and the error leaves out one bucket of units at a time (`difference`). It
is cautious about small arms: a holdout may lack the few very slow searches, and then look better than it is.
The interval follows the rule of the report, at its confidence, for each guardrail alone. If the whole interval is below
the margin, the guardrail is ok; if it is above, it is broken. So each of these is wrong in at most 1 - confidence of
experiments, also if people look at the report all the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from interleaf.kernels.arrays import Array
from interleaf.log.schema import FALLBACK, HOLDOUT, INTERLEAVED
from interleaf.metrics.guardrail_metrics import ABANDONMENT, LATENCY, REFORMULATION, harm_sign, kind_of
from interleaf.report.arms import ratio
from interleaf.report.format import format_signed, span
from interleaf.report.model import Guardrail, GuardrailCode, Verdict, VerdictCode
from interleaf.report.rule import ReportSettings, interval_of
from interleaf.stats.compare import Interval, difference, significance
from interleaf.tally import Tally, bucket_sums
from interleaf.tally.bucket_sums import ONE, ArmSums

NO_BASE = "there is neither a holdout nor an arm with the control's own lists to compare with"
NO_ARM = "there is no other arm to compare with {}"
NO_LATENCY = "no latency is logged for the lists of {}"
NO_EVENTS = "no search of these arms has an event of this kind"
NOT_JOINED = "the tally does not join searches to sessions; give the guardrail when you tally the log"
NOT_TALLIED = "the tally does not count this kind of event; give the guardrail when you tally the log"


def check_guardrails(tally: Tally, settings: ReportSettings) -> tuple[Guardrail, ...]:
    """Every guardrail of the settings, for each arm but the base."""
    rails = (settings.guardrails or {}).items()
    return tuple(one for metric, margin in rails for one in _check(tally, settings, metric, margin))


def base_of(tally: Tally, control: str | None) -> str | None:
    """The arm with the control's own lists: its A/B arm, or else the holdout.

    Without a control it is the holdout, or else the bucket of the first ranker that has one.
    """
    wanted = (HOLDOUT, *tally.about.rankers) if control is None else (control, HOLDOUT)
    return next((arm for arm in wanted if arm in tally.arms), None)


def _check(tally: Tally, settings: ReportSettings, metric: str, margin: float) -> Iterator[Guardrail]:
    base, kind = base_of(tally, settings.control), kind_of(metric)
    arms = sorted({*tally.arms} - {base, HOLDOUT, FALLBACK}, key=lambda name: (name != INTERLEAVED, name))
    unknown = Guardrail(metric, margin, GuardrailCode.UNKNOWN.value)
    if base is None:
        yield replace(unknown, reason=NO_BASE)
    elif not arms:
        yield replace(unknown, reason=NO_ARM.format(base))
    elif kind is not None and kind not in tally.about.guarded:
        yield replace(unknown, reason=NOT_TALLIED)
    else:
        yield from (_compare(tally, settings, unknown, arm, base) for arm in arms)


def _compare(tally: Tally, settings: ReportSettings, unknown: Guardrail, arm: str, base: str) -> Guardrail:
    """A guardrail for one arm; numbers that could not be computed are None, with the reason."""
    metric, names = unknown.metric, (arm, base)
    ours, theirs = (sums_of(tally.arms[name], metric, tally.about.guarded) for name in names)
    rail = replace(unknown, arm=arm, base=base)
    if reason := _why_unknown(metric, dict(zip(names, (ours, theirs), strict=True))):
        return replace(rail, reason=reason)
    value, base_value = (float(sums.sum() / counts.sum()) for sums, counts in (ours, theirs))
    gap = difference(*ours, *theirs, settings.confidence, names, cautious=True)
    change, reason = interval_of(gap, tally.units.count(), settings, significance(settings.confidence))
    harm, interval = _as_harm(metric, value - base_value, change)
    return replace(
        rail,
        code=code_of(interval, rail.margin).value,
        value=value,
        base_value=base_value,
        harm=harm,
        interval=interval,
        reason="" if interval else reason,
    )


def code_of(interval: Interval | None, margin: float) -> GuardrailCode:
    """What an interval of the harm shows.

    >>> code_of((-0.01, 0.01), 0.02).value, code_of((0.03, 0.05), 0.02).value, code_of((0.01, 0.03), 0.02).value
    ('ok', 'broken', 'undecided')
    """
    if interval is None:
        return GuardrailCode.UNDECIDED
    low, high = interval
    return GuardrailCode.OK if high < margin else GuardrailCode.BROKEN if low > margin else GuardrailCode.UNDECIDED


def _as_harm(metric: str, change: float, interval: Interval | None) -> tuple[float, Interval | None]:
    """A change of the metric, and its interval, in the direction that is worse."""
    if harm_sign(metric) > 0 or interval is None:
        return harm_sign(metric) * change, interval
    low, high = interval
    return -change, (-high, -low)


def sums_of(arm: ArmSums, metric: str, guarded: Sequence[str]) -> tuple[Array, Array]:
    """The numerator and the denominator of a metric, by bucket."""
    if metric in (ABANDONMENT, REFORMULATION):
        return ratio(arm, metric)
    guards = arm.guards.T.astype(np.float64)
    if metric == LATENCY:
        return guards[bucket_sums.LATENCY] / ONE, guards[bucket_sums.TIMED]
    queries = arm.measures[:, bucket_sums.QUERIES].astype(np.float64)
    kind = kind_of(metric)
    return guards[bucket_sums.EMPTY if kind is None else bucket_sums.KINDS + list(guarded).index(kind)], queries


def _why_unknown(metric: str, sums: dict[str, tuple[Array, Array]]) -> str:
    """Why the arms have no data for a metric; empty if they have."""
    if kind_of(metric) is not None and not any(numerator.any() for numerator, _ in sums.values()):
        return NO_EVENTS
    reasons = {LATENCY: NO_LATENCY, REFORMULATION: NOT_JOINED}
    missing = [name for name, (_, counts) in sums.items() if not counts.any()]
    return reasons.get(metric, "no search of {}").format(missing[0]) if missing else ""


def say_broken(guardrails: Sequence[Guardrail]) -> tuple[str, ...]:
    """A sentence for each broken guardrail."""
    return tuple(
        f"{one.metric}: the harm of {one.arm} against {one.base} is {format_signed(one.harm or 0.0)} "
        f"({span(one.interval)}), and at most {one.margin:g} is acceptable"
        for one in guardrails
        if one.code == GuardrailCode.BROKEN and one.interval is not None
    )


def add_broken(verdict: Verdict, guardrails: Sequence[Guardrail], control: str | None) -> Verdict:
    """The verdict with its broken guardrails: they come before the preference, and do not change it."""
    broken = say_broken(guardrails)
    if not broken:
        return verdict
    codes = [VerdictCode.GUARDRAIL.value, *(code for code in verdict.codes if code != VerdictCode.UNDECIDED)]
    step = verdict.next_step if verdict.winner is not None and verdict.winner == control else _find_cause(guardrails)
    parts = [_name_broken(guardrails), verdict.sentence]
    if not verdict.trusted:  # a failed check comes first
        codes.remove(VerdictCode.BROKEN.value)
        codes.insert(0, VerdictCode.BROKEN.value)
        parts.reverse()
        step = verdict.next_step
    return replace(
        verdict,
        sentence=" ".join(parts),
        code=codes[0],
        codes=tuple(codes),
        next_step=step,
        broken_guardrails=broken,
    )


def _name_broken(guardrails: Sequence[Guardrail]) -> str:
    metrics = dict.fromkeys(one.metric for one in guardrails if one.code == GuardrailCode.BROKEN)
    return f"A guardrail is broken ({', '.join(metrics)})."


def sentence_of_preference(verdict: Verdict, guardrails: Sequence[Guardrail]) -> str:
    """The sentence of a trusted verdict without the one about broken guardrails."""
    return verdict.sentence.removeprefix(f"{_name_broken(guardrails)} ")


def code_of_preference(verdict: Verdict) -> str:
    """The code of a verdict as it would be without guardrails.

    >>> code_of_preference(Verdict("", None, True, code="guardrail", codes=("guardrail", "no_worse")))
    'no_worse'
    """
    codes = [code for code in verdict.codes or (verdict.code,) if code != VerdictCode.GUARDRAIL]
    return codes[0] if codes else VerdictCode.UNDECIDED.value


def _find_cause(guardrails: Sequence[Guardrail]) -> str:
    """What to do about broken guardrails."""
    step = "Find the cause of the harm before you make a candidate live."
    if any(one.code == GuardrailCode.BROKEN and one.arm == INTERLEAVED for one in guardrails):
        step += " It may also come from mixing lists: a mixed list is ready when the slowest ranker has answered."
    return step
