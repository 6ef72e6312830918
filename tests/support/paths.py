"""Where the files are that tests read."""

from pathlib import Path

ROOT = Path(__file__).parents[2]  # the project
VECTORS = ROOT / "tests" / "vectors"
SHARED = ROOT.parent / "shared"  # real data and papers, which may be absent
