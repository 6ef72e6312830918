"""From a log to what it says of new rankers: support, drops, reasons, and nothing that is not a number."""

from pathlib import Path

import pyarrow as pa
import pytest

from interleaf import analyze
from interleaf.counterfactual import estimators as robust_module, reuse
from interleaf.counterfactual.estimators import NoEstimate
from interleaf.counterfactual.reuse_result import ReuseWarning
from interleaf.decode.columns import Exclusion
from tests.support.log_rows import table_of
from tests.support.reuse_logs import NEW, clean, of, old_log, old_row, warned


@pytest.fixture(autouse=True)
def _few_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robust_module, "MIN_DRAWN", 500)


def test_the_old_rankers_themselves_have_weights_of_one_and_the_score_of_the_report() -> None:
    table = table_of(old_log())
    found = reuse(table, {"A": None, "B": None})
    live = analyze(table).comparisons[0]
    weights = found.weights["PI+IS+MA"]
    assert weights.mean == pytest.approx(1)
    assert weights.largest == pytest.approx(1)
    assert weights.effective == pytest.approx(40)
    assert live.estimate is not None
    for name in ("PI+MA", "PI+IS+MA", "PI+IS+MA, self-normalised", "PI+IS+MA, clipped"):
        assert of(found, name).value == pytest.approx(live.estimate * live.clicked / live.impressions)
    assert (found.impressions, found.clicked, found.units) == (40, 30, 20)
    clean(found)


def test_sources_of_rankings_and_formats_of_logs_say_the_same(tmp_path: Path) -> None:
    table = table_of(old_log())
    for name, by_query in NEW.items():
        lines = [f"q {document} {-rank}" for rank, document in enumerate(by_query["q"])]
        (tmp_path / f"{name}.run").write_text("\n".join(lines))
    pa.parquet.write_table(table, tmp_path / "old.parquet")
    first = reuse(table, NEW)
    again = reuse([tmp_path / "old.parquet"], {"x": tmp_path / "x.run", "y": lambda query: NEW["y"].get(query)})
    assert str(first) == str(again)
    assert first.to_dict() == again.to_dict()


def test_exchanged_rankers_turn_every_sign() -> None:
    table = table_of(old_log())
    found, turned = reuse(table, NEW), reuse(table, dict(reversed(NEW.items())))
    for name in ("PI+MA", "PI+IS+MA", "PI+IS+MA, self-normalised"):
        one, other = of(found, name), of(turned, name)
        assert one.value == pytest.approx(-(other.value or 0))
        assert (one.first, one.second) == (other.second, other.first)


def test_logged_and_computed_probabilities_give_the_same_weights() -> None:
    rows = old_log()
    for row in rows:
        assert row["log_probability"] is not None
    without = [{name: value for name, value in row.items() if name != "log_probability"} for row in rows]
    first, second = reuse(table_of(rows), NEW), reuse(table_of(without), NEW)
    assert of(first, "PI+IS+MA").value == pytest.approx(of(second, "PI+IS+MA").value, rel=1e-9)


@pytest.mark.parametrize("method", ["team_draft", "pairwise_preference"])
def test_lists_of_other_methods_are_used_where_support_allows(method: str) -> None:
    near = {"x": {"q": ["b", "c", "a", "d", "e"]}, "y": {"q": ["b", "a", "c", "d", "e"]}}
    found = reuse(table_of(old_log(method=method)), near)
    short = {"team_draft": "TD", "pairwise_preference": "PP"}[method]
    assert found.method == method
    assert 0 < (found.weights[short].usable or 0) < 1
    names = [one.estimator for one in found.estimates]
    assert names == [short, f"{short}+IS", f"{short}+IS, self-normalised", f"{short}+IS, clipped"]
    assert found.answers[0].estimator == f"{short}+IS"
    clean(found)


def test_probabilistic_lists_say_what_a_draft_of_new_rankers_would() -> None:
    found = reuse(table_of(old_log()), NEW, compare_by="team_draft")
    usable = found.weights["TD"].usable
    assert usable is not None
    assert 0 < usable < 1
    assert found.weights["TD+IS"].usable == usable


