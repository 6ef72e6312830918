"""Settings of the test run: where compiled kernels are kept, and how Hypothesis searches."""

import os
import tempfile
from hashlib import blake2b
from pathlib import Path

from hypothesis import HealthCheck, settings

SOURCES = Path(__file__).parent.parent / "src" / "interleaf"


def digest_of_sources() -> str:
    """One name for the state of all kernel sources: numba does not notice an edited helper in another file."""
    digest = blake2b(digest_size=8)
    for path in sorted(SOURCES.rglob("*.py")):
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


# Set before any test module imports numba, which reads it once.
os.environ["NUMBA_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / f"interleaf-numba-{digest_of_sources()}")

settings.register_profile(
    "interleaf",
    deadline=None,  # the first call of a kernel compiles it
    derandomize="CI" in os.environ,
    max_examples=60,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("interleaf")
