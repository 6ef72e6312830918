"""What happens without a person: changes of running experiments are noted, stop rules act, webhooks are sent."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from interleaf.errors import StoreError
from interleaf.experiment import Experiment
from interleaf.experiment.settings import STOP_ALIKE, STOP_BROKEN, STOP_BUDGET, STOP_DECIDED, STOP_GUARDRAIL
from interleaf.report.format import several
from interleaf.report.guardrails import sentence_of_preference
from interleaf.report.model import FAILED, GuardrailCode, ReportData, VerdictCode
from interleaf.server.schemas import ApiError
from interleaf.server.service import SECOND, Service, log
from interleaf.server.webhooks import WebhookSender
from interleaf.store.experiments import Change, Watched
from interleaf.store.history import GUARDRAIL, HEALTH, VERDICT, Webhook
from interleaf.store.records import Stored

MIN_PAUSE = 3600 * SECOND  # between two changes of a kind that are noted of an experiment, in microseconds
HELD_BACK = "automatic stop postponed"
MAX_TRIES = 10
FIRST_DELAY, DELAY_FACTOR, MAX_DELAY = 30.0, 3.0, 6 * 3600.0  # seconds; the tenth try is about 21 hours after the first
JITTER = 0.2  # share by which a delay may be shorter or longer
AT_ONCE = 4  # webhooks that a worker sends at once
MAX_REST = 5.0  # seconds between the looks at two experiments
MAX_NAMED = 5  # broken guardrails in a note
LOOKS = 10  # experiments that a worker claims at a time
NO_VERDICT = {"verdict": VerdictCode.UNDECIDED.value, "codes": [VerdictCode.UNDECIDED.value], "winner": None}
_DECISIONS = {VerdictCode.PREFERRED.value, VerdictCode.WORSE.value}
Result = TypeVar("Result")


def _find_failed(report: ReportData) -> dict[str, str]:
    """The names of the health checks that failed, by code."""
    return {check.code: check.name for check in report.health if check.status == FAILED}


def _find_broken(report: ReportData) -> list[str]:
    """The metrics of broken guardrails, each with its arm."""
    return sorted(f"{one.metric} of {one.arm}" for one in report.guardrails if one.code == GuardrailCode.BROKEN)


def _describe(report: ReportData) -> dict[str, Any]:
    """The verdict as it is noted: its code, all codes that apply, and the winner."""
    verdict = report.verdict
    return {"verdict": verdict.code, "codes": list(verdict.codes or (verdict.code,)), "winner": verdict.winner}


def _say_change(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What changed in a verdict: its code, or else the other codes, or else the winner."""
    if before["verdict"] != now["verdict"]:
        return f"from {before['verdict']} to {now['verdict']}"
    if before["codes"] != now["codes"]:
        return f"from {', '.join(before['codes'])} to {', '.join(now['codes'])}"
    first, second = (one["winner"] or "no winner" for one in (before, now))
    return f"{now['verdict']}, from {first} to {second}"


def find_changes(watched: Watched, report: ReportData, now: int) -> Iterator[Change]:
    """The changes since what was last noted, but of each kind at most one per hour."""
    verdict, described, failed = report.verdict, _describe(report), _find_failed(report)
    before = watched.values.get(VERDICT, NO_VERDICT)
    changes = [
        Change(VERDICT, described, f"{_say_change(before, described)}: {verdict.sentence}"),
        Change(
            HEALTH,
            sorted(failed),
            f"failed: {', '.join(failed.values())}" if failed else "no health check fails any more",
        ),
        Change(
            GUARDRAIL,
            _find_broken(report),
            several(verdict.broken_guardrails, MAX_NAMED) or "no guardrail is broken any more",
        ),
    ]
    last_values = {VERDICT: before, **{kind: watched.values.get(kind, []) for kind in (HEALTH, GUARDRAIL)}}
    for change in changes:
        last = watched.times.get(change.kind)
        if change.value != last_values[change.kind] and (last is None or abs(now - last) >= MIN_PAUSE):
            yield change


def find_stop_reason(settings: Experiment, report: ReportData) -> str:
    """The first stop rule of an experiment that applies, and why; empty if none applies."""
    verdict, units = report.verdict, report.totals.units
    codes = verdict.codes if verdict.trusted else ()
    budget, failed = settings.max_units, ", ".join(_find_failed(report).values())
    sentence = sentence_of_preference(verdict, report.guardrails)
    reasons = {
        STOP_DECIDED: sentence if _is_decided(report) else "",
        STOP_ALIKE: sentence if VerdictCode.ALIKE.value in codes else "",
        STOP_BROKEN: f"these health checks failed: {failed}" if failed else "",
        STOP_GUARDRAIL: several(verdict.broken_guardrails, MAX_NAMED),
        STOP_BUDGET: f"{units:,} units took part" if budget is not None and units >= budget else "",
    }
    applies = (f"rule {rule}: {why}" for rule, why in reasons.items() if why and rule in settings.stop_when)
    return next(applies, "")


def _is_decided(report: ReportData) -> bool:
    """Whether a preference is shown; if the best of many rankers is chosen, whether that is decided."""
    if report.choice is not None:
        return report.verdict.trusted and report.choice.decided
    return report.verdict.trusted and bool(_DECISIONS & {*report.verdict.codes})


