"""The command that shows the whole thing: demo."""

from __future__ import annotations

import argparse
import signal

from interleaf.demo.engine import RANKERS


def demo_options(made: argparse.ArgumentParser) -> None:
    """Who searches, whom they compare, and where."""
    made.add_argument("--people", type=int, default=1000, help="number of simulated people; 0: only you")
    made.add_argument(
        "--until-decided", action="store_true", help="print the report and end as soon as there is a verdict"
    )
    known = ", ".join(RANKERS)
    made.add_argument(
        "--rankers", nargs="+", default=["equal", "exact"], help=f"the rankers to compare, the control first: {known}"
    )
    made.add_argument("--seed", type=int, default=1, help="the random seed of the people")
    made.add_argument("--port", type=int, default=0, help="the port of the service; 0: any free port")
    made.add_argument("--store", metavar="PATH", help="the store of the service; a temporary file if left out")


def run_demo(options: argparse.Namespace) -> int:
    """A search engine, a service, people, a dashboard."""
    import interleaf.server  # noqa: F401, first: it raises the error if the service's extra is not installed
    from interleaf.demo.live_demo import Demo, run

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # who is told to end leaves no files behind, either
    return run(Demo(options.rankers, options.people, options.seed, options.port, options.store, options.until_decided))
