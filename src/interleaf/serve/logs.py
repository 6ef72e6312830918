"""Structured logs: a line of JSON an event, without units, queries or documents."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class Lines(logging.Formatter):
    """A record as a line of JSON: time, level, what, and the fields that came with it."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "what": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _PLAIN}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up(level: str = "INFO") -> None:
    """Send what interleaf, its server and its pool of connections log to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(Lines())
    for name, least in (("interleaf", level), ("uvicorn.error", level), ("psycopg.pool", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(least)  # the pool tells of every connection that it gives
