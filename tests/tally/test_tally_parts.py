"""What a tally is made of: files that come back, units and impressions sampled evenly, slices of time."""

import io
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interleaf import DataError, InterleafError
from interleaf.analysis.analyze import analyze, tally_log
from interleaf.kernels.arrays import Array
from interleaf.tally import Tally
from interleaf.tally.bucket_sums import ONE
from interleaf.tally.slices import LADDER, MAX_SLICES, Slices
from interleaf.tally.units import Sample, Seen, UnitSums
from tests.support.log_rows import made_rows, table_of

ROWS = made_rows(60, "team_draft", of=3)


# Files.


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / "day.tally"
    tally_log(table_of(ROWS), "click", ["device"]).save(path)
    return path


def test_a_tally_comes_back_from_its_file(kept: Path) -> None:
    tally = tally_log(table_of(ROWS), "click", ["device"])
    found = Tally.load(kept)
    assert found.about == tally.about
    assert analyze(found).to_dict() == analyze(tally).to_dict() == analyze(kept).to_dict()
    more = [row | {"impression": f"{row['impression']}-again"} for row in ROWS]
    other = tally_log(table_of(more), "click", ["device"])
    assert analyze(found + other).to_dict() == analyze(tally + other).to_dict()
    found.save(kept)
    assert analyze(Tally.load(kept)).to_dict() == analyze(tally).to_dict()
    assert [path.name for path in kept.parent.iterdir()] == ["day.tally"]


def test_many_units_come_back_as_the_sample_they_were(tmp_path: Path) -> None:
    tally = tally_log(table_of(ROWS))
    rows = np.random.default_rng(1).integers(1, 2**63, 5000, np.uint64)
    tally.units = UnitSums(3, room=1024)
    tally.units.add(rows, 0, np.arange(5000), np.ones(5000, np.bool_), np.ones((5000, 3)))
    assert tally.units.level > 0
    tally.save(tmp_path / "x.tally")
    found = Tally.load(tmp_path / "x.tally").units
    assert (found.level, found.count(), found.is_exact) == (tally.units.level, tally.units.count(), False)
    assert np.array_equal(found.values, tally.units.values)


def test_a_damaged_file_is_refused_whatever_the_damage(kept: Path) -> None:
    data, chance = kept.read_bytes(), random.Random(1)
    messages = []
    for number in range(300):
        damaged = bytearray(data)
        if number % 3:
            for _ in range(chance.choice([1, 1, 8])):
                damaged[chance.randrange(len(data))] = chance.randrange(256)
        else:
            del damaged[chance.randrange(len(data)) :]
        kept.write_bytes(damaged)
        try:
            found = Tally.load(kept)
        except InterleafError as error:
            messages.append(str(error))
        else:  # a byte that nobody reads, such as a date of the zip file
            assert analyze(found).comparisons
    assert len(messages) > 200
    assert all("day.tally" in message for message in messages)


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tally"
    for content in (b"", b"PK", b"hello", json.dumps({"version": 1}).encode(), bytes(100)):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"x\.tally is not a tally"):
            Tally.load(path)
    with pytest.raises(DataError, match="cannot read the tally"):
        Tally.load(tmp_path / "none.tally")


def without(data: bytes, name: str, **changed: Any) -> bytes:
    with np.load(io.BytesIO(data)) as file:
        arrays = {key: file[key] for key in file.files if key != name}
    written = io.BytesIO()
    np.savez_compressed(written, **(arrays | changed))
    return written.getvalue()


def test_a_file_that_lacks_a_part_or_has_one_of_another_shape_is_refused(kept: Path) -> None:
    data = kept.read_bytes()
    with np.load(io.BytesIO(data)) as file:
        names = list(file.files)
    for name in names:
        kept.write_bytes(without(data, name))
        with pytest.raises(DataError, match=r"day\.tally is not a tally"):
            Tally.load(kept)
    for name in (
        "scores.sums",
        "arm0.measures",
        "units.values",
        "slice_units.values",
        "segment_units",
        "lists.owned",
        "slices",
    ):
        kept.write_bytes(without(data, "", **{name: np.zeros((3, 1), np.int64)}))
        with pytest.raises(DataError, match=r"day\.tally is not a tally"):
            Tally.load(kept)


def test_a_file_of_a_later_version_asks_for_an_upgrade(kept: Path) -> None:
    data = kept.read_bytes()
    with np.load(io.BytesIO(data)) as file:
        rest = json.loads(file["rest"].tobytes())
    rest["version"] += 1
    kept.write_bytes(without(data, "", rest=np.frombuffer(json.dumps(rest).encode(), np.uint8)))
    with pytest.raises(DataError, match="upgrade"):
        Tally.load(kept)


