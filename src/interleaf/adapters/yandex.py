"""Click logs in the text format of the Yandex relevance prediction challenge, which PyClick reads, too."""

from __future__ import annotations

import gzip
import zlib
from os import PathLike
from pathlib import Path

from interleaf.clicks.pages import Pages, parse_yandex
from interleaf.errors import DataError


def read_yandex(path: str | PathLike[str]) -> Pages:
    """The pages of such a log, plain or gzip; `pages.reading` says where its clicks went."""
    data = Path(path).read_bytes()
    try:
        text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode()
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path} is neither text nor whole gzip of it: {error}") from error
    return parse_yandex(text.split("\n"), str(path))
