"""What the tests of LETOR files share: writing one, and telling whether two sets are the same to the last bit."""

from pathlib import Path

from interleaf.simulate import Judged


def written(folder: Path, text: str | bytes, name: str = "rows.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def same(one: Judged, other: Judged) -> bool:
    return (
        one.features.tobytes() == other.features.tobytes()
        and one.features.shape == other.features.shape
        and one.grades.tolist() == other.grades.tolist()
        and one.offsets.tolist() == other.offsets.tolist()
        and one.queries == other.queries
    )