def test_a_tally_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot write"):
        tally_log(table_of(ROWS)).save(tmp_path / "no" / "folder" / "x.tally")


# Units.


class Visits:
    """Units with visits, drawn from a seed: hashes, times, whether clicked, and two scores each."""

    def __init__(self, units: int, rows: int, seed: int) -> None:
        chance = np.random.default_rng(seed)
        names = chance.integers(1, 2**63, units, np.uint64)
        self.unit: Array = np.concatenate([names, names[chance.integers(0, units, rows - units)]])
        self.time = chance.integers(0, 10**9, rows)
        self.clicked = chance.random(rows) < 0.7
        self.scores = np.round(chance.normal(size=(rows, 2)) * 64) / 64

    def into(self, units: UnitSums, rows: Array) -> None:
        units.add(self.unit[rows], int(len(rows) % 3), self.time[rows], self.clicked[rows], self.scores[rows])

    def truth(self, level: int) -> dict[int, list[int]]:
        """Those whose hash ends in so many zero bits: first time, clicked rows and sums, in a plain loop."""
        found: dict[int, list[int]] = {}
        for unit, time, clicked, scores in zip(self.unit, self.time, self.clicked, self.scores, strict=True):
            if int(unit) % 2**level == 0:
                own = found.setdefault(int(unit), [int(time), 0, 0, 0])
                own[0] = min(own[0], int(time))
                if clicked:
                    own[1:] = [own[1] + 1, own[2] + round(scores[0] * ONE), own[3] + round(scores[1] * ONE)]
        return dict(sorted(found.items()))


def held(units: UnitSums) -> dict[int, list[int]]:
    """What is held, but for the arms."""
    rows = np.delete(units.values, 1, axis=1).tolist()
    return dict(zip(units.hashes.tolist(), rows, strict=True))


@pytest.mark.parametrize("room", [10, 100, 1500, 5000])
def test_units_are_all_held_or_an_even_sample_whatever_the_order_and_the_parts(room: int) -> None:
    visits = Visits(3000, 8000, seed=room)
    whole = UnitSums(2, room)
    visits.into(whole, np.arange(8000))
    level = next(level for level in range(60) if len(visits.truth(level)) <= room)
    assert (whole.level, whole.is_exact) == (level, level == 0)
    assert held(whole) == visits.truth(level)
    assert whole.count() == len(visits.truth(level)) << level
    chance = np.random.default_rng(1)
    for parts in (1, 2, 7):
        total = UnitSums(2, room)
        for rows in np.array_split(chance.permutation(8000), parts):
            part = UnitSums(2, room)
            visits.into(part, rows)
            total.merge(part.level, part.hashes, part.values)
        assert (total.level, held(total)) == (whole.level, held(whole))


def test_units_in_the_order_of_another_table_find_their_places_at_once() -> None:
    """In a smaller table they would all be where the first ones are, and each would look through the others."""
    hashes = np.random.default_rng(1).integers(1, 2**63, 60_000, np.uint64)
    part, total = UnitSums(1), UnitSums(1)
    part.add(hashes, 0, np.arange(60_000), np.ones(60_000, np.bool_), np.ones((60_000, 1)))
    found, rows = part.entries
    total.merge(0, found, rows)
    assert len(total._keys) == len(part._keys)
    assert held(total) == held(part)
    wanted = found >> np.uint64(24) & np.uint64(len(total._keys) - 1)
    places = np.argsort(total._keys)[-60_000:][np.argsort(np.argsort(found))]
    assert ((places - wanted.astype(np.int64)) % len(total._keys)).mean() < 2


def test_the_number_of_units_is_estimated_from_the_sample() -> None:
    """The count of a sample of share p is binomial: within five deviations in all but one of a million cases."""
    visits = Visits(40_000, 40_000, seed=5)
    units = UnitSums(2, room=1000)
    visits.into(units, np.arange(40_000))
    share = 2.0**-units.level
    assert abs(units.count() - 40_000) < 5 * (40_000 * (1 - share) / share) ** 0.5
    few = units.values[:, 0] < 10**8
    assert abs(units.count(few) - 4000) < 5 * (4000 * (1 - share) / share) ** 0.5 + 5 * 60


# Impressions seen.


@given(st.lists(st.lists(st.integers(0, 300), max_size=80), max_size=5))
def test_repeats_are_found_while_there_is_room(batches: list[list[int]]) -> None:
    seen, before = Seen(), set[int]()
    for batch in batches:
        hashes = [(number + 1) * 0x9E3779B97F4A7C15 % 2**64 for number in batch]
        expected = []
        for one in hashes:
            expected.append(one in before)
            before.add(one)
        assert seen.repeats(np.array(hashes, np.uint64)).tolist() == expected
    assert seen.hashes.tolist() == sorted(before)


