"""Lists that clients in other languages draw, too: their vectors are current, and Python draws them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.shared_lists import BLOCK, BLOCKS, FILE, digest_block, full_case, full_numbers

SOME = range(0, BLOCKS, 10)  # every tenth block; all of them take ten seconds


@pytest.fixture(scope="module")
def stored() -> Any:
    return json.loads(FILE.read_text("utf-8"))


def test_the_cases_in_full_are_as_they_are_stored(stored: Any) -> None:
    drawn = [full_case(number) for number in full_numbers()]
    assert json.loads(json.dumps(drawn)) == stored["cases"]


def test_blocks_have_the_stored_digest(stored: Any) -> None:
    assert len(stored["blocks"]) * BLOCK == 100_000
    assert [digest_block(block) for block in SOME] == [stored["blocks"][block] for block in SOME]


@pytest.mark.slow
def test_all_blocks_have_the_stored_digest(stored: Any) -> None:
    assert [digest_block(block) for block in range(BLOCKS)] == stored["blocks"]
