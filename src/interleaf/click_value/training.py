"""Logs to what credit is learned from: the moments of every experiment of two rankers, in a size that does not grow."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from interleaf import buckets, log
from interleaf.caption_bias.model import Model
from interleaf.click_value.features import EQUAL, CaptionWeights, default_features, matrix
from interleaf.click_value.fitting import GROUPS, Fitting, Moments, Total
from interleaf.click_value.learned import counting_to_dict, credited, fold_of, needs
from interleaf.decode import Counting, Decoded
from interleaf.decode.attributes import Exclusion
from interleaf.engines import local, spark
from interleaf.engines.choice import SPARK, chosen
from interleaf.engines.packed import of_bytes
from interleaf.engines.work import Part, Task, repeats, work
from interleaf.errors import DataError, listed
from interleaf.methods.arrays import Array
from interleaf.methods.table import Chosen, Scheme
from interleaf.score import Scoring
from interleaf.stats.compare import estimate
from interleaf.stats.signs import ZScore
from interleaf.tally.seen import Sample, Seen

SUMS = ".sums"
VERSION = 1
MOST_EXPERIMENTS = 1000


class Pair(NamedTuple):
    """An experiment and its rankers, by name in order; moments are those of the first over the second."""

    experiment: str
    version: int
    first: str
    second: str


@dataclass(eq=False)
class Training:
    """The moments of all pairs of a log, what they were made of, and what was left out, by reason; two of them add up.

    `scheme` is the one that was asked for, None for the normalized one of each method.
    """

    features: tuple[str, ...]
    counting: Counting
    scheme: str | None = None
    captions: Model | None = None
    pairs: dict[Pair, Moments] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Training) -> Training:
        for name in ("features", "counting", "scheme", "captions"):
            mine, theirs = str(getattr(self, name)), str(getattr(other, name))
            if mine != theirs:
                raise DataError(f"these sums cannot be added: their {name} differ, {mine} and {theirs}")
        both = dict(self.pairs)
        for pair, moments in other.pairs.items():
            both[pair] = both[pair] + moments if pair in both else moments
        return Training(self.features, self.counting, self.scheme, self.captions, both, self.left_out + other.left_out)

    def save(self, path: str | Path) -> None:
        """Keep the sums in a file (.sums): those of days add up, and `learn` takes them in place of a log."""
        rest = {
            "version": VERSION,
            "features": self.features,
            "counting": counting_to_dict(self.counting),
            "scheme": self.scheme,
            "captions": None if self.captions is None else self.captions.to_dict(),
            "pairs": list(self.pairs),
            "left_out": dict(self.left_out),
        }
        arrays = {"rest": np.frombuffer(json.dumps(rest).encode(), np.uint8)}
        for number, moments in enumerate(self.pairs.values()):
            arrays |= {f"{name}{number}": values for name, values in vars(moments).items()}
        file = BytesIO()
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        try:
            Path(path).write_bytes(file.getvalue())
        except OSError as error:
            raise DataError(f"cannot write the sums to {path}: {error.strerror}") from None

    @classmethod
    def load(cls, path: str | Path) -> Training:
        """Sums that were kept."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
            rest = json.loads(arrays["rest"].tobytes())
            if rest["version"] != VERSION:
                raise DataError(f"{path} holds sums of version {rest['version']}; this interleaf reads {VERSION}")
            pairs = {
                Pair(*pair): Moments(*(arrays[f"{name}{number}"] for name in ("count", "sums", "products")))
                for number, pair in enumerate(rest["pairs"])
            }
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(f"{path} holds no sums of clicks: {error}") from None
        counting, features = Counting(**rest["counting"]), tuple(rest["features"])
        captions = None if rest["captions"] is None else Model.from_dict(rest["captions"])
        return cls(features, counting, rest["scheme"], captions, pairs, Counter(rest["left_out"]))


