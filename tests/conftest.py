"""Settings of the test run: where compiled kernels are kept, and how Hypothesis searches."""

import gc
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

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

# Files whose names begin so run in one process, which starts their servers only once: the engines, and Spark.
ONE_PROCESS = ("tests/engines/", "tests/execution/test_spark")
# Each test of these files is a group of its own: pages of the documentation share nothing, and wait for services.
ALONE = ("tests/project/test_documentation.py",)
SECONDS = "interleaf/seconds"  # key of pytest's cache: how long each group of tests took in the last run
seconds: defaultdict[str, float] = defaultdict(float)


def group_of(test: str) -> str:
    """The group of a test that is named FILE::TEST: those that run in one process with it, or its file, or only it."""
    file = test.partition("::")[0]
    return test if file in ALONE else next((start for start in ONE_PROCESS if file.startswith(start)), file)


def seconds_of(group: str, last: dict[str, float]) -> float:
    """How long a group took in the last run; in the first run, what starts servers of its own is slow."""
    return last.get(group, 60.0 if group in ONE_PROCESS else 0.0)


class GroupScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist carries no types
    """Gives workers one group of tests after the other, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The slowest groups of the last run come first, so that no worker has one left when the others are done."""
    cache = getattr(config, "cache", None)  # none if pytest's cache is switched off
    last = cache.get(SECONDS, {}) if cache else {}
    items.sort(key=lambda item: -seconds_of(group_of(item.nodeid), last))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    seconds[group_of(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    cache = getattr(session.config, "cache", None)
    if cache and not hasattr(session.config, "workerinput"):
        last = cache.get(SECONDS, {})
        cache.set(SECONDS, last | {group: round(spent, 1) for group, spent in seconds.items()})


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