def test_lists_that_new_rankers_could_not_show_say_nothing() -> None:
    strangers = {"x": {"q": ["m", "n", "o"]}, "y": {"q": ["o", "n", "m"]}}
    found = reuse(table_of(old_log()), strangers)
    for name in ("PI+MA", "PI+IS+MA", "PI+IS+MA, self-normalised", "PI+IS+MA, clipped"):
        assert of(found, name).value is None
        assert of(found, name).code == NoEstimate.NO_LIST
    assert found.known == 0
    (few,) = warned(found, ReuseWarning.FEW_IMPRESSIONS)
    assert "as 0.0 equally" in few
    (unseen,) = warned(found, ReuseWarning.UNSEEN_DOCUMENTS)
    assert unseen.startswith("100 % of the places")
    clean(found)
    drafted = reuse(table_of(old_log(method="team_draft")), strangers)
    assert {one.code for one in drafted.estimates} == {NoEstimate.NO_LIST}
    clean(drafted)


def test_a_normalized_scheme_has_no_model() -> None:
    found = reuse(table_of(old_log()), NEW, scheme="normalized")
    assert of(found, "PI+DR").code == NoEstimate.OTHER_SCHEME
    assert found.answers[0].estimator == "PI+IS+MA"
    clean(found)


def test_a_list_that_is_shorter_or_longer_than_the_new_one_is_not_its() -> None:
    """Two documents were all there was; the new rankers have more, and would fill the page."""
    short = {"A": ("a", "b"), "B": ("b", "a")}
    rows = [*old_log(10), *[old_row(number, of=short) for number in range(10, 30)]]
    found = reuse(table_of(rows), NEW)
    assert found.weights["PI+MA"].usable == pytest.approx(10 / 30)
    few = {name: {"q": ["a", "b"]} for name in ("x", "y")}
    assert reuse(table_of(rows), few).weights["PI+MA"].usable == pytest.approx(20 / 30)


def test_what_cannot_be_used_is_counted_with_its_reason() -> None:
    rows = old_log(20)
    rows[0]["query"] = None
    rows[1]["query"] = "another"
    rows[2] |= {"method": "optimized", "log_probability": None}
    rows[3]["method"] = "sorcery"
    rows[4] |= {"log_probability": -5000.0}
    rows[5]["impression"] = rows[6]["impression"]
    rows[7]["attributes"] = {"device": "bot"}
    found = reuse(table_of(rows), NEW, exclude=Exclusion({"device": ["bot"]}, ["u-9"]))
    reasons = dict(found.dropped)
    assert found.impressions == 20 - 9
    assert reasons.pop("excluded:listed units") == 2
    assert reasons.pop("no query") == 1
    assert reasons.pop("no new rankings for its query") == 1
    assert reasons.pop("excluded:device = bot") == 1
    assert reasons.pop("a list that its own method would never show") == 1
    assert reasons.pop("repeated_impression") == 1
    assert sorted(reason.partition(":")[0] for reason in reasons) == ["no list probability", "unknown method"]


def test_units_that_come_too_often_are_left_out() -> None:
    rows = [*old_log(20), *[old_row(number, unit="crawler") for number in range(20, 30)]]
    found = reuse(table_of(rows), NEW, exclude=Exclusion(max_impressions=5))
    assert found.impressions == 20
    assert found.dropped == {"excluded:units of more than 5 impressions": 10}


def test_one_unit_gives_estimates_without_intervals() -> None:
    found = reuse(table_of([row | {"unit": "alone"} for row in old_log()]), NEW)
    for one in found.estimates:
        assert one.value is not None
        assert one.interval is None
        assert one.reason
    assert isinstance(found.plans["x", "y"], str)
    clean(found)


def test_no_clicks_give_no_preference_and_no_model() -> None:
    found = reuse(table_of([row | {"events": []} for row in old_log()]), NEW)
    assert of(found, "PI+MA").value == 0
    assert of(found, "PI+DR").value is None
    assert of(found, "PI+DR").code == NoEstimate.NO_CLICK
    assert warned(found, ReuseWarning.FEW_EVENTS) == ["Only 0 impressions have an event."]
    clean(found)
