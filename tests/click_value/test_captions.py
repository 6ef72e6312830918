"""The caption's click weight as a feature of the click (H12c), through training, the file and scoring."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from interleaf.analysis.analyze import tally_log
from interleaf.caption_bias.features import CaptionFeature
from interleaf.caption_bias.logistic_model import CaptionModel, FeatureWeight
from interleaf.click_value import LearnedCredit, learn
from interleaf.click_value.click_features import CaptionWeights
from interleaf.decode import Counting, Decoding
from interleaf.simulate import People, World, synthetic
from tests.support.log_rows import Row, made_row, table_of

SHORT, LONG = "https://a.org/b", "https://example.org/a/rather/long/address/of/a/page.html"
WEIGHT = 1.1


def model_of() -> CaptionModel:
    """Short addresses attract clicks."""
    short = CaptionFeature("short URL", "url length", max=30)
    return CaptionModel(
        name="example",
        features=(short,),
        position_levels=[[0, 1, 2, 3, 4, 5]],
        grade_levels=[[0]],
        parameters=[-1.0, WEIGHT],
        covariance=[[0.01, 0.0], [0.0, 0.01]],
        weights=(FeatureWeight("short URL", WEIGHT, 0.1, 99.0, 0.0),),
        means=[0.5],
        unseen=0.0,
        rows=9,
        clicks=3,
        patterns=2,
        log_likelihood=-3.0,
        dropped={},
    )


def captioned(number: int, urls: str, **more: Any) -> Row:
    captions = [{"title": "t", "url": SHORT if url == "s" else LONG, "snippet": "x", "deep_links": 0} for url in urls]
    return made_row(number, (1, 3), captions=captions, **more)


def test_a_clicks_caption_weight_is_that_of_its_caption_and_1_where_there_is_none() -> None:
    rows = [captioned(0, "slsl"), made_row(1, (2,)), captioned(2, "lss"), captioned(3, "lsss")]
    (batch,) = table_of(rows).to_batches()
    for start in (0, 1):  # a slice shares the buffers of the whole
        part = batch.slice(start)
        (decoded,) = Decoding(part, Counting(), detailed=True)
        found = CaptionWeights(model_of(), part).of(decoded)
        light = math.exp(-WEIGHT)
        wanted = [[light, 1, light, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, light, light, light]]
        assert found == pytest.approx(np.array(wanted[start:]))
    assert CaptionWeights(model_of()).of(decoded).tolist() == [[1.0] * 4] * 3


def test_the_weight_is_learned_kept_in_the_file_and_scored_with() -> None:
    people = People(units=200, clicks="informational", caption_strength=1.0)
    world = World(synthetic(queries=40, seed=1), {"good": 1, "weak": 12}, people, seed=1, experiment="captioned")
    log = pa.Table.from_batches(list(world.batches(threads=1, captions=True)))
    lesson = learn(log, {"captioned": "good"}, caption_model=model_of(), ridge=0.01, resamples=1)
    assert lesson.credit.features[-1] == "caption_weight"
    assert lesson.credit.needs == ("events.dwell", "captions")
    again = LearnedCredit.from_dict(lesson.credit.to_dict())
    with_captions, without = (tally_log(some, credit=again) for some in (log, log.drop_columns("captions")))
    assert with_captions.scores.sums.tolist() == tally_log(log, credit=lesson.credit).scores.sums.tolist()
    assert with_captions.scores.sums.tolist() != without.scores.sums.tolist()
