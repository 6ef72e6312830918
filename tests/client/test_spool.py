"""The spool: its bound, its order, and who delivers it when processes are killed, fork, or share a folder."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from interleaf.client import Client, delivery_thread
from interleaf.client.spool import FolderSpool, MemorySpool
from interleaf.errors import DataError
from tests.client.test_outage import QUICK, RANKINGS, knowing, service as service
from tests.support.paths import ROOT
from tests.support.stand_in import KEY, StandIn, until

NOBODY = 65534
CLICK = b'{"experiment": null, "body": {"events": [{"event": "e-1", "impression": "before", "rank": 1}]}}'
BROKEN = {
    "cut": b'{"experiment": ',
    "a number as experiment": b'{"experiment": 5, "body": {}}',
    "no name of an experiment": b'{"experiment": "", "body": {}}',
    "half a character": b'{"experiment": "\\ud800", "body": {}}',
    "a number as body": b'{"experiment": null, "body": 1}',
    "no events": b'{"experiment": null, "body": {}}',
    "a number as events": b'{"experiment": null, "body": {"events": 1}}',
    "a list as body": b'{"experiment": "shoes", "body": []}',
    "no record": b"[]",
    "nested": b'{"experiment": "shoes", "body": {"a": ' + b"[" * 100_000,
    "bytes": b"\xff\xfe",
    "nothing": b"",
}


def test_what_finds_the_spool_full_is_dropped_counted_and_said_once(
    service: StandIn, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for spool in (None, tmp_path):
        with knowing(service, spool=spool, max_spooled=5) as client:
            service.stop()
            caplog.clear()
            for n in range(8):
                client.interleave("shoes", RANKINGS, unit=f"user-{n}", query="q")
            assert (client.status().waiting, client.status().dropped) == (5, 3)
            assert caplog.text.count("the spool is full") == 1
            service.start()
            until(lambda: client.status().waiting == 0)


def test_memory_that_is_never_delivered_is_said(service: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    client = knowing(service)
    service.stop()
    client.interleave("shoes", RANKINGS, unit="u", query="q")
    client.close()
    assert "1 records were never delivered" in caplog.text
    service.start()


def test_a_folder_that_cannot_be_is_refused_and_one_that_vanishes_breaks_no_page(
    service: StandIn, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be made"):
        Client(service.url, KEY, spool=tmp_path / "file" / "spool")
    with pytest.raises(DataError, match="is a file"):
        Client(service.url, KEY, spool=tmp_path / "file")
    with knowing(service, spool=tmp_path / "spool") as client:
        (tmp_path / "spool").rename(tmp_path / "gone")  # in one step: the delivery thread may be writing into it
        service.stop()
        assert client.interleave("shoes", RANKINGS, unit="u", query="q").arm == "interleaved"
        assert client.status().dropped == 1
    service.start()


@contextmanager
def read_only() -> Iterator[Path]:
    """A folder that this process can read and not write, with a record; while it lasts, root is nobody."""
    folder = Path(tempfile.mkdtemp())
    (folder / "0-click.json").write_bytes(CLICK)
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_a_spool_that_is_read_only_loses_records_of_an_outage_and_nothing_after_it(
    service: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    service.impressions["before"] = {"documents": ["a"]}
    with read_only() as folder, knowing(service, spool=folder) as client:
        until(lambda: len(service.events) == 1)  # what an earlier process left is delivered
        service.stop()
        assert client.interleave("shoes", RANKINGS, unit="u", query="q").arm == "interleaved"
        assert client.status().dropped == 1
        assert "records are dropped from now on: [Errno 13] Permission denied" in caplog.text
        service.start()
        until(lambda: not client.status().away)
        shown = client.interleave("shoes", RANKINGS, unit="u", query="q")
        assert shown.stored
        assert client.click(shown.impression, 1).accepted == 1
        assert client.status().waiting == 0


def test_records_that_are_none_are_set_aside_and_block_no_other(service: StandIn, tmp_path: Path) -> None:
    with knowing(service, spool=tmp_path) as client:
        service.stop()
        for name, text in BROKEN.items():
            (tmp_path / f"0-{name}.json").write_bytes(text)
        (tmp_path / "0-folder.json").mkdir()
        os.mkfifo(tmp_path / "0-pipe.json")
        (tmp_path / "0-loop.json").symlink_to("0-loop.json")
        good = client.interleave("shoes", RANKINGS, unit="u", query="q")
        assert client.click(good.impression, 1).spooled == 1
        service.start()
        until(lambda: len(service.events) == 1)
        assert good.impression in service.impressions
        assert client.status().quarantined == len(BROKEN) + 2
        assert (tmp_path / "0-folder.bad").is_dir()
        assert (tmp_path / "0-pipe.bad").is_fifo()
        assert (tmp_path / "0-a number as body.bad").read_bytes() == BROKEN["a number as body"]
        (tmp_path / "0-loop.json").unlink()  # what cannot be read at all waits, and lets others pass
        until(lambda: client.status().waiting == 0)
        assert client.status().refused == 0


@pytest.fixture
def quick_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that fails is tried again at once."""
    monkeypatch.setattr(delivery_thread, "SPOOL_SECONDS", 0.02)


