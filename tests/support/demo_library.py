"""The standard library's entries for the tests of the demo, read once."""

import atexit
from functools import cache

from interleaf.demo.engine import Engine, LibraryEntry, read_entries


@cache
def entries() -> list[LibraryEntry]:
    return read_entries()


@cache
def library() -> Engine:
    """An engine that lives as long as the tests do."""
    engine = Engine(entries())
    atexit.register(engine.close)
    return engine
