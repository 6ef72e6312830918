"""A job for every night: analyse the log so far, write the report as a page, and say what to do.

    python -m examples.batch_job log report.html

The exit status is 1 if a health check failed, so that the scheduler raises an alarm; the report says which.
"""

import argparse
from collections.abc import Sequence

import interleaf


def main(arguments: Sequence[str] | None = None) -> int:
    """Analyse a log folder; returns the exit status."""
    parser = argparse.ArgumentParser(description="Analyse a log, and write the report as a page.")
    parser.add_argument("log", help="the folder or file of the log")
    parser.add_argument("page", help="where to write the report, such as report.html")
    parser.add_argument("--control", default="production", help="the ranker in use (default: %(default)s)")
    options = parser.parse_args(arguments)
    report = interleaf.analyze(options.log, control=options.control)
    report.to_html(options.page)
    print(report.verdict.sentence)
    print(report.verdict.next_step)
    return 0 if report.verdict.trusted else 1


if __name__ == "__main__":
    raise SystemExit(main())
