"""Captions to features: against plain Python, from markup, whatever the texts hold."""

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from interleaf.caption_bias import FEATURES, CaptionFeature, make_caption
from interleaf.caption_bias.features import (
    DOCUMENT_FEATURES,
    FIRST,
    GRADE,
    MEASURES,
    PAIRWISE_FEATURES,
    POSITION,
    encode,
    measure,
)
from interleaf.errors import DataError
from interleaf.log import schema
from tests.oracles.captions import made_caption, plain_features, plain_measures

KIND = schema.SCHEMA.field("captions").type.value_type
TEXT = st.one_of(st.none(), st.text(alphabet="ab/ \n\té地🗺", max_size=30))
MARK = st.builds(
    lambda field, start, size: {"field": field, "start": start, "end": start + size},
    st.sampled_from(["title", "url", "snippet", "footer"]),
    st.integers(0, 30),
    st.integers(-1, 8),
)
CAPTION = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            **dict.fromkeys(("title", "url", "snippet"), TEXT),
            "highlights": st.one_of(st.none(), st.lists(MARK, max_size=4)),
            "deep_links": st.one_of(st.none(), st.integers(0, 9)),
        }
    ),
)


@given(st.lists(CAPTION, max_size=6))
def test_captions_measure_what_plain_python_says(captions: list[Any]) -> None:
    found = measure(pa.array(captions, KIND))
    assert [dict(zip(MEASURES, row, strict=True)) for row in found.tolist()] == list(map(plain_measures, captions))


@given(st.lists(st.lists(CAPTION, min_size=1, max_size=5), max_size=4))
def test_pages_have_the_features_that_plain_python_says(pages: list[list[Any]]) -> None:
    flat = [caption for page in pages for caption in page]
    measures = measure(pa.array(flat, KIND))
    codes = encode(FEATURES, measures, np.array([len(page) for page in pages], np.int64), np.full(len(flat), -1))
    assert codes[:, FIRST:].tolist() == [row for page in pages for row in plain_features(page, FEATURES)]


def test_codes_hold_position_and_grade() -> None:
    captions = pa.array([made_caption(Random(number)) for number in range(12)], KIND)
    codes = encode(FEATURES, measure(captions), np.array([12]), np.array([-1, 0, 1, 2, 3, 4, 5, 99, -7, 0, 0, 0]))
    assert codes[:, POSITION].tolist() == [0, 1, 2, 3, 3, 4, 4, 4, 4, 5, 5, 5]
    assert codes[:, GRADE].tolist() == [0, 1, 2, 3, 4, 5, 6, 14, 0, 1, 1, 1]


def test_measures_of_slices_are_slices_of_measures() -> None:
    captions = pa.array([made_caption(Random(number)) for number in range(9)], KIND)
    assert (measure(captions)[3:7] == measure(captions.slice(3, 4))).all()


def test_all_features_of_the_paper_are_in_the_table() -> None:
    names = {feature.name for feature in FEATURES}
    assert {
        "deep links",
        "short URL",
        "many URL slashes",
        "URL bold",
        "short title",
        "long title",
        "title bold",
    } <= names
    assert {"short snippet", "long snippet", "missing snippet"} <= names
    compared = ("url length", "url slashes", "title length", "snippet length")
    bold = tuple(f"{text} bold {unit}" for text in ("url", "title", "snippet") for unit in ("words", "sections"))
    wanted = {f"Δ {measure} {side}" for measure in compared + bold for side in ("above", "below")}
    assert {feature.name for feature in PAIRWISE_FEATURES} == wanted
    assert FEATURES == DOCUMENT_FEATURES + PAIRWISE_FEATURES
    assert all(feature.meaning and feature.rule for feature in FEATURES)


@pytest.mark.parametrize(
    ("text", "plain", "sections"),
    [
        ("<b>Old</b> maps", "Old maps", [(0, 3)]),
        ("Old <em>maps</em> and <strong>more</strong>", "Old maps and more", [(4, 8), (13, 17)]),
        ("a &lt; b &amp; <b>ü地</b>", "a < b & ü地", [(8, 10)]),
        ("<b>one <em>section</em> only</b>", "one section only", [(0, 16)]),
        ("<b>never closed", "never closed", [(0, 12)]),
        ("<b></b>nothing", "nothing", []),
        ("<i>other</i> <a href='x'>tags</a>", "other tags", []),
        ("not opened</b>", "not opened", []),
    ],
)
def test_markup_becomes_text_and_offsets(text: str, plain: str, sections: list[tuple[int, int]]) -> None:
    made = make_caption(title=text)
    assert made["title"] == plain
    assert [(mark["start"], mark["end"]) for mark in made["highlights"]] == sections
    assert pa.array([made], KIND).to_pylist()[0]["title"] == plain


def test_markup_of_each_text_is_kept_apart() -> None:
    made = make_caption("<b>t</b>", "u/<b>v</b>", None, 4)
    assert made["highlights"] == [
        {"field": "title", "start": 0, "end": 1},
        {"field": "url", "start": 2, "end": 3},
    ]
    assert (made["snippet"], made["deep_links"]) == (None, 4)


def test_wrong_features_and_captions_are_refused() -> None:
    with pytest.raises(DataError, match="unknown measure 'colour'; known are 'url length'"):
        CaptionFeature("red", "colour")
    with pytest.raises(DataError, match="tuned is 'both'"):
        CaptionFeature("short", "url length", tuned="both")
    alike = [CaptionFeature("short", "url length", max=most) for most in (5, 6)]
    with pytest.raises(DataError, match="two features are named 'short'"):
        encode(alike, np.zeros((1, len(MEASURES)), np.int32), np.ones(1, np.int64), np.full(1, -1))
    with pytest.raises(DataError, match="the title of a caption is 7; give a text"):
        make_caption(title=7)  # type: ignore[arg-type]
