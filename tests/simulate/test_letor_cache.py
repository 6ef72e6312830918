"""The cache of parsed LETOR files: the same bytes are parsed once, and nothing half-written or broken is ever used."""

from collections.abc import Callable, Iterator
from mmap import mmap
from pathlib import Path

import numpy as np
import pytest

from interleaf import DataError
from interleaf.environment import cache_folder
from interleaf.kernels.arrays import Array
from interleaf.simulate import letor, read_letor
from tests.support.letor_files import same, written

GOOD = "1 qid:a 1:0.5 3:2\n0 qid:a 2:1\n2 qid:b 1:1e-3\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("INTERLEAF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "letor"


@pytest.fixture
def parsed_pieces(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of which the parser was given a piece."""
    seen: list[Path] = []
    inner = letor._parse_piece

    def noted(piece: letor.LetorPiece, width: int) -> letor.Block:
        seen.append(piece.path)
        return inner(piece, width)

    monkeypatch.setattr(letor, "_parse_piece", noted)
    return seen


def is_mapped(array: object) -> bool:
    """Whether its values lie in a mapped file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap)


def test_the_cache_answers_for_the_same_bytes(tmp_path: Path, own_cache: Path, parsed_pieces: list[Path]) -> None:
    path = written(tmp_path, GOOD)
    first = read_letor(path)
    count = len(parsed_pieces)
    assert count > 0
    again = read_letor(written(tmp_path, GOOD, "elsewhere.txt"))
    assert len(parsed_pieces) == count
    assert same(first, again)
    assert same(first, read_letor(path, cache=False))
    assert again.name == "elsewhere.txt"
    assert is_mapped(again.features)
    assert not again.features.flags.writeable
    assert [entry.name.startswith("part-") for entry in own_cache.iterdir()] == [False]


def test_other_bytes_are_parsed_anew(tmp_path: Path, own_cache: Path) -> None:
    assert read_letor(written(tmp_path, GOOD)).max_grade == 2
    assert read_letor(written(tmp_path, GOOD.replace("2 qid:b", "4 qid:b"))).max_grade == 4
    one, two = written(tmp_path, "1 qid:a 1:1\n", "one"), written(tmp_path, "1 qid:a 1:11 qid:b 1:1\n", "two")
    with pytest.raises(DataError):  # the two together hold the bytes of the two below, which are fine
        read_letor([one, two])
    assert len(read_letor([one, written(tmp_path, "1 qid:b 1:1\n", "three")])) == 2
    assert len(list(own_cache.iterdir())) == 3


def test_the_cache_can_be_off(tmp_path: Path, own_cache: Path) -> None:
    read_letor(written(tmp_path, GOOD), cache=False)
    assert not own_cache.exists()


def cut_short(entry: Path) -> None:
    path = entry / "features.npy"
    path.write_bytes(path.read_bytes()[:-4])


def scribbled(entry: Path) -> None:
    (entry / "grades.npy").write_bytes(b"nothing of the kind")


def of_another_size(entry: Path) -> None:
    np.save(entry / "offsets.npy", np.array([0, 1, 2]))


def of_another_kind(entry: Path) -> None:
    np.save(entry / "features.npy", np.zeros((3, 3)))


def without_a_part(entry: Path) -> None:
    (entry / "queries.npy").unlink()


@pytest.mark.parametrize("broken", [cut_short, scribbled, of_another_size, of_another_kind, without_a_part])
def test_a_broken_entry_is_written_again(
    tmp_path: Path, own_cache: Path, parsed_pieces: list[Path], broken: Callable[[Path], None]
) -> None:
    path = written(tmp_path, GOOD)
    whole = read_letor(path, cache=False)
    read_letor(path)
    (entry,) = own_cache.iterdir()
    broken(entry)
    assert same(read_letor(path), whole)
    parsed_pieces.clear()
    assert same(read_letor(path), whole)
    assert parsed_pieces == []


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLEAF_CACHE", str(written(tmp_path, "a file, not a folder", "cache")))
    assert len(read_letor(written(tmp_path, GOOD))) == 2


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Iterator[int] = iter(range(2))

    def save(path: Path, array: Array) -> None:
        if next(calls) == 1:
            raise KeyboardInterrupt
        path.write_bytes(array.tobytes())

    monkeypatch.setattr("interleaf.simulate.letor.np.save", save)
    with pytest.raises(KeyboardInterrupt):
        read_letor(written(tmp_path, GOOD))
    assert list(own_cache.iterdir()) == []


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLEAF_CACHE", "/own")
    assert cache_folder("letor") == Path("/own/letor")
    monkeypatch.delenv("INTERLEAF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/general")
    assert cache_folder("letor") == Path("/general/interleaf/letor")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder("letor") == Path("/home/somebody/.cache/interleaf/letor")


def test_progress_counts_bytes(tmp_path: Path) -> None:
    path = written(tmp_path, "0 qid:1 1:5\n")
    for size, cache in ((12, False), (24, True), (24, True)):
        calls: list[tuple[int, int]] = []
        read_letor(path, cache, lambda *counts: calls.append(counts))  # noqa: B023 (called at once)
        assert calls[-1] == (size, size)
        assert calls == sorted(calls)
