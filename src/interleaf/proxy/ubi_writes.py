"""Records of UBI in requests that write documents: those for the index of UBI that the engine has stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

BULK = "/_bulk"


def read_records(path: str, body: bytes, answer: bytes, index: str) -> list[Any] | None:
    """The records that the engine has stored in this index; None if its answer does not say which these are.

    >>> body = b'{"index":{"_index":"ubi"}}\\n{"n":1}\\n{"index":{"_index":"other"}}\\n{"n":2}\\n'
    >>> read_records("/_bulk", body, b'{"errors":false}', "ubi")
    [{'n': 1}]
    """
    own = path.partition(BULK)[0].strip("/") if BULK in path else None
    if own is None:  # one document
        return [_decode(body)]
    items = list(_read_items(body, own))
    stored = _read_stored(answer, len(items))
    if stored is None:
        return None
    return [record for (name, record), is_stored in zip(items, stored, strict=True) if is_stored and name == index]


def _read_items(body: bytes, default: str) -> Iterator[tuple[str | None, Any]]:
    """The index and the document of each action of a bulk request; no index if it writes no new document."""
    lines = iter(body.split(b"\n"))
    for line in lines:
        action = _decode(line)
        if not isinstance(action, dict) or len(action) != 1:
            continue  # such as an empty line; the engine refuses others
        ((kind, about),) = action.items()
        document = None if kind == "delete" else _decode(next(lines, b""))
        is_new = kind in ("index", "create") and isinstance(about, dict)
        yield (about.get("_index", default) if is_new else None), document


def _read_stored(answer: bytes, count: int) -> list[bool] | None:
    """Whether each item was stored, as the answer to a bulk request says."""
    data = _decode(answer)
    if not isinstance(data, dict):
        return None
    if data.get("errors") is False:
        return [True] * count
    try:
        stored = [200 <= about["status"] < 300 for item in data["items"] for about in item.values()]
    except (KeyError, TypeError, AttributeError):
        return None
    return stored if len(stored) == count else None


def _decode(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
