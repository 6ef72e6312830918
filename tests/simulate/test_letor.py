"""LETOR text: what is read equals what was written, from any kind of file and from the cache; bad rows are named."""

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf.kernels.arrays import Array
from interleaf.kernels.jit import plain
from interleaf.simulate import letor, read_letor
from interleaf.simulate.letor import Block, parse
from tests.support.letor_files import same
from tests.support.paths import SHARED

REAL = SHARED / "data"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property."""
    return tmp_path_factory.mktemp("letor")


class Row(NamedTuple):
    grade: int
    query: str
    features: dict[int, str]

    def text(self, comment: str = "") -> str:
        pairs = "".join(f" {number}:{value}" for number, value in self.features.items())
        return f"{self.grade} qid:{self.query}{pairs}{comment}\n"


def digits(most: int) -> st.SearchStrategy[str]:
    return st.text("0123456789", min_size=1, max_size=most)


POWER = st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 30))
DECIMALS = st.one_of(
    st.builds("{}.{}".format, digits(25), digits(25)),
    st.builds("{}.".format, digits(3)),
    st.builds(".{}".format, digits(30)),
    digits(25),
)
SPELT = st.builds("{}{}{}".format, st.sampled_from(["", "-", "+"]), DECIMALS, st.just("") | POWER)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
# Halfway between two float32: where a parser that rounds in the wrong place is found out.
HALVES = st.builds(lambda value: repr(float(value) * (1 + 2.0**-24)), FLOATS)
VALUES = st.one_of(FLOATS.map(repr), FLOATS.map("{:.6f}".format), HALVES, SPELT).filter(
    lambda text: abs(float(text)) < 3.4e38
)
QUERIES = st.text("abcXYZ0189-_.:é", min_size=1, max_size=5)


@st.composite
def sets(draw: st.DrawFn) -> list[Row]:
    """Rows of a few queries, each query's together."""
    rows: list[Row] = []
    for query in draw(st.lists(QUERIES, min_size=1, max_size=4, unique=True)):
        features = st.dictionaries(st.integers(1, 12), VALUES).map(lambda found: dict(sorted(found.items())))
        rows += draw(st.lists(st.builds(Row, st.integers(0, 127), st.just(query), features), min_size=1, max_size=4))
    rows[0].features.setdefault(20, "1")
    return rows


def expected(rows: list[Row]) -> Array:
    values = np.zeros((len(rows), 20), np.float32)
    for row, (_, _, features) in enumerate(rows):
        for number, value in features.items():
            values[row, number - 1] = np.float32(float(value))
    return values


@given(sets(), st.sampled_from(["", " # docid = 7", "# 1:nan", "\r"]), st.booleans())
def test_what_is_written_is_read(folder: Path, rows: list[Row], comment: str, ends: bool) -> None:
    text = "# made up\n\n" + "".join(row.text(comment) for row in rows)
    path = folder / "plain.txt"
    path.write_bytes((text if ends else text[:-1]).encode())
    data = read_letor(path, cache=False)
    assert data.features.tobytes() == expected(rows).tobytes()  # bit for bit, the sign of zero too
    assert data.grades.tolist() == [row.grade for row in rows]
    queries = [query for query, size in zip(data.queries, np.diff(data.offsets), strict=True) for _ in range(size)]
    assert queries == [row.query for row in rows]


@given(st.lists(VALUES, min_size=1, max_size=50))
def test_the_plain_form_reads_the_same(values: list[str]) -> None:
    text = np.frombuffer(Row(1, "a", dict(enumerate(values, 1))).text().encode(), np.uint8)
    found = []
    for form in (parse, plain(parse)):
        rows = Block(*(np.zeros((size, width), kind) for size, width, kind in ROOM))
        rows = rows._replace(grades=rows.grades[:, 0])
        found.append((form(text, rows), rows.features.tobytes(), rows.starts.tolist(), rows.doubts.tolist()))
    assert found[0] == found[1]


ROOM = ((1, 50, "f4"), (1, 1, "i1"), (1, 4, "i8"), (50, 4, "i8"))


