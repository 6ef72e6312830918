"""What a client returns, and error responses of the service as the exception that it raises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interleaf.errors import ClientError


@dataclass(frozen=True)
class Answer:
    """The documents to show.

    `impression` is what events name; None where nothing is logged of this page. `arm` is `interleaved`, `holdout`,
    `fallback`, or `outside` of the experiment. `token` lets a browser report events of this impression; only the
    service can give one. `stored`: the service has it; False where it waits in the spool, or is not logged at all.
    """

    impression: str | None
    documents: list[str]
    arm: str
    token: str | None = None
    version: int | None = None
    stored: bool = False


@dataclass(frozen=True)
class Taken:
    """What became of events: `spooled` ones are sent when the service answers again.

    `unusable` ones were not sent, or were refused: they name no result of a list, or no kind.
    """

    accepted: int = 0
    repeated: int = 0
    unmatched: int = 0
    spooled: int = 0
    unusable: int = 0

    def __add__(self, other: Taken) -> Taken:
        return Taken(
            self.accepted + other.accepted,
            self.repeated + other.repeated,
            self.unmatched + other.unmatched,
            self.spooled + other.spooled,
            self.unusable + other.unusable,
        )


@dataclass(frozen=True)
class Status:
    """How a client fares: whether the service is away, and how many records wait, were dropped, were refused.

    Dropped is what found the spool full; refused is what the service would not take when it was sent later, and lists
    of known experiments that the key is not for. Cleaned
    are values of visitors that could not be used as they came: a query that is too long, a page number below 1.
    Quarantined are files of the spool folder that are no records, and records that the service answered with 500
    again and again while it took others: they were renamed to `.bad`.
    """

    away: bool
    waiting: int
    dropped: int
    refused: int
    cleaned: int = 0
    quarantined: int = 0


def to_client_error(status: int, error: Mapping[str, Any]) -> ClientError:
    """An error response of the service as an exception, with its message."""
    field = error.get("field")
    place = f" (at {field})" if field else ""
    return ClientError(f"{error['message']}{place} [{status} {error['code']}]", status, error["code"], field)


def is_key_rejected(status: int, error: Mapping[str, Any]) -> bool:
    """Whether the key itself is refused: missing, unknown, revoked or expired, which an admin can mend."""
    return status in (401, 403) and not is_out_of_scope(error)


def is_out_of_scope(error: Mapping[str, Any]) -> bool:
    """Whether the key is valid, and this request is not for it; other requests may be."""
    return error.get("code") in ("wrong_experiment", "wrong_role")
