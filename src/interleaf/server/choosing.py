"""Which rankers to run for a user, if an experiment chooses the best of many."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from interleaf.errors import StateError
from interleaf.experiment import Experiment
from interleaf.experiment.choose import epoch_at, epoch_start, overlap
from interleaf.experiment.epochs import EpochPlan, find_group
from interleaf.experiment.serving import ChosenGroup
from interleaf.experiment.settings import CHOOSE
from interleaf.log.schema import FALLBACK, INTERLEAVED
from interleaf.server import schemas
from interleaf.server.cache import TTLCache
from interleaf.server.schemas import JsonResponse, log
from interleaf.store.records import RUNNING, AccessKey

if TYPE_CHECKING:
    from interleaf.server.service import Service

MAX_PLANS = 100  # plans in memory
TTL = 86_400.0  # a plan never changes
MAX_WAIT = 1.0  # seconds that a request waits for a plan; then the control is shown
PAUSE = 5.0  # seconds after a failure in which no plan is tried
_decode_choose = schemas.decoder(schemas.ChooseRequest)


class PlanKey(NamedTuple):
    """Which plan: `makes` says whether it is made if there is none."""

    name: str
    version: int
    epoch: int
    makes: bool


class Choosing:
    """The plans of epochs, loaded or made once for all requests of a process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._thread = ThreadPoolExecutor(1, "interleaf-plan")
        self._plans = TTLCache(self._load, TTL, MAX_PLANS, executor=self._thread)
        self._failed: dict[tuple[str, int], float] = {}

    def close(self) -> None:
        """Wait for a plan that is being made."""
        self._thread.shutdown(cancel_futures=True)

    async def plan(self, settings: Experiment, version: int, epoch: int, makes: bool = True) -> EpochPlan | None:
        """The plan of an epoch; None if it cannot be had in time."""
        place = settings.name, version
        if time.monotonic() - self._failed.get(place, -PAUSE) < PAUSE:
            return None
        try:
            return await asyncio.wait_for(self._plans.get(PlanKey(*place, epoch, makes)), MAX_WAIT)
        except TimeoutError:
            return None  # it goes on in the background
        except Exception as error:
            self._failed[place] = time.monotonic()
            about = {"experiment": settings.name, "reason": str(error)}
            log.error("no plan of the epoch; the control is shown", extra=about)
            return None

    async def find_group(
        self, settings: Experiment, version: int, unit: str, now: int, given: Collection[str] = ()
    ) -> tuple[str, ChosenGroup] | None:
        """The arm and the rankers of a unit now; None if there is no plan.

        Shortly after the start of an epoch, they may be those of the epoch before, if only these rankings are `given`.
        """
        epoch = epoch_at(settings, now)
        plan = await self.plan(settings, version, epoch)
        if plan is None:
            return None
        arm, rankers = find_group(settings, plan, unit)
        if given and not set(rankers) <= set(given) and now - epoch_start(settings, epoch) < overlap(settings):
            before = await self.plan(settings, version, epoch - 1, makes=False)
            if before is not None and set(others := find_group(settings, before, unit)[1]) <= set(given):
                return arm, ChosenGroup(epoch - 1, others)
        return arm, ChosenGroup(epoch, rankers)

    def _load(self, key: PlanKey) -> EpochPlan | None:
        store = self._service.store
        if not key.makes:
            return store.epoch_plan(key.name, key.version, key.epoch)
        settings = store.experiment(key.name).versions[key.version]
        return store.make_epoch_plan(settings, key.version, key.epoch, self._service.read_time())


async def choose(service: Service, http: HttpRequest, body: bytes, who: AccessKey) -> Response:
    """Which rankers to run for a user: all, unless the experiment chooses the best of many."""
    data = _decode_choose(body)
    schemas.refuse_nulls(body, data)
    stored = await service.experiment(http.path_params["name"])
    if stored.state != RUNNING:
        problem = f"the experiment is {stored.state}, but rankers are only chosen while it is running"
        raise StateError(f"{problem}; run the control, or start an experiment")
    settings, version = stored.settings, stored.version
    if settings.mode != CHOOSE:
        return JsonResponse(schemas.ChooseResponse(list(settings.needed_rankers), INTERLEAVED, version, None))
    choice = await service.choosing.find_group(settings, version, data.unit, service.clock())
    if choice is None:
        return JsonResponse(schemas.ChooseResponse([settings.control], FALLBACK, version, None))
    arm, group = choice
    return JsonResponse(schemas.ChooseResponse(list(group.rankers), arm, version, group.epoch))
