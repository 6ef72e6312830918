"""One Spark session for all files that need one: starting it, and the first job of its Python worker, take seconds."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.spark_sessions import started


@pytest.fixture(scope="session")
def session() -> Iterator[Any]:
    yield from started()
