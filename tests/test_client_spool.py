"""The spool: its bound, its order, and who delivers it when processes are killed, fork, or share a folder."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interleaf.client import Client
from interleaf.client.spool import FolderSpool, MemorySpool
from interleaf.errors import DataError
from tests.stand_in import KEY, StandIn, until
from tests.test_client_outage import QUICK, RANKINGS, knowing
from tests.test_client_outage import service as service


def test_what_finds_the_spool_full_is_dropped_counted_and_said_once(
    service: StandIn, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for spool in (None, tmp_path):
        with knowing(service, spool=spool, most_spooled=5) as client:
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
    with knowing(service, spool=tmp_path / "spool") as client:
        (tmp_path / "spool").rename(tmp_path / "gone")  # in one step: the courier may be writing into it
        service.stop()
        assert client.interleave("shoes", RANKINGS, unit="u", query="q").arm == "interleaved"
        assert client.status().dropped == 1
    service.start()


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
    with one.claimed() as first, other.claimed() as second:
        assert (first, second) == (True, False)
    with other.claimed() as third:
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
from tests.stand_in import KEY, StandIn, until
from tests.test_client_outage import RANKINGS, knowing
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
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, cwd=Path(__file__).parent.parent
    )
    assert done.stdout.splitlines() == ["in the child: 1", "['before', 'child', 'parent']"], done.stderr
