"""Compilation of kernels and of their random number generator with numba.

A kernel is a plain function on small integer arrays, with the decorator `@kernel`. If numba's compiler is switched off,
or has no folder to store compiled code in (a read-only container) and nobody called `interleaf.warm`, `ready` returns
the plain Python form of a kernel: it is slower, and draws the same lists.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numba.core import config, event
from numba.core.caching import IndexDataCacheFile
from numba.extending import overload, register_jitable

from interleaf.kernels import randomness as plain_form
from interleaf.kernels.arrays import Array, EncodedRankings, Impression
from interleaf.kernels.code_digest import code_digest
from interleaf.kernels.randomness import Keyed, Randomness, bytes_of

MAX_SILENCE = 1.0  # seconds of compilation before a notice is logged
NOTICE_SWITCH = "INTERLEAF_COMPILE_NOTICE"  # an environment variable: 0 switches the notice off
_compiling, _counting = 0, Lock()
Function = TypeVar("Function", bound=Callable[..., Any])

_GOLDEN = np.uint64(plain_form.GOLDEN)
_MIX_1 = np.uint64(plain_form.MIX_1)
_MIX_2 = np.uint64(plain_form.MIX_2)
_UNIT = plain_form.UNIT
_WORDS = np.dtype("<u8")
_LOW = np.uint64(0xFFFFFFFF)
_TWO_32 = np.uint64(2**32)
_ONE, _11, _27, _30, _31, _32 = (np.uint64(n) for n in (1, 11, 27, 30, 31, 32))


class _CompileNotice(event.Listener):
    """Warns once per process, on the logger `interleaf`, when our kernels have been compiled for a second."""

    def __init__(self) -> None:
        self._outer: list[event.Event] = []
        self._began = self._spent = 0.0
        self._done = os.environ.get(NOTICE_SWITCH) == "0"

    def on_start(self, event: event.Event) -> None:
        """Called for a kernel, and inside its event for each function that the kernel calls."""
        now = monotonic()
        if not self._outer:
            self._began = now
        self._outer.append(event)
        kernel = self._outer[0].data["dispatcher"]
        if self._done or not kernel.py_func.__module__.startswith("interleaf."):
            return
        if self._spent + now - self._began >= MAX_SILENCE:
            self._done = True
            logging.getLogger("interleaf").warning(_ONCE if kernel._cache.cache_path else _EVERY_TIME)

    def on_end(self, event: event.Event) -> None:
        """Compile times add up over kernels."""
        ended = self._outer.pop()
        if not self._outer and ended.data["dispatcher"].py_func.__module__.startswith("interleaf."):
            self._spent += monotonic() - self._began


_ONCE = "interleaf compiles its kernels, once per installation; this can take several seconds"
_EVERY_TIME = (
    "interleaf compiles its kernels at every start, since it has no folder to keep them in; "
    "set NUMBA_CACHE_DIR to one that it may write"
)
event.register("numba:compile", _CompileNotice())  # type: ignore[no-untyped-call]


def kernel(function: Function) -> Function:
    """Compile a function on first call; it runs without the interpreter lock, and is stored on disk if possible."""
    try:
        compiled: Any = njit(cache=True, nogil=True)(function)
    except RuntimeError:
        return cast(Function, njit(nogil=True)(function))
    if hasattr(compiled, "py_func"):  # if the compiler is switched on
        compiled._cache._cache_file = _CacheFile(function, compiled._cache.cache_path)
        compiled._cache._index_key = lambda types, codegen: (types, codegen.magic_tuple())
    return cast(Function, compiled)


class _CacheFile(IndexDataCacheFile):
    """The files with the compiled code of one kernel, valid as long as its code and all code that it calls is the same.

    Numba's own cache depends on the text of the kernel's file: a new docstring would cause a compilation, and a change
    in another file would not. The digest is computed on first use, when all modules are imported.

    Without NUMBA_CACHE_DIR, the files are beside the module. In NUMBA_CACHE_DIR, all copies of interleaf on a machine
    share their compiled kernels: the digest is part of the file names, so that versions do not overwrite each other.
    """

    def __init__(self, function: Callable[..., Any], folder: str) -> None:
        self._function = function
        python = f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
        name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._name = f"{name}.{python}"
        super().__init__(folder, self._name, None)  # type: ignore[no-untyped-call]

    def save(self, key: Any, data: Any) -> None:
        """Store one compiled form in a file of its own: two processes that compile cannot exchange theirs."""
        overloads = self._load_index()
        overloads[key] = f"{self._name}.{blake2b(self._dump(key), digest_size=8).hexdigest()}.nbc"  # type: ignore[no-untyped-call]
        self._save_data(overloads[key], data)  # type: ignore[no-untyped-call]
        self._save_index(self._load_index() | overloads)  # type: ignore[no-untyped-call]

    def _load_index(self) -> dict[Any, str]:
        if self._source_stamp is None:
            self._source_stamp = code_digest(self._function, *_OVERLOADS)
            self._share()
        try:
            return cast(dict[Any, str], super()._load_index())  # type: ignore[no-untyped-call]
        except (ImportError, AttributeError):  # written by a version with argument types in another module
            return {}

    def _share(self) -> None:
        """Move to the folder that all copies share, unless NUMBA_CACHE_DIR is not set or cannot be written to."""
        folder = Path(getattr(config, "CACHE_DIR", "")) / "interleaf"
        if Path(self._cache_path).parent != folder.parent:  # as numba found a place
            return
        try:
            folder.mkdir(exist_ok=True)
        except OSError:
            return
        self._name = f"{self._name}.{self._source_stamp}"
        self._cache_path, self._index_path = str(folder), str(folder / f"{self._name}.nbi")


def inline_kernel(function: Function) -> Function:
    """A function that kernels share: compiled inside a compiled kernel, and plain inside a plain one."""
    return register_jitable(function)


def plain(function: Function) -> Function:
    """The plain Python form of a kernel."""
    return cast(Function, getattr(function, "py_func", function))


def ready(function: Function) -> Function:
    """The compiled kernel, if it is compiled or can be stored on disk; else its plain Python form."""
    return function if is_compiled(function) else plain(function)


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether `ready` gives the compiled form of this kernel."""
    if not hasattr(function, "py_func"):
        return False
    return _compiling > 0 or function._cache.cache_path is not None or bool(function.signatures)  # type: ignore[attr-defined]


