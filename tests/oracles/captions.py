"""Captions, features and weights in plain Python, as the documentation says them; and rows of logs with captions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from interleaf.caption_bias.features import CaptionFeature
from interleaf.caption_bias.logistic_model import CaptionModel
from tests.support.log_rows import made_row

WORDS = ("old", "maps", "of", "the", "wörld", "a", "地図", "facts")


def plain_measures(caption: Mapping[str, Any] | None) -> dict[str, int]:
    """What a caption looks like."""
    texts = {name: (caption or {}).get(name) or "" for name in ("url", "title", "snippet")}
    found = {
        "url length": len(texts["url"]) if _words(texts["url"]) else 0,
        "url slashes": texts["url"].count("/"),
        "title length": len(_words(texts["title"])),
        "snippet length": len(texts["snippet"]) if _words(texts["snippet"]) else 0,
        "deep links": (caption or {}).get("deep_links") or 0,
    }
    for name, text in texts.items():
        marks = [mark for mark in (caption or {}).get("highlights") or [] if mark["field"] == name]
        words = [len(_words(text[max(0, mark["start"]) : max(0, mark["end"])])) for mark in marks]
        found[f"{name} bold sections"] = sum(number > 0 for number in words)
        found[f"{name} bold words"] = sum(words)
    return found


def _words(text: str) -> list[str]:
    """Runs of characters above a space."""
    return [word for word in "".join(letter if letter > " " else " " for letter in text).split(" ") if word]


def plain_features(captions: Sequence[Mapping[str, Any] | None], features: Sequence[CaptionFeature]) -> list[list[int]]:
    """The features of a page's captions."""
    measures = [plain_measures(caption) for caption in captions]
    return [[_feature(measures, place, feature) for feature in features] for place in range(len(captions))]


def _feature(measures: list[dict[str, int]], place: int, feature: CaptionFeature) -> int:
    value = measures[place][feature.measure]
    if not feature.neighbour:
        return int(feature.min <= value <= feature.max)
    other = place - 1 if feature.neighbour == "above" else place + 1
    if not 0 <= other < len(measures):
        return 0
    return (value > measures[other][feature.measure]) - (value < measures[other][feature.measure])


def plain_level(place: int) -> str:
    """The position of a result, from 0, as the model names it."""
    return ("1", "2", "3", "4-5", "4-5", "6-9", "6-9", "6-9", "6-9")[place] if place < 9 else "10+"


def plain_weights(row: Mapping[str, Any], model: CaptionModel) -> tuple[list[float], list[float], list[float]]:
    """By result of a row: the weight by odds, by probability, and the probability of a click."""
    own = {one.name: one.weight for one in model.weights}
    odds, ratios, chances = [], [], []
    for place, values in enumerate(plain_features(row["captions"], model.features)):
        named = zip(model.features, values, strict=True)
        attraction = sum(own.get(feature.name, 0.0) * value for feature, value in named)
        grade = (row.get("grades") or [None] * len(row["documents"]))[place]
        context = model.positions[plain_level(place)]
        context += model.grades.get("unjudged" if grade is None else str(grade), model.unseen)
        odds.append(math.exp(-attraction))
        chances.append(1 / (1 + math.exp(-context - attraction)))
        ratios.append(1 / (1 + math.exp(-context - model.mean)) / chances[-1])
    return odds, ratios, chances


def made_caption(random: Random) -> dict[str, Any]:
    """A caption that may lack anything."""
    words = random.choices(WORDS, k=random.randrange(1, 12))
    title = " ".join(words)
    marks = [
        {"field": "title", "start": start, "end": start + len(word)}
        for word in set(words)
        if random.random() < 0.3 and (start := title.find(word)) >= 0
    ]
    return {
        "title": title,
        "url": "site.org/" + "/".join(random.choices(WORDS, k=random.randrange(1, 7))),
        "snippet": " ".join(random.choices(WORDS, k=random.randrange(0, 60))) or None,
        "highlights": marks,
        "deep_links": random.choice((None, 0, 0, 3)),
    }


def captioned_rows(count: int, seed: int = 0, judged: bool = True, **more: Any) -> list[dict[str, Any]]:
    """Impressions of forty units with captions; longer titles are clicked more often, and so are higher grades."""
    random, rows = Random(seed), []
    for number in range(count):
        row = made_row(number, (), **{"unit": f"u-{random.randrange(40)}", "query": f"q{random.randrange(15)}"} | more)
        captions = [made_caption(random) for _ in row["documents"]]
        grades = [random.randrange(3) for _ in captions]
        chances = [
            1 / (1 + math.exp(2 - grade - 0.8 * (len(caption["title"].split()) > 6) + 0.4 * place))
            for place, (grade, caption) in enumerate(zip(grades, captions, strict=True))
        ]
        clicks = [place + 1 for place, chance in enumerate(chances) if random.random() < chance]
        events = made_row(number, clicks)["events"]
        rows.append(row | {"captions": captions, "grades": grades if judged else None, "events": events})
    return rows