def delay_after(tries: int, chance: float) -> int:
    """Microseconds until the next try; `chance` is a random number from 0 to 1.

    >>> [delay_after(tries, 0.5) // SECOND for tries in range(1, MAX_TRIES)]
    [30, 90, 270, 810, 2430, 7290, 21600, 21600, 21600]
    """
    delay = min(FIRST_DELAY * DELAY_FACTOR ** (tries - 1), MAX_DELAY)
    return round(delay * (1 + JITTER * (2 * chance - 1)) * SECOND)


@contextmanager
def _log_errors() -> Iterator[None]:
    """Log errors, so that a background task goes on."""
    try:
        yield
    except StoreError as error:
        log.warning("the store is away", extra={"reason": str(error)})
    except Exception:
        log.exception("a background task failed")


class Automation:
    """The background tasks of one worker that look at running experiments, and that send webhooks."""

    def __init__(self, service: Service, chance: Callable[[], float] | None = None) -> None:
        self._service, self._store = service, service.store
        self._chance = chance or random.Random().random
        self._sender = WebhookSender(service.settings.webhooks)
        self._threads = ThreadPoolExecutor(AT_ONCE + 1, "interleaf-automation")
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the background tasks."""
        settings = self._service.settings
        works = ((self.look, settings.watch_seconds), (self.send, settings.send_seconds))
        self._tasks = [asyncio.create_task(self._repeat(*work)) for work in works]

    async def stop(self) -> None:
        """Stop, after the requests that are being sent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    async def _repeat(self, work: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Run a task periodically; errors are logged."""
        while True:
            with _log_errors():
                await work()
            await asyncio.sleep(seconds)

    async def _run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def look(self) -> None:
        """Look at all running experiments that no worker has looked at for a while."""
        period = round(self._service.settings.watch_seconds * SECOND)
        while looks := await self._run(self._store.claim_looks, self._service.clock(), period, LOOKS):
            for watched in looks:
                begin = time.monotonic()
                with _log_errors(), suppress(ApiError):  # it may have been deleted meanwhile
                    await self._look_at(watched)
                await asyncio.sleep(min(time.monotonic() - begin, MAX_REST))  # so that looks take half a core at most

    async def _look_at(self, watched: Watched) -> None:
        """Note what has changed in a running experiment, and stop it if a rule applies."""
        name = watched.stored.settings.name
        current = await self._service.current_reports(name, watched.stored.version)
        report = next(iter(current.reports.values()), None)
        if report is not None:
            stored = await self._run(self._note, watched, report)
            if stored is not None:
                self._service.experiments.put(name, stored)

    def _note(self, watched: Watched, report: ReportData) -> Stored | None:
        """Compare a report with what was last noted; returns the experiment if anything was noted."""
        now, settings = self._service.clock(), watched.stored.settings
        changes, stop = list(find_changes(watched, report, now)), find_stop_reason(settings, report)
        problem = self._service.read_time().problem if stop else None
        if problem is not None:
            if not watched.values.get(HELD_BACK):
                changes.append(
                    Change(HELD_BACK, True, f"{stop}; but the system clock is not trusted, so it continues: {problem}")
                )
            stop = ""
        if not changes and not stop:
            return None
        facts = {
            **_describe(report),
            "leader": None if report.choice is None else report.choice.leader,
            "previous": watched.values.get(VERDICT, NO_VERDICT)["verdict"],
            "sentence": report.verdict.sentence,
            "failed": sorted(_find_failed(report)),
            "broken_guardrails": _find_broken(report),
        }
        stored = self._store.note_changes(watched, changes, facts, now, stop)
        if stored is not None:
            facts_for_log = {"experiment": settings.name, "changes": [change.kind for change in changes]}
            log.info("noted changes", extra=facts_for_log | ({"stopped": stop} if stop else {}))
        return stored

    async def send(self) -> None:
        """Send all webhooks that are due."""
        while due := await self._run(self._store.claim_webhooks, self._service.clock(), AT_ONCE):
            await asyncio.gather(*(self._run(self._try, webhook) for webhook in due))

    def _try(self, webhook: Webhook) -> None:
        """Send a webhook, and store what became of it."""
        now, tries = self._service.clock(), webhook.tries
        reason = "the service ended during the last try"
        if tries <= MAX_TRIES:
            reason = self._sender.send(webhook.url, webhook.id, webhook.body, now // SECOND)
        what = f"{webhook.kind} webhook to {urlsplit(webhook.url).netloc}"
        attempts = f"{min(tries, MAX_TRIES)} {'try' if tries == 1 else 'tries'}"
        now = self._service.clock()
        if not reason:
            self._store.settle_webhook(webhook, now, None, f"{what}: delivered after {attempts}")
            return
        log.warning("a webhook failed", extra={"webhook": webhook.id, "tries": tries, "reason": reason})
        if tries >= MAX_TRIES:
            self._store.settle_webhook(webhook, now, None, f"{what}: failed after {attempts}: {reason}")
        else:
            note = f"{what}: not delivered yet: {reason}; up to {MAX_TRIES - 1} further tries" if tries == 1 else ""
            self._store.settle_webhook(webhook, now, now + delay_after(tries, self._chance()), note)