def failing_on(service: StandIn, *impressions: str | None) -> None:
    """Let the service answer 500 to each request that names one of these impressions."""
    answer = service.answer

    def fail(method: str, path: str, body: Any) -> tuple[int, Any]:
        text = json.dumps(body)
        if any(f'"{one}"' in text for one in impressions):
            return 500, {"error": {"code": "failed", "message": "a bug"}}
        return answer(method, path, body)

    service.answer = fail  # type: ignore[method-assign]


@pytest.mark.usefixtures("quick_rounds")
@pytest.mark.parametrize("folder", [False, True])
def test_records_that_fail_every_time_are_set_aside_and_block_no_other(
    service: StandIn, tmp_path: Path, folder: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with knowing(service, spool=tmp_path if folder else None) as client:
        service.stop()
        shown = [client.interleave("shoes", RANKINGS, unit=f"u{n}", query="q").impression for n in range(10)]
        bad, good = shown[: delivery_thread.MAX_FAILURES + 1], shown[delivery_thread.MAX_FAILURES + 1 :]
        for impression in (bad[0], *good):
            assert client.click(impression, 1).spooled == 1
        failing_on(service, *bad)
        service.start()
        until(lambda: set(good) <= set(service.impressions))
        until(lambda: client.interleave("shoes", RANKINGS, impression="before").stored and client.status().waiting == 0)
        status = client.status()
        assert (status.quarantined, status.refused, status.dropped) == (len(bad) + 1, 0, 0)
        assert set(service.impressions) == {"before", *good}
        assert {event["impression"] for event in service.events.values()} == set(good)
        assert len(list(tmp_path.glob("*.bad"))) == (len(bad) + 1 if folder else 0)
        assert "the service answered 500 to the spooled record" in caplog.text


@pytest.mark.usefixtures("quick_rounds")
def test_a_single_record_that_fails_is_set_aside_while_pages_are_answered(service: StandIn) -> None:
    with knowing(service) as client:
        service.stop()
        failing_on(service, client.interleave("shoes", RANKINGS, unit="u", query="q").impression)
        service.start()
        until(lambda: client.interleave("shoes", RANKINGS, unit="u", query="q").stored and client.status().waiting == 0)
        assert client.status().quarantined == 1


@pytest.mark.usefixtures("quick_rounds")
def test_a_service_that_fails_on_all_records_loses_none(service: StandIn) -> None:
    with knowing(service) as client:
        service.stop()
        shown = [client.interleave("shoes", RANKINGS, unit=f"u{n}", query="q").impression for n in range(5)]
        service.trouble, service.troubled = (500, {}), lambda method, path: method == "POST"
        heard = len(service.heard)
        service.start()
        until(lambda: len(service.heard) > heard + 2 * delivery_thread.MAX_TRIES * (delivery_thread.MAX_FAILURES + 1))
        assert client.status().quarantined == 0
        service.trouble = None
        until(lambda: client.status().waiting == 0)
        assert {*shown} < set(service.impressions)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_what_people_searched_for_is_for_the_owner_alone_whatever_the_umask(
    service: StandIn, tmp_path: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        with knowing(service, spool=tmp_path / "spool") as client:
            service.stop()
            client.interleave("shoes", RANKINGS, unit="u", query="q")
            files = list((tmp_path / "spool").iterdir())
            assert {file.suffix for file in files} == {".json", ".lock", ".settings"}
            assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
            assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700
    finally:
        os.umask(before)
    service.start()


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_a_folder_that_others_can_open_is_left_as_it_is_and_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o755)
    FolderSpool(tmp_path, 10)
    assert "others can open the spool folder" in caplog.text
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_spools_keep_order_and_bound(tmp_path: Path) -> None:
    for spool in (MemorySpool(1000), FolderSpool(tmp_path, 1000)):
        texts = [str(n).encode() for n in range(300)]
        assert all(spool.put(text) for text in texts)
        assert [spool.read(name) for name in spool.names()] == texts
        for name in random.sample(spool.names(), 300):
            spool.remove(name)
        assert spool.is_empty()
        assert spool.read("gone") is None


def test_one_process_at_a_time_delivers_a_folder(tmp_path: Path) -> None:
    one, other = FolderSpool(tmp_path, 10), FolderSpool(tmp_path, 10)
    with one.claim() as first, other.claim() as second:
        assert (first, second) == (True, False)
    with other.claim() as third:
        assert third


KILLED = """
import sys, json
from interleaf.client import Client
client = Client(sys.argv[1], sys.argv[2], spool=sys.argv[3], timeout=0.3)
n = 0
while True:
    answer = client.interleave("shoes", json.loads(sys.argv[4]), unit=f"user-{n}", query="q")
    client.click(answer.impression, 1)
    print(answer.impression, flush=True)
    n += 1
"""


def test_processes_that_are_killed_in_an_outage_lose_nothing(service: StandIn, tmp_path: Path) -> None:
    knowing(service, spool=tmp_path).close()
    service.stop()
    arguments = [sys.executable, "-c", KILLED, service.url, KEY, str(tmp_path), json.dumps(RANKINGS)]
    killed = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    shown = set[str]()
    for process in killed:
        assert process.stdout is not None
        shown |= {process.stdout.readline().strip() for _ in range(25)}
        process.send_signal(signal.SIGKILL)
        shown |= {line.strip() for line in process.stdout.read().splitlines() if len(line) == 32}
        process.stdout.close()
        process.wait()
    assert len(shown) >= 50
    service.start()
    with Client(service.url, KEY, spool=tmp_path, **QUICK) as client:  # type: ignore[arg-type]
        until(lambda: client.status().waiting == 0)
    assert shown <= set(service.impressions)
    assert {event["impression"] for event in service.events.values()} >= shown
    assert service.unmatched == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_the_child_of_a_fork_delivers_its_own_and_not_its_parents(service: StandIn, tmp_path: Path) -> None:
    script = """
import os, sys, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of forks with threads; servers do fork
from tests.support.stand_in import KEY, StandIn, until
from tests.client.test_outage import RANKINGS, knowing
service = StandIn()
client = knowing(service)
service.trouble = (503, {})
client.interleave("shoes", RANKINGS, unit="parent", query="q", impression="parent")
heard, said = os.pipe()
child = os.fork()
if child == 0:
    client.interleave("shoes", RANKINGS, unit="child", query="q", impression="child")
    print("in the child:", client.status().waiting, flush=True)
    os.write(said, b".")
    until(lambda: client.status().waiting == 0)
    os._exit(0)
os.close(said)
os.read(heard, 1)
service.trouble = None
assert os.waitpid(child, 0)[1] == 0
until(lambda: client.status().waiting == 0)
print(sorted(service.impressions))
client.close()
service.end()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.stdout.splitlines() == ["in the child: 1", "['before', 'child', 'parent']"], done.stderr
