"""The nodes of the engines, started once for each process that runs tests."""

from collections.abc import Iterator

import pytest

from tests.support.engines import MAIN, RunningEngine, fill, running_engine, why_missing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(__file__.rpartition("/")[0]):
            item.add_marker(pytest.mark.engine)


def _started(name: str, folder: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    if reason := why_missing(name):
        pytest.skip(reason)
    with running_engine(name, folder.mktemp(name)) as engine:
        fill(engine)
        yield engine


@pytest.fixture(scope="session")
def opensearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    yield from _started("opensearch", tmp_path_factory)


@pytest.fixture(scope="session")
def elasticsearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    yield from _started("elasticsearch", tmp_path_factory)


@pytest.fixture(scope="session")
def solr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    yield from _started("solr", tmp_path_factory)


@pytest.fixture(scope="session", params=sorted(MAIN))
def engine(request: pytest.FixtureRequest) -> RunningEngine:
    """Each of the engines in turn."""
    engine: RunningEngine = request.getfixturevalue(request.param)
    return engine
