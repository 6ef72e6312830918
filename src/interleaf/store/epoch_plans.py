"""The plans of epochs, if an experiment chooses the best of many rankers: the first process writes one, all read it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from interleaf.errors import StoreError
from interleaf.experiment import Experiment
from interleaf.experiment.choose import epoch_start
from interleaf.experiment.epochs import EpochPlan, RankerExit
from interleaf.report.choice import plan_from_results, say_why_left
from interleaf.store.database import Database, Transaction
from interleaf.store.fold import Folding
from interleaf.store.history import SERVICE, add_history
from interleaf.store.time_check import StoreTime
from interleaf.tally.choice_sums import ChoiceSums

LEFT = "ranker left"  # what the history calls it
TRIES, PAUSE = 50, 0.1  # waiting for another process that folds, in seconds
_OF = "WHERE experiment = ? AND version = ?"


class EpochPlanStore:
    """The part of a store that has plans of epochs."""

    _database: Database
    _folding: Folding
    fold: Callable[[StoreTime], int]

    def epoch_plan(self, name: str, version: int, epoch: int) -> EpochPlan | None:
        """The plan of an epoch, if it was made."""
        with self._database.reading() as transaction:
            return _read_plan(transaction, name, version, epoch)

    def epoch_plans(self, name: str, version: int) -> list[EpochPlan]:
        """All plans of a version, in the order of the epochs."""
        with self._database.reading() as transaction:
            texts = transaction.column(f"SELECT plan FROM epoch_plans {_OF} ORDER BY epoch", name, version)
        return [EpochPlan.of(json.loads(text)) for text in texts]

    def last_known_epoch(self, name: str, version: int) -> int:
        """The last epoch whose results were used for a plan; -1 if there is no plan."""
        statement = f"SELECT plan FROM epoch_plans {_OF} ORDER BY epoch DESC LIMIT 1"
        with self._database.reading() as transaction:
            texts = transaction.column(statement, name, version)
        return max((int(json.loads(text)["known"]) for text in texts), default=-1)

    def make_epoch_plan(self, settings: Experiment, version: int, epoch: int, time: StoreTime) -> EpochPlan:
        """The plan of an epoch that has begun; it is made from folded sums, and written, unless there is one already.

        The results of epochs before the last known one are complete, because no event of a folded impression counts.
        """
        present = self.epoch_plan(settings.name, version, epoch)
        if present is not None:
            return present
        self._fold_until(settings, version, epoch_start(settings, epoch), time)
        tally = self._folding.folded_tally(settings, version, settings.primary)
        sums = ChoiceSums() if tally is None else tally.choice
        with self._database.reading() as transaction:
            gone = _last_exits(transaction, settings.name, version, epoch)
        plan = plan_from_results(settings, version, epoch, sums, gone)
        with self._database.writing() as transaction:
            transaction.alone()
            is_first = transaction.change(
                "INSERT INTO epoch_plans (experiment, version, epoch, plan) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (experiment, version, epoch) DO NOTHING",
                *(settings.name, version, epoch, json.dumps(plan.to_dict())),
            )
            for one in plan.exits[len(gone) :] if is_first else ():
                note = say_why_left(one, settings.margin)
                add_history(transaction, settings.name, version, LEFT, time.now, SERVICE, note)
            return _read_plan(transaction, settings.name, version, epoch) or plan

    def _fold_until(self, settings: Experiment, version: int, end: int, now: StoreTime) -> None:
        """Fold all impressions of a version that closed until then."""
        for _ in range(TRIES):
            while self.fold(now):
                pass
            statement = f"SELECT 1 FROM impressions {_OF} AND folded = 0 AND closes <= ? LIMIT 1"
            with self._database.reading() as transaction:
                if not transaction.rows(statement, settings.name, version, end):
                    return
            time.sleep(PAUSE)
        problem = now.problem or "another process is folding its impressions"
        raise StoreError(f"no plan can be made for {settings.name!r}, so the control is shown: {problem}")


def _read_plan(transaction: Transaction, name: str, version: int, epoch: int) -> EpochPlan | None:
    statement = f"SELECT plan FROM epoch_plans {_OF} AND epoch = ?"
    return next((EpochPlan.of(json.loads(text)) for text in transaction.column(statement, name, version, epoch)), None)


def _last_exits(transaction: Transaction, name: str, version: int, epoch: int) -> tuple[RankerExit, ...]:
    """Who had left in the last plan before an epoch."""
    statement = f"SELECT plan FROM epoch_plans {_OF} AND epoch < ? ORDER BY epoch DESC LIMIT 1"
    texts = transaction.column(statement, name, version, epoch)
    return next((EpochPlan.of(json.loads(text)).exits for text in texts), ())
