"""Signs what comes back from browsers: tokens of impressions, and links that count clicks."""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from pathlib import Path

from interleaf.errors import InterleafError

MIN_SECRET = 16  # bytes


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
