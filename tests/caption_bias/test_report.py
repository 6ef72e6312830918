"""What a diagnosis holds: perplexity, kinds of queries, preferences, a page; against plain Python, and to the end."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from interleaf.caption_bias import CaptionFeature, CaptionModel, CaptionReport, caption, make_caption
from interleaf.caption_bias.diagnosis_report import CaptionCode, CaptionNote
from interleaf.caption_bias.logistic_model import ODDS, PROBABILITY, FeatureWeight
from interleaf.caption_bias.shown_results import SEGMENTS
from interleaf.cli.log_commands import caption_options, run_caption
from interleaf.decode.columns import Exclusion
from interleaf.errors import DataError
from interleaf.kernels import buckets
from interleaf.log import write_batches
from interleaf.stats.compare import NoError
from tests.oracles.captions import captioned_rows, plain_weights
from tests.support.log_rows import made_row, table_of

ROWS = captioned_rows(500, seed=11)
HELD_OUT = 0.25


@pytest.fixture(scope="module")
def report() -> CaptionReport:
    flagged = [row | {"attributes": {"layout": "wide" if row["query"] == "q3" else "plain"}} for row in ROWS]
    return caption(table_of(flagged), held_out=HELD_OUT, impression="i-7", navigational=("layout", "wide"))


def held_out(row: Mapping[str, Any]) -> bool:
    return buckets.bucket_of(row["unit"]) >= round(1024 * (1 - HELD_OUT))


def plain_perplexity(rows: Sequence[Mapping[str, Any]], model: CaptionModel) -> tuple[float, int]:
    bits, count = 0.0, 0
    for row in rows:
        clicked = {event["rank"] - 1 for event in row["events"]}
        for place, chance in enumerate(plain_weights(row, model)[2]):
            bits -= math.log2(chance if place in clicked else 1 - chance)
            count += 1
    return 2 ** (bits / count), count


def segments_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Queries by kind, as documented."""
    asked = Counter(row["query"] for row in rows)
    hashed = {query: buckets.hash_of("interleaf-query", query) for query in asked}
    order = sorted(asked, key=lambda query: (asked[query], hashed[query]))
    clicks: dict[str, Counter[str]] = {query: Counter() for query in asked}
    for row in rows:
        for place in {event["rank"] - 1 for event in row["events"]}:
            clicks[row["query"]][row["documents"][place]] += 1
    entropy = {
        query: -sum(number / found.total() * math.log2(number / found.total()) for number in found.values())
        for query, found in clicks.items()
    }
    flagged = {"q3"}
    navigational = {query for query in asked if entropy[query] <= 1 and clicks[query].total() >= 5} - flagged
    return {
        "all queries": set(asked),
        "head": set(order[round(0.8 * len(order)) :]),
        "body": set(order[round(0.2 * len(order)) : round(0.8 * len(order))]),
        "tail": set(order[: round(0.2 * len(order))]),
        "enhanced navigational": flagged,
        "navigational": navigational,
        "non-navigational": set(asked) - flagged - navigational,
    }


def test_perplexity_is_that_of_plain_python_in_every_segment(report: CaptionReport) -> None:
    kinds = segments_of(ROWS)
    assert len({row["query"] for row in ROWS}) == 15  # three head, nine body, three tail
    found = {(one.segment, one.model): one for one in report.perplexities}
    assert {segment for segment, _ in found} == set(SEGMENTS)
    for (segment, name), one in found.items():
        rows = [row for row in ROWS if held_out(row) and row["query"] in kinds[segment]]
        if rows:
            perplexity, results = plain_perplexity(rows, report.models[name])
            assert one.perplexity == pytest.approx(perplexity, abs=1e-10)
            assert one.results == results
        else:
            assert (one.perplexity, one.results, one.p_value) == (None, 0, None)


def test_a_model_of_captions_foretells_clicks_of_others_where_captions_matter(report: CaptionReport) -> None:
    overall = {one.model: one for one in report.perplexities if one.segment == "all queries"}
    best, worst = overall["combined"], overall["baseline"]
    assert best.perplexity < worst.perplexity  # type: ignore[operator]
    assert worst.p_value is None
    assert best.from_best is None  # it is the best model
    assert best.p_value == pytest.approx(worst.from_best, rel=1e-9)  # the same test from both sides
    blind = {one.model: one.perplexity for one in report.unjudged_perplexities if one.segment == "all queries"}
    assert blind["combined"] > best.perplexity  # type: ignore[operator]


