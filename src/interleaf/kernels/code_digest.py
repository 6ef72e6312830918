"""A digest of a function's code and of the code it uses; docstrings, comments and line numbers do not change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np


def code_digest(*functions: Callable[..., Any]) -> str:
    """The digest of functions, of the functions that these call, and of the constants that they read."""
    digest = blake2b(digest_size=16)
    waiting: list[Any] = list(reversed(functions))
    visited = set[int]()
    while waiting:
        value = waiting.pop()
        value = getattr(value, "py_func", value)  # a compiled kernel
        if not isinstance(value, FunctionType):
            digest.update(_text_of(value).encode())
        elif id(value) not in visited:
            visited.add(id(value))
            digest.update(f"{value.__module__}.{value.__qualname__}".encode())
            digest.update(_text_of_code(value.__code__, value.__doc__).encode())
            waiting.extend(_used_by(value))
    return digest.hexdigest()


def _used_by(function: FunctionType) -> Iterator[Any]:
    """What a function reads from its closure, its module, and modules of the same package."""
    for cell in function.__closure__ or ():
        yield cell.cell_contents
    package = function.__module__.partition(".")[0]
    names = [name for code in _codes(function.__code__) for name in code.co_names]
    for name in names:
        value = function.__globals__.get(name)
        if not isinstance(value, ModuleType):
            yield value
        elif value.__name__.partition(".")[0] == package:
            yield from (getattr(value, attribute) for attribute in names if hasattr(value, attribute))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _text_of_code(code: CodeType, docstring: str | None) -> str:
    constants = [constant for constant in code.co_consts if constant is not None and constant != docstring]
    parts = (code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_exceptiontable)
    return f"{parts} {[_text_of(constant) for constant in constants]}"


def _text_of(value: Any) -> str:
    if isinstance(value, CodeType):
        return _text_of_code(value, None)
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tobytes()!r}"
    if isinstance(value, frozenset):
        return str(sorted(map(repr, value)))
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}"
    if callable(value):  # of another package, such as math.log
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return f"{type(value).__qualname__} {value!r}"