def test_beyond_its_room_a_sample_finds_the_share_of_repeats_that_it_watches() -> None:
    hashes = np.random.default_rng(2).integers(1, 2**64, 50_000, np.uint64, endpoint=False)
    seen = Seen(room=2000)
    assert not seen.repeats(hashes).any()
    assert seen.size <= 2000
    watched = hashes % np.uint64(2**seen.level) == 0
    assert seen.repeats(hashes).tolist() == watched.tolist()


@pytest.mark.parametrize("shared", [0, 700, 20_000])
def test_two_samples_tell_how_much_they_share(shared: int) -> None:
    hashes = np.random.default_rng(3).integers(1, 2**64, 60_000, np.uint64, endpoint=False)
    one, other = Sample(room=4096), Sample(room=4096)
    one.add(hashes[:20_000])
    other.add(hashes[20_000 - shared : 40_000])
    found = one.merge(other)
    share = 2.0 ** -max(one.level, other.level)
    assert abs(found - shared) <= 5 * (shared * (1 - share) / share) ** 0.5


# Slices.


@given(
    st.lists(st.integers(-(10**15), 10**16) | st.integers(1_700_000_000_000_000, 1_700_000_900_000_000), min_size=1),
    st.randoms(use_true_random=False),
)
def test_slices_hold_every_sum_and_depend_on_nothing_but_the_times(times: list[int], chance: Any) -> None:
    size = len(times)
    scores = np.array([[chance.randrange(-64, 64) / 64] for _ in times])
    clicked = np.array([chance.random() < 0.8 for _ in times])
    units = np.array([chance.randrange(5) << 30 | chance.randrange(1, 2**10) for _ in times], np.uint64)
    moments = np.array(times, np.int64)
    whole = Slices(1)
    whole.add(moments, units, clicked, scores)
    step = next(step for step, width in enumerate(LADDER) if max(times) // width - min(times) // width < MAX_SLICES)
    assert whole.width == LADDER[step]
    truth: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
    visits = sorted(zip(times, units.tolist(), clicked.tolist(), scores[:, 0], strict=True))
    for end, (names, numbers, sums) in zip(whole.ends.tolist(), whole.totals(), strict=True):
        while visits and visits[0][0] < end:
            _, unit, click, score = visits.pop(0)
            if click:
                truth[unit][:] = [truth[unit][0] + 1, truth[unit][1] + round(score * ONE)]
        found = zip(names.tolist(), numbers.tolist(), sums[:, 0].tolist(), strict=True)
        assert {unit: [number, total] for unit, number, total in found if number} == truth
    assert whole.clicked.sum() == clicked.sum()
    assert whole.ends.tolist()[-1] == (max(times) // whole.width + 1) * whole.width
    order = list(range(size))
    chance.shuffle(order)
    total = Slices(1)
    for start in range(0, size, 3):
        rows, part = np.array(order[start : start + 3]), Slices(1)
        part.add(moments[rows], units[rows], clicked[rows], scores[rows])
        total.merge(part)
    assert (total.step, total.first) == (whole.step, whole.first)
    assert np.array_equal(total.clicked, whole.clicked)
    assert np.array_equal(total.cells.hashes, whole.cells.hashes)
    assert np.array_equal(total.cells.values, whole.cells.values)


def test_slices_of_many_units_keep_the_same_sample_in_any_order() -> None:
    """Slices are narrow at first and wide at last: which units stay must not depend on that."""
    chance = np.random.default_rng(3)
    units = chance.integers(1, 2**63, 30_000, dtype=np.uint64)
    times = np.sort(chance.integers(0, 10**13, len(units)))
    scores, clicked = chance.integers(-1, 2, (len(units), 1)).astype(float), np.ones(len(units), np.bool_)
    made = []
    for order in (np.arange(len(units)), np.arange(len(units))[::-1], chance.permutation(len(units))):
        total = Slices(1)
        for rows in np.array_split(order, 7):
            part = Slices(1)
            part.add(times[rows], units[rows], clicked[rows], scores[rows])
            total.merge(part)
        made.append(total)
    assert made[0].cells.level > 0
    for other in made[1:]:
        assert np.array_equal(other.cells.hashes, made[0].cells.hashes)
        assert np.array_equal(other.cells.values, made[0].cells.values)


def test_times_too_far_apart_are_refused() -> None:
    slices = Slices(1)
    times = np.array([-(2**62), 2**62])
    with pytest.raises(DataError, match="correct its clock"):
        slices.add(times, np.zeros(2, np.uint64), np.ones(2, np.bool_), np.zeros((2, 1)))