@dataclass(frozen=True)
class Differences:
    """In place of credit: the features of the first ranker's clicks less those of the second's, `[row, feature]`."""

    features: tuple[str, ...]
    kinds: tuple[str, ...]
    captions: CaptionWeights | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns of the log that are read besides."""
        return needs(self.captions)

    def on(self, batch: pa.RecordBatch) -> Differences:
        """Ready for the rows of a batch."""
        return self if self.captions is None else replace(self, captions=self.captions.on(batch))

    def label(self, experiment: str, scheme: str) -> str:
        """Never shown."""
        return scheme

    def columns(self, decoded: Decoded, chosen: Chosen, scheme: Scheme) -> Array:
        """Psi of each row (C12, Eq. 14)."""
        found = credited(decoded, self.kinds, chosen, scheme, self.captions)
        sides = found.shares[:, 0] - found.shares[:, 1]
        return found.by_page(matrix(found.clicks, self.features) * sides[:, None], len(decoded.rows))


def gather(
    source: Any,
    features: Sequence[str] | None = None,
    *,
    scheme: str | None = None,
    method: str | None = None,
    counting: Counting | None = None,
    captions: Model | None = None,
    experiment: str | None = None,
    version: int | None = None,
    exclude: Exclusion | None = None,
    engine: str | None = None,
    progress: log.Progress | None = None,
) -> Training:
    """The moments of a log; `features` by name, C12's if left out. Equal credit is always the first of them.

    With a caption model (H12c), the weight that it gives a click is a feature, too.
    """
    counting = counting or Counting()
    kinds = tuple(counting.weights)
    wanted = default_features(kinds, captions is not None) if features is None else features
    names = tuple(dict.fromkeys((EQUAL, *wanted)))
    training = Training(names, counting, scheme, captions)
    differences = Differences(names, kinds, None if captions is None else CaptionWeights(captions))
    scoring = Scoring(scheme, method, counting, credit=differences)
    task = Task(scoring, (), exclude or Exclusion(), experiment, version)
    if chosen(engine, source) == SPARK:
        packed = spark.summed(spark.opened(source), task, partial(_counted, training), Training.__add__)
        return cast(Training, of_bytes(packed))
    task, reading, batches = local.opened(source, task, Sample(), progress)
    for batch, repeated in batches:
        _work(training, batch, task, repeated)
    training.left_out += reading.dropped
    return training


def _counted(training: Training, task: Task, batches: Iterator[pa.RecordBatch], seen: Seen) -> Training:
    """The moments of a part of a log, on an executor; `training` has none yet."""
    training = replace(training, pairs={}, left_out=Counter())
    for batch in batches:
        _work(training, batch, task, repeats(batch, seen))
    return training


def _work(training: Training, batch: pa.RecordBatch, task: Task, repeated: Array) -> None:
    for worked in work(batch, task, repeated):
        training.left_out += worked.dropped
        if worked.part is not None:
            _count(training, worked.part)


def _count(training: Training, part: Part) -> None:
    training.left_out += part.decoded.dropped
    design = part.decoded.design
    if part.scored is None:
        return
    if len(design.rankers) != 2:
        reason = f"experiment {design.experiment!r} compares {len(design.rankers)} rankers; learning takes two"
        training.left_out[reason] += len(part.decoded.rows)
        return
    first, second = sorted(design.rankers)
    pair = Pair(design.experiment, design.version, first, second)
    if pair not in training.pairs:
        if len(training.pairs) >= MOST_EXPERIMENTS:
            raise DataError(f"the log holds more than {MOST_EXPERIMENTS:,} experiments; learn from fewer at a time")
        training.pairs[pair] = Moments.empty(len(training.features))
    some = part.decoded.has_event
    values = part.scored.columns[some] * (1 if design.rankers[0] == first else -1)
    training.pairs[pair].add(buckets.buckets(part.decoded.unit[some]), values)


LEVEL = 0.05  # of the test by equal credit that decides an experiment
PARTS = 8  # of users, where there is one group of experiments to cross-validate in


@dataclass(frozen=True, eq=False)
class Example:
    """A pair of rankers with its moments, those of the better over the worse.

    `decided`: equal credit tells them apart. `reason` says why nothing is learned from it: '' where it is.
    """

    pair: Pair
    group: str
    better: str
    worse: str
    moments: Moments
    decided: bool
    reason: str = ""


def examples_of(training: Training, better: Mapping[str, str], groups: Mapping[str, str]) -> list[Example]:
    """All pairs: the better ranker is named by experiment, or the one that equal credit decides for."""
    experiments = {pair.experiment for pair in training.pairs}
    for name, given in (("better", better), ("groups", groups)):
        if unknown := sorted(set(given) - experiments):
            raise DataError(f"{name} names experiment {unknown[0]!r}; the log holds {listed(sorted(experiments))}")
    return [_example(pair, moments, better, groups) for pair, moments in sorted(training.pairs.items())]


def _example(pair: Pair, moments: Moments, better: Mapping[str, str], groups: Mapping[str, str]) -> Example:
    found = estimate(moments.sums[:, 0], moments.count)
    decided = found.p_value is not None and found.p_value < LEVEL
    named = better.get(pair.experiment)
    if named not in (None, pair.first, pair.second):
        raise DataError(
            f"better says {named!r} of experiment {pair.experiment!r}; that one compares "
            f"{pair.first!r} and {pair.second!r}"
        )
    leads = named == pair.first if named else (found.value or 0) >= 0
    reason = ""
    if not moments.count.any():
        reason = "no page with a click"
    elif not named and not decided:
        p_value = "" if found.p_value is None else f" (p = {found.p_value:.2g})"
        reason = f"undecided by equal credit{p_value}, and no ranker was named the better one"
    sides = (pair.first, pair.second) if leads else (pair.second, pair.first)
    oriented = moments if leads else moments.turned()
    return Example(pair, groups.get(pair.experiment, pair.experiment), *sides, oriented, decided, reason)


def learned_from(
    examples: Sequence[Example], fitting: Fitting, ridge: float | None, times: Array | None = None
) -> tuple[Array | None, float, dict[float, float]]:
    """Weights, their ridge, and the mean z-score a page by ridge where it was chosen; of some groups of users alone."""
    totals = [(example, example.moments.total(times)) for example in examples if not example.reason]
    there = [(example, total) for example, total in totals if total.count > 0]
    known: dict[float, float] = {}
    if ridge is None:
        ridge, known = fitting.ridge(_left_out_together(there, times))
    return fitting.weights([total for _, total in there], ridge), ridge, known


def _left_out_together(there: Sequence[tuple[Example, Total]], times: Array | None) -> list[list[Total]]:
    """Totals by group; where there is one, parts of its users."""
    groups: dict[str, list[Total]] = {}
    for example, total in there:
        groups.setdefault(example.group, []).append(total)
    if len(groups) > 1:
        return list(groups.values())
    drawn = np.ones(GROUPS) if times is None else np.asarray(times, np.float64)
    pages = drawn * np.sum([example.moments.count for example, _ in there], axis=0)
    used = np.flatnonzero(pages)
    found = []
    for part in np.array_split(used, PARTS):
        some = [example.moments.total(drawn * np.isin(np.arange(GROUPS), part)) for example, _ in there]
        found.append([total for total in some if total.count > 0])
    return [some for some in found if some]


def fold_weights(examples: Sequence[Example], fitting: Fitting, ridge: float | None, folds: int) -> list[Array]:
    """Weights of each fold, from people of those before it; equal credit in the first, and where they tell nothing."""
    if folds and not 2 <= folds <= GROUPS:
        raise DataError(f"folds is {folds!r}; give 2 to {GROUPS}, or 0 for none")
    equal = np.eye(len(fitting.penalized))[0]
    place = fold_of(np.arange(GROUPS), folds) if folds else np.zeros(0)
    found = []
    for fold in range(folds):
        weights, _, _ = learned_from(examples, fitting, ridge, place < fold)
        found.append(equal if weights is None else weights)
    return found


@dataclass(frozen=True)
class HeldOut:
    """An experiment scored by weights from other groups: z-scores a page by equal and by learned credit (C12, Eq. 21).

    `relative` is learned over equal. None where `reason` says why. `flipped`: a decided one, decided the other way.
    """

    experiment: str
    version: int
    group: str
    better: str
    worse: str
    pages: int
    decided: bool
    equal: float | None
    learned: float | None
    reason: str = ""

    @property
    def relative(self) -> float | None:
        """The learned z-score over that of equal credit."""
        return self.learned / self.equal if self.learned is not None and self.equal else None

    @property
    def flipped(self) -> bool:
        """Whether learned credit contradicts a decision of equal credit."""
        return self.decided and self.relative is not None and self.relative < 0


def held_out(examples: Sequence[Example], fitting: Fitting, ridge: float | None) -> list[HeldOut]:
    """Leave-one-group-out: each group by weights, and a ridge, from the others; undecided experiments, too."""
    found = []
    for group in dict.fromkeys(example.group for example in examples):
        others = [example for example in examples if example.group != group]
        weights, _, _ = learned_from(others, fitting, ridge)
        found += [_scored(example, weights) for example in examples if example.group == group]
    return found


def _scored(example: Example, weights: Array | None) -> HeldOut:
    total = example.moments.total()
    equal = total.z_score(np.eye(len(total.sums))[0])
    learned = ZScore(None, None, "no other experiment to learn from") if weights is None else total.z_score(weights)
    return HeldOut(
        *example.pair[:2], example.group, example.better, example.worse, round(total.count), example.decided,
        equal.per_query, learned.per_query, equal.reason or learned.reason,
    )  # fmt: skip
