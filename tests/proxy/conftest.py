"""An engine, and a proxy in front of it, for the tests in this folder."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.proxies import RunningProxy, running_proxy
from tests.support.stub_engine import StubEngine, stub_engine


@pytest.fixture
def engine() -> Iterator[StubEngine]:
    with stub_engine() as one:
        yield one


@pytest.fixture
def start(engine: StubEngine, tmp_path: Path) -> Iterator[Callable[..., RunningProxy]]:
    """Starts a proxy with changes of the configuration."""
    with ExitStack() as stack:
        yield lambda **parts: stack.enter_context(running_proxy(engine.url, tmp_path, **parts))


@pytest.fixture
def proxy(start: Callable[..., RunningProxy]) -> RunningProxy:
    return start()