def test_preferences_of_two_clicked_results_are_those_of_plain_python(report: CaptionReport) -> None:
    gathered: dict[tuple[str, str], list[tuple[str, int, float]]] = {}
    for row in ROWS:
        odds = plain_weights(row, report.model)[0]
        for place in {event["rank"] - 1 for event in row["events"]}:
            key = row["query"], row["documents"][place]
            gathered.setdefault(key, []).append((row["unit"], row["grades"][place], -math.log(odds[place])))
    counts = Counter[str]()
    for query in {query for query, _ in gathered}:
        documents = [document for asked, document in gathered if asked == query]
        hashed = {document: buckets.hash_of(buckets.DOCUMENT, document) for document in documents}
        documents.sort(key=lambda name: (-len(gathered[query, name]), hashed[name]))
        first, second = (gathered[query, document] for document in documents[:2])
        grades = [max(grade for _, grade, _ in found) for found in (first, second)]
        looks = [sum(look for *_, look in found) / len(found) for found in (first, second)]
        if grades[0] != grades[1]:
            gap = (looks[1] - looks[0]) * (1 if grades[0] > grades[1] else -1)
            counts["correct" if gap > 1e-9 else "incorrect" if gap < -1e-9 else "none"] += 1
    (found,) = [one for one in report.preferences if one.model == "combined"]
    assert (found.correct, found.none, found.incorrect) == (counts["correct"], counts["none"], counts["incorrect"])
    (baseline,) = [one for one in report.preferences if one.model == "baseline"]
    assert (baseline.correct, baseline.none, baseline.incorrect) == (0, counts.total(), 0)
    assert baseline.p_value is None


def test_a_page_is_explained_result_by_result(report: CaptionReport) -> None:
    row = ROWS[7]
    page = report.page
    assert page is not None
    assert [line.title for line in page.lines] == [caption["title"] for caption in row["captions"]]
    assert [line.weight for line in page.lines] == pytest.approx(plain_weights(row, report.model)[1])
    owners = [{0: "A", 1: "B"}.get(team) for team in row["teams"]]
    clicked = [event["rank"] - 1 for event in row["events"]]
    assert [line.ranker for line in page.lines] == owners
    assert [line.rank - 1 for line in page.lines if line.clicked] == clicked
    with pytest.raises(DataError, match="has no impression 'i-0815'"):
        caption(table_of(ROWS[:50]), impression="i-0815")


@pytest.mark.parametrize("number", [7, *range(20, 25)])
def test_the_outcome_of_a_page_is_what_its_score_counts(number: int, report: CaptionReport) -> None:
    """By the kind of weights that was asked for; clicks on what both rankers begin with count for nobody."""
    row = ROWS[number]
    page = caption(table_of(ROWS), report.model, weights=ODDS, impression=row["impression"]).page
    assert page is not None
    assert [line.weight for line in page.lines] == pytest.approx(
        [math.exp(-sum(line.parts.values())) for line in page.lines]
    )
    both = zip(*row["ranks"], strict=True)
    shared = next((place for place, (one, other) in enumerate(both) if not one == other == place + 1), 99)
    sides = [0 if place < shared else {0: 1, 1: -1}.get(team, 0) for place, team in enumerate(row["teams"])]
    clicked = [event["rank"] - 1 for event in row["events"]]
    assert page.outcome is not None
    wanted = [sum(sides[place] for place in clicked), sum(sides[place] * page.lines[place].weight for place in clicked)]
    assert list(page.outcome) == pytest.approx(wanted)
    assert "what a click counts for, by odds" in page.table().title
    assert ("gives to nobody" in page.table().title) == any(sides[place] == 0 for place in clicked)


