"""Why a call of PostgreSQL failed, and where an address leads, without any part of a password.

libpq gives only a text, not a code, for a failed connection. The text may quote parts of a mistyped address, and so
parts of the password. So it is matched against patterns, and never shown.
"""

from __future__ import annotations

import re

import psycopg
from psycopg.conninfo import conninfo_to_dict

from interleaf.errors import DataError

_REFUSED = "it refused the user name or password (authentication); check both in the address, and pg_hba.conf"
_NO_DATABASE = "it has no such database; create it with createdb, or correct the name in the address"
_FULL = "it accepts no more connections; raise max_connections"
_STARTING = "it is starting or stopping; try again in a moment"
_CLOSED = "the connection was refused: nothing listens at this host and port; start PostgreSQL, or correct the address"
_NO_HOST = "the host name is unknown; correct it in the address"
_BY_TEXT = (
    (r"authentication failed|no password supplied|pg_hba\.conf|role .* does not exist|\bSCRAM\b", _REFUSED),
    (r"database .* does not exist", _NO_DATABASE),
    (r"translate host name|resolve host|[Nn]ame or service not known|name resolution|nodename nor servname", _NO_HOST),
    (r"\bSSL\b|\bTLS\b|certificate", "the encrypted connection failed (TLS); check sslmode and the certificates"),
    (r"[Cc]onnection refused|No such file or directory|is the server running", _CLOSED),
    (r"starting up|shutting down|recovery mode", _STARTING),
    (r"too many clients|connection slots|too many connections", _FULL),
    (r"terminating connection|closed the connection|connection is lost|[Cc]onnection reset", "the connection was lost"),
    (r"couldn't get a connection", "it does not answer, or all connections of this process are busy"),
    (r"time[d]?[ -]?out|no answer|[Nn]o route to host|unreachable", "it does not answer; check the host and network"),
)
_BY_CODE = {
    "28000": _REFUSED,
    "28P01": _REFUSED,
    "3D000": _NO_DATABASE,
    "42501": "the user has no permission for that; GRANT it CREATE on the schema, or make it the owner of the tables",
    "25006": "it is read-only, as a standby is; give the address of the primary",
    "53100": "its disk is full; make room",
    "53300": _FULL,
    "55P03": "another transaction holds a lock for too long",
    "57014": "a statement took too long",
    "57P01": "it is stopping; try again in a moment",
    "57P03": _STARTING,
}


def cause_of(error: BaseException) -> str:
    """Why a call failed, with the remedy."""
    code, text = getattr(error, "sqlstate", None), str(error)
    causes = (cause for pattern, cause in _BY_TEXT if re.search(pattern, text))
    return _BY_CODE.get(code or "") or next(causes, f"{type(error).__name__}: see the log of the server")


def describe_address(address: str, whose: str = "the store's address") -> str:
    """Host, database and user of an address, without the password; DataError if it cannot be parsed."""
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(address).items()}
        named = {name: parts.get(name, "") for name in ("host", "hostaddr", "port", "dbname", "user")}
        if any("@" in value for value in named.values()) or not re.fullmatch(r"[\d,]*", named["port"]):
            raise ValueError
    except (psycopg.Error, ValueError):
        raise DataError(
            f"{whose} cannot be read; it is postgresql://user:password@host:port/database, and characters "
            "such as @ : / ? # % in a user name or password are written as %40 %3A %2F %3F %23 %25"
        ) from None
    where = named["host"] or named["hostaddr"] or "this machine"
    port = f", port {named['port']}" if named["port"] else ""
    database = f", database {named['dbname']!r}" if named["dbname"] else ""
    user = f", user {named['user']!r}" if named["user"] else ""
    return f"PostgreSQL at {where}{port}{database}{user}"
