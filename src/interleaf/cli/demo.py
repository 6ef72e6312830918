"""The command that shows the whole thing: demo."""

from __future__ import annotations

import argparse
import signal

from interleaf.demo.rankers import RANKERS


def demo_options(made: argparse.ArgumentParser) -> None:
    """Who searches, whom they compare, and where."""
    made.add_argument("--people", type=int, default=1000, help="how many simulated people search; 0: only you")
    made.add_argument("--until-decided", action="store_true", help="end with the report as soon as there is a verdict")
    known = ", ".join(RANKERS)
    made.add_argument("--rankers", nargs="+", default=["equal", "exact"], help=f"the control first; known are {known}")
    made.add_argument("--seed", type=int, default=1, help="another seed, other people")
    made.add_argument("--port", type=int, default=0, help="of the service; any that is free if left out")
    made.add_argument("--store", metavar="PATH", help="keep what happens there; a temporary file if left out")


def run_demo(options: argparse.Namespace) -> int:
    """A search engine, a service, people, a dashboard."""
    import interleaf.serve  # noqa: F401, first: it raises the error if the service's extra is not installed
    from interleaf.demo.run import Demo, run

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # who is told to end leaves no files behind, either
    return run(Demo(options.rankers, options.people, options.seed, options.port, options.store, options.until_decided))