def test_the_click_weight_of_the_papers_example_is_a_third() -> None:
    features = (
        CaptionFeature("short URL", "url length", max=20),
        CaptionFeature("title bold", "title bold sections", min=3),
    )
    weights = (FeatureWeight("short URL", 0.4, 0.1, 16.0, 6e-5), FeatureWeight("title bold", 0.7, 0.1, 49.0, 3e-12))
    levels: dict[str, Any] = {"position_levels": [[0]], "grade_levels": [[0]], "covariance": np.eye(3).tolist()}
    model = CaptionModel(
        "example", features, **levels, parameters=[-2.0, 0.4, 0.7], weights=weights, means=[0.5, 0.25], unseen=0.0,
        rows=90, clicks=9, patterns=4, log_likelihood=-20.0, dropped={},
    )  # fmt: skip
    codes = np.array([[0, 0, 1, 1], [0, 0, 0, 0]], np.int8)
    assert model.click_weights(codes, ODDS) == pytest.approx([0.3329, 1], abs=5e-5)

    def chance(score: float) -> float:
        return 1 / (1 + math.exp(-score))

    wanted = [chance(-2 + 0.375) / chance(-2 + 1.1), chance(-2 + 0.375) / chance(-2)]
    assert model.click_weights(codes, PROBABILITY) == pytest.approx(wanted)
    assert CaptionModel.from_dict(json.loads(json.dumps(model.to_dict()))) == model
    with pytest.raises(DataError, match="weighted by 'luck'; give 'odds' or 'probability'"):
        model.click_weights(codes, "luck")


def test_reports_hold_no_number_that_is_none(report: CaptionReport) -> None:
    text = json.dumps(report.to_dict(), allow_nan=False)
    assert json.loads(text)["impressions"] == len(ROWS) == report.impressions
    assert report.judged == report.results == sum(len(row["documents"]) for row in ROWS)
    assert report.clicks == sum(len(row["events"]) for row in ROWS)
    printed = str(report)
    assert "nan" not in printed.replace("explanation", "")
    assert report.sentences[0] in printed
    assert report.chart()["layer"]


def test_without_judgments_there_are_no_grades_and_the_report_says_what_that_costs() -> None:
    blind = caption(table_of(captioned_rows(500, seed=11, judged=False)))
    assert not blind.model.is_judged
    assert blind.model.grades == {"unjudged": 0.0}
    assert (blind.judged, blind.unjudged_perplexities, blind.preferences[0].none) == (0, (), 0)
    assert CaptionNote.NOT_JUDGED in [note.code for note in blind.notes]


@pytest.mark.parametrize("seed", range(2))
def test_a_feature_must_hold_between_queries(seed: int) -> None:
    """People click in eight of twelve queries with links below, in five of twelve without: no more than chance."""
    chance, links = Random(seed), CaptionFeature("deep links", "deep links", min=1)
    measures = [0.6] * 8 + [0.05] * 4 + [0.6] * 5 + [0.05] * 7
    rows = []
    for number in range(800):
        query = chance.randrange(24)
        shown = [make_caption("Old maps", "maps.org", deep_links=int(query < 12))] * 4
        clicks = [rank for rank in range(1, 5) if chance.random() < measures[query]]
        rows.append(made_row(number, clicks, query=f"q{query}", unit=f"u{number}", captions=shown))
    model = caption(table_of(rows), features=[links], tune="none").model
    assert not model.weights
    assert model.dropped["deep links"].startswith("not significant between queries: p = 0.")


def test_logs_that_teach_nothing_get_an_answer_or_a_reason() -> None:
    bare = [made_row(number) for number in range(30)]
    with pytest.raises(DataError, match=r"no impression with captions that can be used \(no captions: 30\)"):
        caption(table_of(bare))
    quiet = [row | {"events": []} for row in ROWS[:40]]
    with pytest.raises(DataError, match="clicks cannot be learned from"):
        caption(table_of(quiet))
    alone = caption(table_of([row | {"unit": "one"} for row in ROWS[:60]]), held_out=0)
    assert alone.verdicts[0].kind == CaptionCode.UNKNOWN
    assert alone.rescored[0].plain.code == NoError.ONE_BUCKET
    json.dumps(alone.to_dict(), allow_nan=False)
    same = make_caption("Old maps", "maps.org", "Old maps of the world")
    plain = caption(table_of([row | {"captions": [same] * len(row["documents"])} for row in ROWS]))
    assert not plain.model.weights
    assert set(plain.model.dropped.values()) <= {"no result has it", "all results have it"}
    assert plain.rescored[0].weighted[ODDS].value == plain.rescored[0].plain.value
    assert plain.verdicts[0].is_clean
    assert CaptionNote.NO_WEIGHTS in [note.code for note in plain.notes]


