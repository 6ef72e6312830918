"""Links that count a click and redirect to the document; they are signed, so that they lead to nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from interleaf.proxy.tokens import Signer

CLICK = "/_interleaf/click"
MAX_URL = 2000
_PURPOSE = "link"


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
