"""UBI files to a native log: events per second, and memory; `python -m benchmarks.imports [QUERIES]`.

Each file is read by a process of its own. A query shows ten hits. In the bulk file it has about four events; our own
export is of a simulated log, with about 1.4 events for each impression.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pyarrow.compute as pc
import pyarrow.parquet as pq

from interleaf.importers.ubi import import_ubi
from interleaf.importers.ubi_export import export_ubi
from interleaf.simulate.data import synthetic
from interleaf.simulate.world import World

QUERIES = 250_000
ASKED = 100_000  # events a second


def tables(queries: int = QUERIES) -> Iterator[str]:
    """A bulk file of a tenth and of all of the queries, which shows whether memory grows; then an export of ours."""
    yield f"\nUBI files to a native log, 10 hits a query ({ASKED:,} events/s asked for)"
    head = f"{'file':>8}{'queries':>9}{'events':>11}{'MB':>6}"
    yield head + f"{'events/s':>11}{'of processor':>14}{'queries/s':>11}{'MB/s':>6}  MiB"
    with tempfile.TemporaryDirectory() as folder:
        for name, part in (("bulk", queries // 10), ("bulk", queries), ("export", queries)):
            path = Path(folder) / f"{name}-{part}.ndjson"
            events = write_ubi(path, part) if name == "bulk" else write_export(path, part)
            size = path.stat().st_size / 1e6
            command = [sys.executable, "-m", "benchmarks.imports", "measure", str(path)]
            seconds, processor, memory = json.loads(subprocess.check_output(command))
            rates = f"{events / seconds:>11,.0f}{events / processor:>14,.0f}{part / processor:>11,.0f}"
            yield f"{name:>8}{part:>9,}{events:>11,}{size:>6,.0f}{rates}{size / seconds:>6,.0f}{memory:>5,.0f}"


def measure(path: str) -> tuple[float, float, float]:
    """Seconds on the clock and of all processors, and the peak of memory in MiB, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        start, processor = time.perf_counter(), time.process_time()
        import_ubi(path, Path(folder) / "log.parquet")
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
    return seconds, processor, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write_ubi(path: Path, queries: int) -> int:
    """A bulk file as the plugin's users export it; returns how many events it holds."""
    draw = Random(1)
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for number in range(queries):
            name, person = f"{draw.getrandbits(128):032x}", f"client-{number // 3}"
            hits = [f"B{draw.randrange(10**9):09d}" for _ in range(10)]
            query = {
                **{"application": "shop", "query_id": name, "client_id": person, "user_query": f"shoes {number}"},
                **{"query_attributes": {"device": "phone"}, "object_id_field": "asin"},
                **{"timestamp": f"2026-11-15T12:{number // 60 % 60:02d}:{number % 60:02d}.378Z"},
                **{"query_response_id": name, "query_response_hit_ids": hits},
            }
            _write(file, "ubi_queries", name, query)
            for event in range(draw.randrange(9)):
                place = draw.randrange(10)
                thing = {"object_id": hits[place], "object_id_field": "asin"}
                _write(file, "ubi_events", f"{name}-{event}", {
                    **{"application": "shop", "action_name": "click", "query_id": name, "client_id": person},
                    **{"session_id": f"session-{number}", "user_query": f"shoes {number}"},
                    **{"timestamp": f"2026-11-15T13:{number // 60 % 60:02d}:{number % 60:02d}.{event:03d}Z"},
                    **{"message_type": "CLICK", "message": "a pair of shoes"},
                    "event_attributes": {"object": thing, "position": {"ordinal": place + 1}},
                })  # fmt: skip
                count += 1
    return count


def write_export(path: Path, impressions: int) -> int:
    """Our own export of a simulated log; returns how many events it holds."""
    log = path.with_suffix(".parquet")
    World(synthetic(), [1, 5], seed=1).write(log, impressions)
    export_ubi(log, path)
    return pc.sum(pc.list_value_length(pq.read_table(log, columns=["events"])["events"])).as_py()  # type: ignore[no-any-return]


def _write(file: object, index: str, name: str, record: Mapping[str, object]) -> None:
    print(json.dumps({"index": {"_index": index, "_id": name}}), json.dumps(record), sep="\n", file=file)  # type: ignore[call-overload]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(sys.argv[2])))
    else:
        for line in tables(int(sys.argv[1]) if len(sys.argv) > 1 else QUERIES):
            print(line, flush=True)