def is_on_disk(function: Callable[..., Any]) -> bool:
    """Whether the compiled form of this version of the kernel is on disk."""
    return hasattr(function, "py_func") and bool(function._cache._cache_file._load_index())  # type: ignore[attr-defined]


def folder_of(function: Callable[..., Any]) -> Path | None:
    """The folder with the compiled forms of a kernel, if they can be stored on disk."""
    if not hasattr(function, "py_func") or function._cache.cache_path is None:  # type: ignore[attr-defined]
        return None
    file: _CacheFile = function._cache._cache_file  # type: ignore[attr-defined]
    file._load_index()
    return Path(file._cache_path)


@contextmanager
def compiling() -> Iterator[None]:
    """Within this context, compile kernels even if they cannot be stored on disk, as `interleaf.warm` does."""
    global _compiling
    with _counting:
        _compiling += 1
    try:
        yield
    finally:
        with _counting:
            _compiling -= 1


def start(key: str, form: Callable[..., Any]) -> Randomness:
    """The randomness for one call of a kernel, for the form that `ready` returned."""
    if hasattr(form, "py_func"):
        return cast(Randomness, np.frombuffer(bytearray(bytes_of(key) + bytes(8)), _WORDS))
    return Keyed(key)


@inline_kernel
def reseed(state: Array, keys: Array, row: int) -> None:
    """Start the randomness of a batch again, with the key of one row."""
    state[0] = keys[row, 0]
    state[1] = keys[row, 1]
    state[2] = 0


@inline_kernel
def rankings_at(encoded: EncodedRankings, row: int) -> EncodedRankings:
    """One query's rankings out of a batch."""
    return EncodedRankings(encoded.rankings[row], encoded.depths[row], encoded.documents[row])


@inline_kernel
def impression_at(impressions: Impression, row: int, count: int) -> Impression:
    """One impression out of a batch, cut to the positions that were shown."""
    return Impression(
        impressions.ranks[row, :, :count],
        impressions.teams[row, :count],
        impressions.lengths[row],
        impressions.union[row],
        impressions.choices[row, :count],
        impressions.unshown_ranks[row],
        impressions.words[row],
    )


@inline_kernel
def mix(word: Any) -> Any:
    """The finaliser of SplitMix64."""
    word = (word ^ (word >> _30)) * _MIX_1
    word = (word ^ (word >> _27)) * _MIX_2
    return word ^ (word >> _31)


@inline_kernel
def _bits(state: Any) -> Any:
    state[2] += _ONE
    return mix(mix(state[0] + state[2] * _GOLDEN) ^ state[1])


@overload(plain_form.pick)
def _pick(randomness: Any, n: Any) -> Any:
    def pick(randomness: Any, n: Any) -> Any:
        if n == 1:
            return 0
        choices = np.uint64(n)
        product = (_bits(randomness) >> _32) * choices
        if product & _LOW < choices:
            rejected_below = (_TWO_32 - choices) % choices
            while product & _LOW < rejected_below:
                product = (_bits(randomness) >> _32) * choices
        return np.int64(product >> _32)

    return pick


inline_kernel(plain_form.pick_weighted)
inline_kernel(plain_form.find_weighted)


@overload(plain_form.pick_from)
def _pick_from(randomness: Any, weights: Any, n: Any, total: Any) -> Any:
    def pick_from(randomness: Any, weights: Any, n: Any, total: Any) -> Any:
        return plain_form.find_weighted(weights, n, np.float64(_bits(randomness) >> _11) * _UNIT * total)

    return pick_from


@overload(plain_form.toss)
def _toss(randomness: Any, probability: Any) -> Any:
    def toss(randomness: Any, probability: Any) -> Any:
        return np.float64(_bits(randomness) >> _11) * _UNIT < probability

    return toss


@overload(plain_form.derive)
def _derive(words: Any, number: Any) -> Any:
    def derive(words: Any, number: Any) -> Any:
        state = np.zeros(3, np.uint64)
        state[0] = mix(words[0] ^ mix(np.uint64(number)))
        state[1] = mix(words[1] + state[0])
        return state

    return derive


_OVERLOADS = (_pick, _pick_from, _toss, _derive)  # kernels call them by the names of their plain forms
