"""Settings of the test run: where compiled kernels are kept, and how Hypothesis searches."""

import gc
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# One folder for all runs: a kernel is compiled again only when its code has changed (interleaf.kernels.code_digest).
# Set before any test module imports numba, which reads it once.
os.environ["NUMBA_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / "interleaf-numba")

# One thread for linear algebra in each process: the matrices are small, and threads that wait for work take the
# processor from the other worker.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

# Tests compare what commands write to standard error, and the first run compiles; test_compile_notice switches it on.
os.environ["INTERLEAF_COMPILE_NOTICE"] = "0"

# Haystack reports its use to its makers unless this says no; it is read when Haystack is imported.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

settings.register_profile(
    "interleaf",
    deadline=None,  # the first call of a kernel compiles it
    derandomize="CI" in os.environ,
    max_examples=60,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("interleaf")

SECONDS = "interleaf/seconds"  # key of pytest's cache: how long each file took in the last run
seconds: defaultdict[str, float] = defaultdict(float)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The slowest files of the last run come first, so that no worker has one left when the others are done."""
    cache = getattr(config, "cache", None)  # none if pytest's cache is switched off
    last = cache.get(SECONDS, {}) if cache else {}
    items.sort(key=lambda item: -last.get(item.location[0], 0.0))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    seconds[report.location[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    cache = getattr(session.config, "cache", None)
    if cache and not hasattr(session.config, "workerinput"):
        last = cache.get(SECONDS, {})
        cache.set(SECONDS, last | {file: round(spent, 1) for file, spent in seconds.items()})


# Modules and tests stay until the end, so the garbage collector need not visit their million objects again and again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def collect_garbage(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a file leaves open fails that file, not whichever test runs when the object is collected.

    What its own functions have cached goes, too: some of it is large.
    """
    yield
    module = request.node.obj
    for value in list(vars(module).values()):
        if hasattr(value, "cache_clear") and value.__module__ == module.__name__:
            value.cache_clear()
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()
