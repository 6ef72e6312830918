"""Why PostgreSQL cannot be used, in words that never hold a password.

libpq gives no code for a connection that failed, only a text. It may quote parts of a mistyped address, and so parts of
the password: the text is looked at, and never shown.
"""

from __future__ import annotations

import re

import psycopg
from psycopg.conninfo import conninfo_to_dict

from interleaf.errors import DataError

_BY_TEXT = (
    (
        r"authentication failed|no password supplied|pg_hba\.conf|role .* does not exist|\bSCRAM\b",
        "it refused the user name or password (authentication); check both in the store's address, and pg_hba.conf",
    ),
    (r"database .* does not exist", "it has no such database; make it with createdb, or mend the name in the address"),
    (
        r"translate host name|resolve host|[Nn]ame or service not known|name resolution|nodename nor servname",
        "the host name is unknown; mend it in the store's address",
    ),
    (r"\bSSL\b|\bTLS\b|certificate", "the encrypted connection failed (TLS); check sslmode and the certificates"),
    (
        r"[Cc]onnection refused|No such file or directory|is the server running",
        "the connection was refused: nothing listens at this host and port; start PostgreSQL, or mend the address",
    ),
    (r"starting up|shutting down|recovery mode", "it is starting or stopping; try again in a moment"),
    (r"too many clients|connection slots|too many connections", "it takes no more connections; raise max_connections"),
    (r"terminating connection|closed the connection|connection is lost|[Cc]onnection reset", "the connection was lost"),
    (r"couldn't get a connection", "it does not answer, or all connections of this process are busy"),
    (r"time[d]?[ -]?out|no answer|[Nn]o route to host|unreachable", "it does not answer; check the host and network"),
)
_BY_CODE = {
    "28000": _BY_TEXT[0][1],
    "28P01": _BY_TEXT[0][1],
    "3D000": _BY_TEXT[1][1],
    "42501": "the user has no permission for that; GRANT it CREATE on the schema, or make it the owner of the tables",
    "25006": "it is read-only, as a standby is; give the address of the primary",
    "53100": "its disk is full; make room",
    "53300": _BY_TEXT[6][1],
    "55P03": "another transaction holds a lock for too long",
    "57014": "a statement took too long",
    "57P01": "it is stopping; try again in a moment",
    "57P03": "it is starting or stopping; try again in a moment",
}
_UNKNOWN = "its own log says why"


def cause_of(error: BaseException) -> str:
    """Why a call failed, with the remedy."""
    code = getattr(error, "sqlstate", None)
    if code in _BY_CODE:
        return _BY_CODE[code]
    text = str(error)
    named = next((words for pattern, words in _BY_TEXT if re.search(pattern, text)), None)
    return named or f"{type(error).__name__}: {_UNKNOWN}"


def described(address: str) -> str:
    """Where a PostgreSQL is, and for whom, without the password; an address that cannot be read is a DataError."""
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(address).items()}
    except psycopg.Error:
        raise _unreadable() from None
    named = {name: parts.get(name, "") for name in ("host", "hostaddr", "port", "dbname", "user")}
    if any("@" in value for value in named.values()) or not re.fullmatch(r"[\d,]*", named["port"]):
        raise _unreadable()
    where = named["host"] or named["hostaddr"] or "this machine"
    port = f", port {named['port']}" if named["port"] else ""
    whose = "".join(
        f", {what} {named[name]!r}" for what, name in (("database", "dbname"), ("user", "user")) if named[name]
    )
    return f"PostgreSQL at {where}{port}{whose}"


def _unreadable() -> DataError:
    return DataError(
        "the store's address cannot be read; it is postgresql://user:password@host:port/database, and characters such "
        "as @ : / ? # % in a user name or password are written as %40 %3A %2F %3F %23 %25"
    )
