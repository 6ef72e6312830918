"""Signs what comes back from browsers: tokens of impressions, and links that count clicks."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from interleaf.errors import InterleafError

MIN_SECRET = 16  # bytes
CLICK = "/_interleaf/click"
MAX_URL = 2000
_PURPOSE = "link"


class Signer:
    """Makes and checks signatures with one secret; without a file, it is new with each start.

    >>> signer = Signer(b"0123456789abcdef")
    >>> signer.is_valid(signer.sign("token", "i-1"), "token", "i-1"), signer.is_valid("0" * 32, "token", "i-1")
    (True, False)
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret or secrets.token_bytes(32)

    def sign(self, *parts: str) -> str:
        """The signature of some texts."""
        text = "\0".join(f"{len(part)}:{part}" for part in parts)
        return hmac.new(self._secret, text.encode("utf-8", "surrogatepass"), sha256).hexdigest()[:32]

    def is_valid(self, signature: str, *parts: str) -> bool:
        """Whether a signature is that of these texts."""
        return hmac.compare_digest(signature.encode("utf-8", "surrogatepass"), self.sign(*parts).encode())


def read_signer(path: Path | None) -> Signer:
    """A signer with the secret in a file."""
    if path is None:
        return Signer()
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise InterleafError(f"cannot read the secret {path}: {error.strerror}") from None
    if len(secret) < MIN_SECRET:
        raise InterleafError(f"{path} holds {len(secret)} bytes; a secret has at least {MIN_SECRET}")
    return Signer(secret)


class LinkTarget(NamedTuple):
    """What a valid link says: the impression, the rank and the URL of the document."""

    impression: str
    rank: int
    url: str


def make_link(signer: Signer, impression: str, rank: int, url: str) -> str | None:
    """The link for a document; None if its URL is too long, or not one that browsers should be sent to.

    >>> signer = Signer(b"0123456789abcdef")
    >>> link = make_link(signer, "i-1", 3, "https://shop.example/d7")
    >>> link.startswith("/_interleaf/click?i=i-1&r=3&u=https%3A%2F%2Fshop.example%2Fd7&s=")
    True
    >>> make_link(signer, "i-1", 3, "javascript:alert(1)") is None
    True
    """
    if not _is_safe(url):
        return None
    signature = signer.sign(_PURPOSE, impression, str(rank), url)
    return f"{CLICK}?{urlencode({'i': impression, 'r': rank, 'u': url, 's': signature})}"


def read_link(signer: Signer, values: Mapping[str, str]) -> LinkTarget | None:
    """What a link says; None if the proxy did not make it."""
    impression, rank, url, signature = (values.get(name, "") for name in ("i", "r", "u", "s"))
    if not signer.is_valid(signature, _PURPOSE, impression, rank, url) or not rank.isdecimal():
        return None
    return LinkTarget(impression, int(rank), url)


def _is_safe(url: str) -> bool:
    """Whether a URL is http(s), or a path of the same site, and fits a header."""
    if not url.isprintable() or len(url) > MAX_URL:
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    is_path = not parts.scheme and not parts.netloc and url.startswith("/") and url[1:2] not in ("/", "\\")
    return is_path or (parts.scheme in ("http", "https") and bool(parts.netloc))
