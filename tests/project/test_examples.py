"""The programs in examples/ work: people search and click over HTTP, and the log says whom they prefer."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from interleaf import Client, analyze
from interleaf.client.visitors import COOKIE
from interleaf.server.app import create_app as create_service
from interleaf.store import open_store
from tests.support.services import listening

pytest.importorskip("fastapi", reason="comes with the extra integration")
pytest.importorskip("flask", reason="comes with the extra integration")

from fastapi.testclient import TestClient

from examples import batch_job, fastapi_shop, flask_shop
from tests.support.paths import ROOT

QUERIES = ("rain jacket", "trail runner")
VISITORS = 40
IDS = {number: f"{number:032x}" for number in range(VISITORS) if number % 10}  # others get theirs from the shop
Get = Callable[[str], Any]


def visit(get: Get, query: str, number: int) -> None:
    """A visitor searches, reloads the page, and opens what has all words of the query; every third opens the top."""
    page, again = get(f"/search?q={query}"), get(f"/search?q={query}")
    assert again["products"] == page["products"]
    assert len(page["products"]) == 5
    wanted = [rank for rank, name in enumerate(page["products"], 1) if set(query.split()) <= set(name.split())]
    for rank in wanted[:1] if number % 3 else [1]:
        name = page["products"][rank - 1]
        assert get(f"/products/{name}?impression={page['impression']}&rank={rank}") == {"name": name}


def test_the_fastapi_shop_gets_its_lists_from_the_service(tmp_path: Path) -> None:
    store = open_store(tmp_path / "shop.sqlite")
    settings = {"name": "shop", "rankers": ["production", "candidate"], "control": "production", "k": 5}
    with listening(create_service(store)) as url, closing(Client(url, timeout=120)) as owner:
        owner.call("POST", "/v1/experiments", settings)
        owner.call("POST", "/v1/experiments/shop/start")
        with TestClient(fastapi_shop.create_app(url, timeout=120), base_url="https://shop.example") as shop:
            for number in range(VISITORS):
                shop.cookies.clear()
                if number in IDS:  # of random ids, one run in thirty would have no winner
                    shop.cookies.set(COOKIE, IDS[number])
                for query in QUERIES:
                    visit(lambda address: shop.get(address).raise_for_status().json(), query, number)
        report = owner.call("GET", "/v1/experiments/shop/report")["reports"]["click"]
    assert report["verdict"]["winner"] == "candidate", report["verdict"]
    assert report["totals"]["units"] == VISITORS
    store.close()


@pytest.fixture(scope="module")
def shop_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log that visitors of the Flask shop leave."""
    folder = tmp_path_factory.mktemp("shop") / "log"
    app = flask_shop.create_app(str(folder))
    for number in range(VISITORS):
        visitor = app.test_client()
        if number in IDS:
            visitor.set_cookie(COOKIE, IDS[number], domain="shop.example")
        for query in QUERIES:
            visit(lambda address: visitor.get(address, base_url="https://shop.example").json, query, number)  # noqa: B023
    app.extensions["log"].close()
    return folder


def test_the_flask_shop_writes_a_log_with_a_verdict(shop_log: Path) -> None:
    report = analyze(shop_log, control="production")
    assert report.verdict.winner == "candidate"
    assert report.totals.units == VISITORS


def test_the_batch_job_writes_the_report_and_its_status_says_whether_to_trust_it(
    shop_log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    trusted = analyze(shop_log, control="production").verdict.trusted
    assert batch_job.main([str(shop_log), str(page)]) == (0 if trusted else 1)
    assert "candidate" in capsys.readouterr().out
    assert "<html" in page.read_text("utf-8")


def test_the_answers_of_the_rag_app_say_which_retriever_is_better(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("langchain_core", reason="comes with the extra integration")
    from examples import rag_app

    assert rag_app.main([str(tmp_path / "log")]) == 0
    assert "fallbacks: none" in capsys.readouterr().out
    report = analyze(tmp_path / "log", events={"citation": 1}, control="common_words")
    assert report.verdict.winner == "rare_words"
    assert report.totals.units == rag_app.USERS


def test_the_commands_in_the_examples_start(tmp_path: Path) -> None:
    """As they are typed in a clone, with --help in place of what does not end by itself."""
    command = [sys.executable, "-m", "examples.batch_job", "--help"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True)
    assert "report.html" in done.stdout
    listed = set(re.findall(r"\]\((\w+\.py)\)", (ROOT / "examples" / "README.md").read_text("utf-8")))
    assert listed == {path.name for path in (ROOT / "examples").glob("*.py")} - {"__init__.py"}