def test_logs_without_queries_are_diagnosed_all_the_same() -> None:
    report = caption(table_of([row | {"query": None} for row in ROWS]))
    assert report.model.weights
    assert not any("between queries" in reason for reason in report.model.dropped.values())
    json.dumps(report.to_dict(), allow_nan=False)


def test_rows_that_cannot_be_used_are_counted() -> None:
    uneven = ROWS[1] | {"captions": ROWS[1]["captions"][:-1]}
    rows = [ROWS[0] | {"captions": None}, uneven, *ROWS[2:90], ROWS[5]]
    phones = Exclusion({"device": ["phone"]})
    report = caption(table_of(rows))
    assert report.dropped == {
        "no captions": 1,
        "more or fewer captions than documents": 1,
        "repeated_impression": 1,
    }
    assert report.impressions == 88
    left = caption(table_of(rows), exclude=phones)
    assert left.dropped["excluded:device = phone"] + left.impressions + 3 >= 91


def test_files_tables_and_streams_say_the_same(tmp_path: Path) -> None:
    table = table_of(ROWS[:200])
    write_batches(tmp_path / "log.parquet", iter(table.to_batches()))
    write_batches(tmp_path / "log.jsonl", iter(table.to_batches()))
    wanted = caption(table).to_dict()
    for source in (str(tmp_path / "log.parquet"), tmp_path / "log.jsonl", iter(table.to_batches(7)), table.to_reader()):
        assert_alike(caption(source).to_dict(), wanted)
    assert_alike(caption(pa.concat_tables([table.slice(0, 77), table.slice(77)])).to_dict(), wanted)


def assert_alike(found: Any, wanted: Any) -> None:
    """The same but for the last digits of sums, which depend on the order of their parts."""
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for name in wanted:
            assert_alike(found[name], wanted[name])
    elif isinstance(wanted, list | tuple):
        for one, other in zip(found, wanted, strict=True):
            assert_alike(one, other)
    else:
        assert found == (pytest.approx(wanted, rel=1e-6, abs=1e-9) if isinstance(wanted, float) else wanted)


def run(arguments: list[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    caption_options(parser)
    run_caption(parser.parse_args(arguments))


def test_the_command_learns_keeps_and_uses_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, kept = str(tmp_path / "log.parquet"), str(tmp_path / "model.json")
    write_batches(path, iter(table_of(ROWS).to_batches()))
    run([path, "--out", kept, "--out", str(tmp_path / "weights.svg")])
    assert capsys.readouterr().out == f"{caption(path)}\n"
    assert (tmp_path / "weights.svg").read_text().startswith("<svg")
    run([path, "--model", kept, "--format", "json", "--weights", "odds", "--navigational", "layout=wide"])
    said = json.loads(capsys.readouterr().out)
    assert (said["main"], list(said["models"]), said["weights"]) == ("combined", ["combined"], "odds")
    assert CaptionModel.load(kept) == caption(path).model
    for wrong, message in (
        (["--held-out", "1"], "held_out is 1.0"),
        (["--weights", "luck"], "weighted by 'luck'"),
        (["--tune", "luck"], "tuned by 'luck'"),
        (["--model", str(tmp_path / "none.json")], "cannot read"),
        (["--model", path], "is not a caption model"),
    ):
        with pytest.raises(DataError, match=message):
            run([path, *wrong])
    for wrong in (["--scheme", "click"], ["--navigational", "layout"]):
        with pytest.raises(SystemExit):
            run([path, *wrong])


def test_every_verdict_has_a_label_of_its_own() -> None:
    assert len({code.text for code in CaptionCode}) == len(CaptionCode)