def test_numbers_are_exact_and_hardly_ever_in_doubt(tmp_path: Path) -> None:
    """A hundred thousand random floats, written with 17 digits, with 9 and with 30."""
    generator = np.random.default_rng(1)
    values = generator.normal(size=100_000) * 10.0 ** generator.integers(-20, 20, 100_000)
    for form in ("{:.17g}", "{:.9g}", "{:.30f}"):
        words = [form.format(value) for value in values.tolist()]
        rows = [Row(0, "a", dict(enumerate(words[start : start + 100], 1))).text() for start in range(0, 100_000, 100)]
        path = tmp_path / "numbers.txt"
        path.write_text("".join(rows))
        found = read_letor(path, cache=False).features.ravel()
        assert np.array_equal(found, np.array([float(word) for word in words]).astype(np.float32))
        text = np.frombuffer(path.read_bytes(), np.uint8)
        room = Block(
            np.zeros((1000, 100), "f4"), np.zeros(1000, "i1"), np.zeros((1000, 4), "i8"), np.zeros((99, 4), "i8")
        )
        assert parse(text, room).doubts < 10


@given(sets())
def test_packed_is_plain(folder: Path, rows: list[Row]) -> None:
    text = "".join(row.text() for row in rows).encode()
    one, packed = folder / "one.txt", folder / "packed.txt"  # told by its bytes, not by its name
    one.write_bytes(text)
    packed.write_bytes(gzip.compress(text[:40]) + gzip.compress(text[40:]))
    assert same(read_letor(one, cache=False), read_letor(packed, cache=False))


@given(sets(), st.integers(0, 12))
def test_many_files_are_one_set(folder: Path, rows: list[Row], cut: int) -> None:
    cut = min(max(cut, 1), len(rows) - 1)
    parts = [rows[:cut], rows[cut:]] if cut else [rows]
    paths = [folder / f"part-{number}.txt" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        path.write_text("".join(row.text() for row in part), encoding="utf-8")
    whole = folder / "whole.txt"
    whole.write_text("".join(row.text() for row in rows), encoding="utf-8")
    assert same(read_letor(paths, cache=False), read_letor(whole, cache=False))


def test_pieces_join_without_a_seam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Row(row % 5, str(row // 7), {1: str(row), row % 30 + 2: "0.5"}) for row in range(400)]
    path = tmp_path / "rows.txt"
    path.write_text("\ufeff# first\n" + "".join(row.text() for row in rows), encoding="utf-8")
    whole = read_letor(path, cache=False)
    assert whole.features.shape == (400, 31)
    for size in (3, 7, 64, 1000):
        monkeypatch.setattr(letor, "PIECE", size)
        assert same(read_letor(path, cache=False), whole)


def real(*parts: str) -> list[Path]:
    paths = [REAL.joinpath(part) for part in parts]
    if not all(path.exists() for path in paths):
        pytest.skip(f"the real data is not at hand ({parts[0]})")
    return paths


def test_mq2008_has_the_counts_that_are_known() -> None:
    data = read_letor(real(*(f"mq2008/S{part}.txt.gz" for part in range(1, 6))), cache=False, name="MQ2008")
    assert repr(data) == "MQ2008: 784 queries, 15,211 documents, 46 features, grades 0 to 2"
    assert data.queries[0] == "10002"
    assert data.features[0, :3] == pytest.approx([0.007477, 0, 1])


def test_the_mslr_sample_has_the_counts_that_are_known() -> None:
    (path,) = real("mslr_sample/mslr_sample.txt.gz")
    data = read_letor(path, cache=False)
    assert (len(data), *data.features.shape, data.max_grade) == (141, 15_572, 136, 4)
    sizes = np.diff(data.offsets)
    assert (sizes.min(), sizes.max()) == (6, 308)
    words = gzip.decompress(path.read_bytes()).splitlines()[0].split()[2:]
    assert data.features[0].tolist() == [np.float32(float(word.partition(b":")[2])) for word in words]
