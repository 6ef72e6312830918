"""Learns what a click is worth from logs of experiments; `analyze` can score with the resulting file."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from interleaf import log
from interleaf.caption_bias.logistic_model import CaptionModel
from interleaf.click_value import click_features, credit_fitting, learned_credit
from interleaf.click_value.click_features import EQUAL, CaptionWeights, FeatureCredit, PageClicks, matrix
from interleaf.click_value.credit_fitting import (
    GROUPS,
    POOLED,
    Fitting,
    LearningNote,
    Moments,
    RankerPair,
    TrainingExample,
)
from interleaf.click_value.learned_credit import ClickWorth, CreditWeight, LearnedCredit, LearningResult, TrainedOn
from interleaf.decode import Counting, Decoded
from interleaf.decode.columns import Exclusion
from interleaf.errors import DataError, join_names
from interleaf.execution.options import LogOptions
from interleaf.execution.passes import Passes
from interleaf.execution.task import Task, process_batch
from interleaf.kernels import buckets
from interleaf.kernels.arrays import Array
from interleaf.log.drop_reasons import text_of
from interleaf.methods.registry import ResolvedMethod
from interleaf.methods.schemes import Scheme
from interleaf.stable_codes import Note
from interleaf.stats.bootstrap import intervals, poisson_weights

SUMS = ".sums"
VERSION = 1
MAX_EXPERIMENTS = 1000
FOLDS = 16
RESAMPLES = 200
TYPICAL: dict[str, tuple[tuple[tuple[int, float], ...], int]] = {  # pages as (rank, dwell) in order, and which click
    "the only click, at rank 1, for 10 s": (((1, 10.0),), 0),
    "the only click, at rank 1, for 45 s": (((1, 45.0),), 0),
    "the only click, at rank 1, for 150 s": (((1, 150.0),), 0),
    "the only click, at rank 5, for 10 s": (((5, 10.0),), 0),
    "the only click, at rank 5, for 150 s": (((5, 150.0),), 0),
    "first of two, at rank 1, for 10 s": (((1, 10.0), (3, 150.0)), 0),
    "then the last, at rank 3, for 150 s": (((1, 10.0), (3, 150.0)), 1),
    "first of two, at rank 1, for 150 s": (((1, 150.0), (3, 10.0)), 0),
    "then the last, at rank 3, for 10 s": (((1, 150.0), (3, 10.0)), 1),
}


@dataclass(eq=False)
class TrainingSums:
    """The moments of each pair of rankers of a log, how events were counted, and the number of dropped rows by reason.

    `scheme` None stands for the normalized scheme of each method.
    """

    features: tuple[str, ...]
    counting: Counting
    scheme: str | None = None
    captions: CaptionModel | None = None
    pairs: dict[RankerPair, Moments] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: TrainingSums) -> TrainingSums:
        both = replace(self, pairs=dict(self.pairs), dropped=Counter(self.dropped))
        both.merge(other)
        return both

    def merge(self, other: TrainingSums) -> None:
        for name in ("features", "counting", "scheme", "captions"):
            mine, theirs = str(getattr(self, name)), str(getattr(other, name))
            if mine != theirs:
                raise DataError(f"these sums cannot be added: their {name} differ, {mine} and {theirs}")
        for pair, moments in other.pairs.items():
            self.pairs[pair] = self.pairs[pair] + moments if pair in self.pairs else moments
        self.dropped += other.dropped

    def save(self, path: str | Path) -> None:
        """Write the sums to a file (.sums). Files of several days can be added; `learn` takes them instead of a log."""
        rest = {
            "version": VERSION,
            "features": self.features,
            "counting": learned_credit.counting_to_dict(self.counting),
            "scheme": self.scheme,
            "captions": None if self.captions is None else self.captions.to_dict(),
            "pairs": list(self.pairs),
            "left_out": dict(self.dropped),
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
    def load(cls, path: str | Path) -> TrainingSums:
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
            rest = json.loads(arrays["rest"].tobytes())
            if rest["version"] != VERSION:
                raise DataError(f"{path} holds sums of version {rest['version']}; this interleaf reads {VERSION}")
            pairs = {
                RankerPair(*pair): Moments(*(arrays[f"{name}{number}"] for name in ("count", "sums", "products")))
                for number, pair in enumerate(rest["pairs"])
            }
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(f"{path} holds no sums of clicks: {error}") from None
        captions = None if rest["captions"] is None else CaptionModel.from_dict(rest["captions"])
        counting, dropped = Counting(**rest["counting"]), Counter(rest["left_out"])
        return cls(tuple(rest["features"]), counting, rest["scheme"], captions, pairs, dropped)


@dataclass(frozen=True)
class FeatureDifferences(FeatureCredit):
    """Used instead of a credit: the features of the first ranker's clicks minus those of the second ranker's."""

    features: tuple[str, ...]
    kinds: tuple[str, ...]

    def label(self, experiment: str, scheme: str) -> str:
        return scheme  # never shown in a report

    def columns(self, decoded: Decoded, chosen: ResolvedMethod, scheme: Scheme) -> Array:
        """Psi of each row (C12, Eq. 14)."""
        clicks, shares = click_features.credit_clicks(decoded, self.kinds, chosen, scheme, self.captions)
        sides = shares[:, 0] - shares[:, 1]
        return clicks.by_page(matrix(clicks, self.features) * sides[:, None], len(decoded.rows))


def gather(
    source: Any,
    features: Sequence[str] | None = None,
    captions: CaptionModel | None = None,
    options: LogOptions = LogOptions(),  # noqa: B008, it is frozen
) -> TrainingSums:
    """The moments of a log; `features` by name (default: those of C12). Equal credit is always the first of them.

    With a caption model (H12c), the weight that it gives a click is also a feature.
    """
    counting = options.counting
    kinds = tuple(counting.weights)
    wanted = click_features.default_features(kinds, captions is not None) if features is None else features
    names = tuple(dict.fromkeys((EQUAL, *wanted)))
    training = TrainingSums(names, counting, options.scheme, captions)
    weights = None if captions is None else CaptionWeights(captions)
    task = replace(options, credit=FeatureDifferences(names, kinds, captions=weights)).task(Task)
    return Passes(source, task, options, once=True).add_up(training, _count_batch)


def _count_batch(training: TrainingSums, batch: pa.RecordBatch, task: Task, repeated: Array) -> None:
    for outcome in process_batch(batch, task, repeated):
        training.dropped += outcome.dropped
        if outcome.part is None:
            continue
        decoded, scored = outcome.part.decoded, outcome.part.scored
        training.dropped += decoded.dropped
        design = decoded.design
        if scored is not None and len(design.rankers) != 2:
            reason = LearningNote.NOT_TWO_RANKERS.of(f"{design.experiment!r} compares {len(design.rankers)}")
            training.dropped[reason] += len(decoded.rows)
        elif scored is not None:
            first, second = sorted(design.rankers)
            pair = RankerPair(design.experiment, design.version, first, second)
            if pair not in training.pairs and len(training.pairs) >= MAX_EXPERIMENTS:
                raise DataError(f"the log holds more than {MAX_EXPERIMENTS:,} experiments; learn from fewer at a time")
            moments = training.pairs.setdefault(pair, Moments.empty(len(training.features)))
            some, sign = decoded.has_event, 1 if design.rankers[0] == first else -1
            moments.add(buckets.buckets(decoded.unit[some]), scored.columns[some] * sign)


def learn(
    log: Any,
    better: Mapping[str, str] | None = None,
    *,
    features: Sequence[str] | None = None,
    caption_model: CaptionModel | None = None,
    ridge: float | None = None,
    ridge_on: Sequence[str] | None = None,
    examples: str = POOLED,
    groups: Mapping[str, str] | Callable[[str], str] | None = None,
    folds: int = FOLDS,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    scheme: str | None = None,
    method: str | None = None,
    events: str | Mapping[str, float] = "click",
    dwell: float | None = None,
    first: bool = False,
    window: float | None = None,
    experiment: str | None = None,
    version: int | None = None,
    exclude: Exclusion | Mapping[str, Collection[str]] | None = None,
    engine: str | None = None,
    progress: log.Progress | None = None,
) -> LearningResult:
    """Learn what clicks are worth from experiments whose better ranker is known (C12, section 10).

    `log` is a log as `analyze` takes it, with one experiment or many; or `TrainingSums`, or files of saved sums.
    `better` names the better ranker by experiment. For other experiments equal credit decides; those without a
    significant difference are left out. `features` are names, those of C12 if omitted. `ridge` is chosen by
    cross-validation if omitted; `ridge_on` names the features that it penalizes, all but equal credit if omitted.
    `groups` says which experiments are left out together. With `folds` of users the credit can score its own
    experiments without overfitting; with 0 it refuses them. The click weight of `caption_model` becomes a feature.
    All other options are those of `analyze`.
    """
    options = LogOptions.of_arguments(locals())
    training = training_of(log, features, caption_model, options)
    return fit(training, better, ridge, ridge_on, examples, groups, folds, confidence, resamples, seed)


def fit(
    training: TrainingSums,
    better: Mapping[str, str] | None = None,
    ridge: float | None = None,
    ridge_on: Sequence[str] | None = None,
    examples: str = POOLED,
    groups: Mapping[str, str] | Callable[[str], str] | None = None,
    folds: int = FOLDS,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> LearningResult:
    """Learn from the sums of logs; the options are those of `learn`."""
    if ridge is not None and not ridge >= 0:
        raise DataError(f"ridge is {ridge!r}; give a number from 0 up, or leave it out to have it chosen")
    fitting = Fitting(_mark_penalized(training.features, ridge_on), examples)
    if callable(groups):
        groups = {pair.experiment: groups(pair.experiment) for pair in training.pairs}
    pairs = credit_fitting.examples_of(training.pairs, better or {}, groups or {})
    weights, chosen, ridges = credit_fitting.learn_weights(pairs, fitting, ridge)
    left_out = _list_left_out(pairs)
    if weights is None:
        reasons = [note.text for note in left_out]
        reasons += [f"{_text_of(reason)} ({count:,} rows)" for reason, count in training.dropped.most_common(3)]
        why = "; ".join(reasons) or "the log has no experiment of two rankers, or no preference in any"
        raise DataError(f"there is nothing to learn from: {why}")
    used = [example for example in pairs if not example.reason]
    credit = LearnedCredit(
        features=training.features,
        weights=tuple(weights.tolist()),
        folds=tuple(tuple(some.tolist()) for some in credit_fitting.fold_weights(pairs, fitting, ridge, folds)),
        trained_on=tuple(TrainedOn(*one.pair[:2], one.better, one.worse, one.pages) for one in used),
        counting=training.counting,
        scheme=training.scheme,
        ridge=chosen,
        examples=examples,
        captions=None if training.captions is None else CaptionWeights(training.captions),
    )
    # The same groups of users are resampled in all experiments.
    times = poisson_weights(GROUPS, resamples, np.random.default_rng(seed))
    resampled = [credit_fitting.learn_weights(used, fitting, chosen, some)[0] for some in times]
    samples = np.array([weights if one is None else one for one in resampled])
    return LearningResult(
        credit=credit,
        weights=tuple(_weights(training.features, used, weights, samples, confidence)),
        worths=tuple(_worths(training, weights, samples, confidence)),
        held_out=tuple(credit_fitting.held_out(pairs, fitting, ridge)),
        ridges=ridges,
        confidence=confidence,
        left_out=(*left_out, *_list_dropped(training.dropped)),
        notes=_notes(used, chosen, ridge, folds),
    )


def training_of(
    log: Any, features: Sequence[str] | None, captions: CaptionModel | None, options: LogOptions
) -> TrainingSums:
    """The sums of a log, or saved sums with the options that they were counted with."""
    paths = [log] if isinstance(log, (str, PathLike, TrainingSums)) else log
    if not isinstance(paths, list | tuple) or not any(map(_is_saved, paths)):
        return gather(log, features, captions, options)
    if not all(map(_is_saved, paths)):
        raise DataError("sums and logs cannot be mixed; save the sums of the logs first, then give sums alone")
    others = {"features": features, "caption_model": captions}
    if changed := [*(name for name, value in others.items() if value), *options.changed]:
        raise DataError(f"saved sums have been counted already; leave out {join_names(changed)}")
    saved = (one if isinstance(one, TrainingSums) else TrainingSums.load(Path(one)) for one in paths)
    return reduce(TrainingSums.__add__, saved)


def _is_saved(source: Any) -> bool:
    return isinstance(source, TrainingSums) or (isinstance(source, (str, PathLike)) and str(source).endswith(SUMS))


def _mark_penalized(features: Sequence[str], ridge_on: Sequence[str] | None) -> Array:
    if ridge_on is not None and (unknown := [name for name in ridge_on if name not in features]):
        raise DataError(f"ridge_on names {unknown[0]!r}, which is not among the features that are learned")
    return np.array([name != EQUAL if ridge_on is None else name in ridge_on for name in features])


def _weights(
    names: Sequence[str], used: Sequence[TrainingExample], weights: Array, samples: Array, confidence: float
) -> list[CreditWeight]:
    pooled = reduce(Moments.__add__, [example.moments.total() for example in used])
    sizes = np.sqrt(np.diag(pooled.products) / pooled.count).tolist()
    rows = []
    for name, weight, ends, size in zip(names, weights.tolist(), intervals(samples, confidence), sizes, strict=True):
        row = click_features.feature(name)
        if size:
            rows.append(CreditWeight(name, row.family, row.meaning, weight, ends, abs(weight) * size))
        else:
            reason = "never varies: 0 on all pages, or the same for both rankers"
            rows.append(CreditWeight(name, row.family, row.meaning, None, None, 0.0, reason))
    return rows


def _worths(training: TrainingSums, weights: Array, samples: Array, confidence: float) -> list[ClickWorth]:
    """The worth of typical clicks by the learned weights."""
    kinds = tuple(training.counting.weights)
    values = np.array([matrix(_page(page, kinds), training.features)[which] for page, which in TYPICAL.values()])
    ends = intervals(samples @ values.T, confidence)
    return [ClickWorth(*one) for one in zip(TYPICAL, (values @ weights).tolist(), ends, strict=True)]


def _page(page: Sequence[tuple[int, float]], kinds: Sequence[str]) -> PageClicks:
    """A page with these clicks, as (rank, dwell) in order; of the first kind of event."""
    ranks, dwells = np.array([rank for rank, _ in page]), np.array([dwell for _, dwell in page])
    size = np.full(len(page), len(page))
    return PageClicks(
        page=np.zeros(len(page), np.int64),
        rank=ranks,
        order=np.arange(1, len(page) + 1),
        clicks=size,
        credited=size,
        first_rank=np.full(len(page), ranks[0]),
        regression=ranks < np.maximum.accumulate(ranks),
        seconds=np.cumsum(dwells) - dwells,
        dwell=dwells,
        kinds={kind: np.full(len(page), kind == kinds[0]) for kind in kinds},
        caption=np.ones(len(page)),
    )


def _notes(used: Sequence[TrainingExample], chosen: float, ridge: float | None, folds: int) -> tuple[Note, ...]:
    pages = sum(example.pages for example in used)
    how = "as given" if ridge is not None else "by cross-validation"
    strength = "infinite: equal credit was not beaten" if np.isinf(chosen) else f"{chosen:g}"
    own = (
        f"On its own experiments it scores each user by weights from users before, in {folds} folds."
        if folds
        else "It was not cross-fitted: its own experiments are refused."
    )
    number = f"{len(used)} experiment{'s' * (len(used) > 1)}"
    return (LearningNote.LEARNED_FROM.note(pages, number, strength, how, own),)


def _text_of(reason: str) -> str:
    """The text of a reason for which rows were dropped."""
    code, _, detail = reason.partition(":")
    return LearningNote.NOT_TWO_RANKERS.note(detail).text if code == LearningNote.NOT_TWO_RANKERS else text_of(reason)


def _list_left_out(pairs: Sequence[TrainingExample]) -> list[Note]:
    """The experiments that teach nothing, each with its reason."""
    return [
        Note(one.reason.code, f"experiment {one.pair.experiment!r}, version {one.pair.version}: {one.reason.text}")
        for one in pairs
        if one.reason
    ]


def _list_dropped(dropped: Mapping[str, int]) -> list[Note]:
    """The rows that were dropped, by reason."""
    return [Note(reason.partition(":")[0], f"{count:,} rows: {_text_of(reason)}") for reason, count in dropped.items()]
