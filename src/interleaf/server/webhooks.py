"""Sends webhooks, signed by the scheme of Standard Webhooks, only to addresses that are allowed.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPException
from urllib.parse import SplitResult, urlsplit

from interleaf.client.connections import Addresses, TimedConnection
from interleaf.errors import InterleafError

PREFIX = "whsec_"
MIN_KEY, MAX_KEY = 24, 64  # bytes of a secret, by the specification
ALLOW_PRIVATE = "--webhook-allow-private"
NEW_SECRET = "(printf whsec_; openssl rand -base64 32) > webhook.secret; chmod 600 webhook.secret"
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")  # the last four bytes are an IPv4 address
# 6to4 and site-local addresses, which may lead into a private network; addresses for the metadata of clouds.
_REFUSED = tuple(map(ipaddress.ip_network, ("2002::/16", "fec0::/10", "192.0.0.0/24", "168.63.129.16/32")))


@dataclass(frozen=True)
class WebhookSettings:
    """Addresses of webhooks, the secrets that sign them (the newest first), and the public address of the service."""

    urls: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)
    allow_private: bool = False
    public_url: str = "http://127.0.0.1:8080"

    def __post_init__(self) -> None:
        _check_url(self.public_url)
        for url in self.urls:
            problem = _find_literal_problem(_check_url(url).hostname or "")
            if problem and not self.allow_private:
                raise InterleafError(f"the webhook {url!r} {problem}; give a public address, or {ALLOW_PRIVATE}")
        if self.urls and not self.secrets:
            raise InterleafError(f"webhooks need a secret; give --webhook-secret-file, made with {NEW_SECRET}")
        for secret in self.secrets:
            _decode_secret(secret)

    @cached_property
    def keys(self) -> list[bytes]:
        """The secrets as bytes."""
        return [_decode_secret(secret) for secret in self.secrets]


def _check_url(url: str) -> SplitResult:
    """The parts of an address that may get webhooks."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isascii() or not url.isprintable() or " " in url or "#" in url:
        raise InterleafError(f"{url!r} is not a web address; give one such as 'https://alerts.example/interleaf'")
    if parts.username is not None or parts.password is not None:
        host = parts.hostname
        raise InterleafError(
            f"the address at {host} contains a user name or password; leave it out: webhooks are signed"
        )
    return parts


def _decode_secret(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not MIN_KEY <= len(key) <= MAX_KEY:
        problem = f"a webhook secret is {PREFIX} and {MIN_KEY} to {MAX_KEY} random bytes in base64"
        raise InterleafError(f"{problem}; make one with {NEW_SECRET}")
    return key


def sign(keys: Iterable[bytes], webhook_id: str, timestamp: int, body: bytes) -> str:
    """The signatures of a webhook, one for each key: HMAC-SHA256 of `id.timestamp.body`.

    >>> sign([b"k" * 24], "evt_1", 1_800_000_000, b"{}")
    'v1,91CQy+edzjC4E3b/CzICTs+9Kmm9x5khQIJk+pgc9ss='
    """
    content = f"{webhook_id}.{timestamp}.".encode() + body
    signatures = [hmac.new(key, content, hashlib.sha256).digest() for key in keys]
    return " ".join(f"v1,{base64.b64encode(signature).decode()}" for signature in signatures)


def find_address_problem(text: str) -> str:
    """Why webhooks must not go to an IP address; empty if it is a public one.

    >>> find_address_problem("10.0.0.7"), find_address_problem("::ffff:127.0.0.1")
    ('is not public (10.0.0.7)', 'is not public (::ffff:127.0.0.1)')
    >>> find_address_problem("93.184.215.14")
    ''
    """
    address = ipaddress.ip_address(text)
    if address in _TRANSLATED:
        address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    is_public = address.is_global and not (address.is_multicast or address.is_reserved)
    return "" if is_public and not any(address in network for network in _REFUSED) else f"is not public ({text})"


def _find_literal_problem(host: str) -> str:
    """The same for the host of an address, as far as it can be known without a look-up."""
    try:
        return find_address_problem(host)
    except ValueError:
        return f"is not public ({host})" if host.rstrip(".").rpartition(".")[2].lower() == "localhost" else ""


class RefusedAddressError(OSError):
    """The host of a webhook has an address that is not public."""


class PublicConnection(TimedConnection):
    """A connection to a host whose addresses are all public. It connects to the addresses that were checked."""

    def find_addresses(self) -> Addresses:
        addresses = super().find_addresses()
        for *_, place in addresses:
            if problem := find_address_problem(place[0]):
                raise RefusedAddressError(f"{self.host} {problem}")
        return addresses


MAX_SECONDS = 10.0  # for the look-up, the connection, the request and the head of the answer together


class WebhookSender:
    """Sends webhooks. It follows no redirects, uses no proxies, and does not read the bodies of answers."""

    def __init__(self, settings: WebhookSettings, context: ssl.SSLContext | None = None) -> None:
        self._settings, self._given_context = settings, context

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return self._given_context or ssl.create_default_context()

    def send(self, url: str, webhook_id: str, body: str, now: int) -> str:
        """Send a webhook; returns why it failed, or an empty text. `now` is in seconds since 1970."""
        if url not in self._settings.urls:
            return "the service no longer sends webhooks to this address"
        data = body.encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "interleaf",
            "webhook-id": webhook_id,
            "webhook-timestamp": str(now),
            "webhook-signature": sign(self._settings.keys, webhook_id, now, data),
        }
        try:
            status = self._post(_check_url(url), data, headers)
        except RefusedAddressError as problem:
            return f"{problem}; the operator can allow that with {ALLOW_PRIVATE}"
        except (OSError, HTTPException, ValueError) as problem:
            return f"{type(problem).__name__}: {problem}"[:200]
        if 200 <= status < 300:
            return ""
        return f"the answer was {status}" + ", a redirect, which is not followed" * (300 <= status < 400)

    def _post(self, parts: SplitResult, data: bytes, headers: dict[str, str]) -> int:
        """The status of the answer."""
        kind = TimedConnection if self._settings.allow_private else PublicConnection
        context = self._context if parts.scheme == "https" else None
        connection = kind(parts.hostname or "", parts.port, context)
        connection.deadline = time.monotonic() + MAX_SECONDS
        try:
            path = (parts.path or "/") + f"?{parts.query}" * bool(parts.query)
            connection.request("POST", path, data, headers)
            return connection.getresponse().status
        finally:
            connection.close()
