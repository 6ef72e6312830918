"""Old logs of one query, and new rankings for it."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from interleaf import interleave
from interleaf.counterfactual import PairEstimate, ReuseResult
from interleaf.counterfactual.reuse_result import ReuseWarning
from tests.support.log_rows import START, Row, made_event

OLD = {"A": ("a", "b", "c", "d", "e"), "B": ("b", "c", "a", "e", "d")}
NEW = {"x": {"q": ["c", "b", "a", "d", "e"]}, "y": {"q": ["a", "c", "e", "b", "d"]}}


def old_row(number: int, clicks: Sequence[int] = (1,), method: str = "probabilistic", **more: Any) -> Row:
    rankings: Mapping[str, Sequence[str]] = more.pop("of", OLD)
    shown = interleave(rankings, method, k=more.pop("k", 3), key=("old", number))
    time = START + timedelta(minutes=number)
    row = {"experiment": "old", "version": 1, "impression": f"i-{number}", "time": time, "unit": f"u-{number // 2}"}
    row |= {"arm": "interleaved", "query": "q", "events": [made_event(rank, time) for rank in clicks]}
    return shown.to_dict(rankings=True) | row | {"attributes": {}} | more


def old_log(count: int = 40, method: str = "probabilistic", **more: Any) -> list[Row]:
    return [old_row(number, ((1,), (2,), (), (1, 3))[number % 4], method, **more) for number in range(count)]


def of(found: ReuseResult, estimator: str, pair: int = 0) -> PairEstimate:
    return [one for one in found.estimates if one.estimator == estimator][pair]


def warned(found: ReuseResult, code: ReuseWarning) -> list[str]:
    """The texts of the warnings with this code."""
    return [warning.text for warning in found.warnings if warning.code == code]


def clean(found: ReuseResult) -> dict[str, Any]:
    """The record as JSON: nothing in it is not a number, and all that is None has a reason."""
    data: dict[str, Any] = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    for one in data["estimates"]:
        assert bool(one["reason"]) == bool(one["code"])
        assert one["reason"] or None not in (one["value"], one["interval"], one["p_value"])
    for text in (str(found), found.to_markdown()):
        assert "nan" not in text.lower().split()
        assert "inf" not in text.lower().split()
    return data
