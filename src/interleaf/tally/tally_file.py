"""Files of tallies: numpy's zipped arrays, and JSON for the rest. Reading one executes no code from it."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from interleaf.errors import DataError
from interleaf.kernels.arrays import Array
from interleaf.tally.bucket_sums import About, ArmSums

if TYPE_CHECKING:
    from interleaf.tally.tally import Tally
    from interleaf.tally.units import Sample, UnitSums

VERSION = 9
_EVIDENCE, _CHOICE = "evidence.", "choice."
_COUNTERS = ("dropped", "events", "facts")


def save(tally: Tally, path: str | Path) -> None:
    """Write the file under a temporary name first, so that an interrupted run leaves no partial tally."""
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        unfinished.write_bytes(to_bytes(tally))
        unfinished.replace(path)
    except OSError as error:
        raise DataError(f"cannot write the tally {path}: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def load(path: str | Path, kind: type[Tally]) -> Tally:
    """Read a file as a tally of this class."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot read the tally {path}: {error.strerror}") from None
    return from_bytes(data, kind, str(path))


def to_bytes(tally: Tally) -> bytes:
    """The content of the file."""
    rest = {
        "version": VERSION,
        "about": asdict(tally.about),
        "arms": list(tally.arms),
        "segments": [[*key, tally.segments.impressions[key], tally.segments.clicked[key]] for key in tally.segments],
        "counters": {name: dict(getattr(tally, name)) for name in _COUNTERS},
        "span": [tally.since, tally.until],
        "slices": [tally.slices.step, tally.slices.first],
        "levels": {name: one.level for name, one in (_samples(tally) | _units(tally)).items()},
        "evidence": tally.evidence.rest,
        "choice": {"names": list(tally.choice.names), "level": tally.choice.level},
    }
    arrays = {"slices": tally.slices.clicked, "rest": np.frombuffer(json.dumps(rest).encode(), np.uint8)}
    arrays |= {name: sample.hashes for name, sample in _samples(tally).items()}
    for name, units in _units(tally).items():
        arrays |= {name: units.hashes, f"{name}.values": units.values}
    parts: dict[str, Any] = {"scores": tally.scores, "lists": tally.lists, "exposure": tally.exposure}
    parts |= {f"arm{number}": arm for number, arm in enumerate(tally.arms.values())}
    for name, part in parts.items():
        arrays |= {f"{name}.{field}": values for field, values in part._asdict().items()}
    arrays |= {f"{_EVIDENCE}{name}": values for name, values in tally.evidence.arrays()}
    if tally.choice:
        arrays |= {f"{_CHOICE}{name}": values for name, values in tally.choice.arrays().items()}
    file = BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def from_bytes(data: bytes, kind: type[Tally], name: str = "these bytes") -> Tally:
    """Read the result of `to_bytes`."""
    try:
        with np.load(BytesIO(data), allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        rest = json.loads(arrays["rest"].tobytes())
        version = rest["version"]
        tally = _tally(arrays, rest, kind) if version == VERSION else None
    except Exception as error:  # zip, zlib, numpy and JSON each raise their own errors for damaged bytes
        raise DataError(f"{name} is not a tally, or is damaged: {error or type(error).__name__}") from None
    if tally is None:
        remedy = "upgrade it" if version > VERSION else "tally the log again"
        raise DataError(f"{name} is a tally of version {version}; this interleaf reads version {VERSION}: {remedy}")
    return tally


def _tally(arrays: dict[str, Any], rest: dict[str, Any], kind: type[Tally]) -> Tally:
    about = rest["about"] | {name: tuple(rest["about"][name]) for name in ("rankers", "examination", "guarded")}
    tally = kind.empty(About(**about))
    arm = ArmSums.empty(len(tally.about.guarded))
    tally.scores, tally.lists = _part(tally.scores, arrays, "scores"), _part(tally.lists, arrays, "lists")
    tally.exposure = _part(tally.exposure, arrays, "exposure")
    tally.arms = {name: _part(arm, arrays, f"arm{number}") for number, name in enumerate(rest["arms"])}
    for attribute, value, impressions, clicked in rest["segments"]:
        tally.segments.impressions[attribute, value] = impressions
        tally.segments.clicked[attribute, value] = clicked
    for name in _COUNTERS:
        setattr(tally, name, Counter(rest["counters"][name]))
    tally.since, tally.until = rest["span"]
    tally.slices.step, tally.slices.first = rest["slices"]
    tally.slices.clicked = check_shape(tally.slices.clicked, arrays["slices"], 1)
    for name, units in _units(tally).items():
        fill_units(units, rest["levels"][name], arrays[name], arrays[f"{name}.values"])
    for name, sample in _samples(tally).items():
        sample.raise_to(rest["levels"][name])
        sample.add(check_shape(sample.hashes, arrays[name], 1))
    evidence = {name.removeprefix(_EVIDENCE): array for name, array in arrays.items() if name.startswith(_EVIDENCE)}
    tally.evidence.fill(evidence, rest["evidence"])
    if (choice := rest.get("choice", {})).get("names"):
        tables = {name.removeprefix(_CHOICE): array for name, array in arrays.items() if name.startswith(_CHOICE)}
        tally.choice.fill(choice["names"], choice["level"], tables)
    return tally


def fill_units(units: UnitSums, level: int, hashes: Array, values: Array) -> None:
    """Add the arrays of a file to a table, after a check of their shapes."""
    values = check_shape(units.values, values, 1)
    units.merge(level, check_shape(units.hashes, hashes, 1)[: len(values)], values)


def _units(tally: Tally) -> dict[str, UnitSums]:
    cells = {"slice_units": tally.slices.cells, "segment_units": tally.segments.cells, "query_units": tally.queries}
    return {"units": tally.units, **cells}


def _samples(tally: Tally) -> dict[str, Sample]:
    return {"sample": tally.sample, "slice_sample": tally.slices.sample}


def _part(empty: Any, arrays: dict[str, Any], name: str) -> Any:
    """Sums from arrays with the names of their fields; checks their shapes."""
    fields = empty._asdict().items()
    return type(empty)(*(check_shape(values, arrays[f"{name}.{field}"]) for field, values in fields))


def check_shape(wanted: Array, array: Array, free: int = 0) -> Array:
    """The array, if its type and shape are right; the lengths of the first `free` axes may differ."""
    if array.dtype != wanted.dtype or array.ndim != wanted.ndim or array.shape[free:] != wanted.shape[free:]:
        raise ValueError(f"an array of {array.dtype} {array.shape} stands where one like {wanted.shape} should")
    return array
