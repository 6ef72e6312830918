"""`interleaf analyze` and `interleaf plan`: what they print and write, and the status that they end with."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from interleaf import cli, log
from interleaf.analysis.analyze import analyze
from interleaf.analysis.plan import plan
from interleaf.decode.columns import Exclusion
from interleaf.report.report import Report
from interleaf.tally import Tally
from tests.support.log_rows import made_row, made_rows, table_of

Said = pytest.CaptureFixture[str]
ROWS = [row | {"unit": f"u-{number % 90}"} for number, row in enumerate(made_rows(300))]


@pytest.fixture
def source(tmp_path: Path) -> str:
    log.write_batches(tmp_path / "log.parquet", table_of(ROWS).to_batches())
    return str(tmp_path / "log.parquet")


def asked(arguments: list[str], said: Said) -> str:
    """What a command that succeeds prints, with nothing on standard error."""
    assert cli.main(arguments) == 0
    out, err = said.readouterr()
    assert err == ""
    return out


def as_json(arguments: list[str], said: Said) -> Any:
    return json.loads(asked([*arguments, "--format", "json"], said))


def refused(arguments: list[str], said: Said) -> str:
    """The one line of a command that ends with status 2."""
    try:
        status = cli.main(arguments)
    except SystemExit as ended:
        status = int(ended.code or 0)
    out, err = said.readouterr()
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_json_is_the_report_as_plain_data(source: str, capsys: Said) -> None:
    found = as_json(["analyze", source], capsys)
    assert found == json.loads(json.dumps(analyze(source).to_dict()))
    assert Report.from_dict(found).to_dict() == found


def test_the_verdict_comes_first_in_print(source: str, capsys: Said) -> None:
    text = asked(["analyze", source], capsys)
    assert analyze(source).verdict.sentence.split(":")[0] in " ".join(text.split())[:400]


OPTIONS: dict[str, dict[str, Any]] = {
    "--scheme click": {"scheme": "click"},
    "--by device": {"by": ["device"]},
    "--events click=2 purchase=5 --scheme click": {"events": {"click": 2, "purchase": 5}, "scheme": "click"},
    "--dwell 30": {"dwell": 30},
    "--first": {"first": True},
    "--window 6": {"window": 6},
    "--sessions 3600": {"sessions": 3600},
    "--method probabilistic --scheme click": {"method": "probabilistic", "scheme": "click"},
    "--experiment shop --version 1": {"experiment": "shop", "version": 1},
    "--exclude device=phone": {"exclude": Exclusion({"device": ["phone"]})},
    "--exclude device=phone device=watch": {"exclude": Exclusion({"device": ["phone", "watch"]})},
    "--max-impressions 3": {"exclude": Exclusion(max_impressions=3)},
    "--control A": {"control": "A"},
    "--confidence 0.9 --planned-units 500": {"confidence": 0.9, "planned_units": 500},
    "--look 2/5": {"look": (2, 5)},
    "--aa": {"aa": True},
    "--correction max_t --look 1/1": {"correction": "max_t", "look": (1, 1)},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_options_are_those_of_the_function(source: str, options: str, capsys: Said) -> None:
    found = as_json(["analyze", source, *options.split()], capsys)
    assert found == json.loads(json.dumps(analyze(source, **OPTIONS[options]).to_dict()))


def test_files_are_written_beside_what_is_printed(source: str, tmp_path: Path, capsys: Said) -> None:
    names = {ending: tmp_path / f"report.{ending}" for ending in ("html", "md", "tally")}
    arguments = ["--out", str(names["html"]), "--out", str(names["md"]), "--out", str(names["tally"])]
    asked(["analyze", source, *arguments], capsys)
    report = analyze(source)
    assert names["md"].read_text(encoding="utf-8") == report.to_markdown()
    assert "<html" in names["html"].read_text(encoding="utf-8")
    assert analyze(Tally.load(names["tally"])).to_dict() == report.to_dict()


def test_a_file_has_the_format_of_its_suffix_or_of_the_option(source: str, tmp_path: Path, capsys: Said) -> None:
    names = [str(tmp_path / name) for name in ("report.json", "report.txt", "report.data")]
    text = asked(["analyze", source, "--out", names[0], "--out", names[1]], capsys)
    assert asked(["analyze", source, "--out", names[2], "--format", "json"], capsys) == text
    found, printed, other = (Path(name).read_text(encoding="utf-8") for name in names)
    assert json.loads(found) == as_json(["analyze", source], capsys)
    assert (printed, other) == (text, found)
    assert asked(["analyze", source, "--format", "markdown"], capsys).strip() == analyze(source).to_markdown().strip()


def test_invalid_options_are_listed_at_once(source: str, capsys: Said) -> None:
    assert cli.main(["analyze", source, "--dwell", "-1", "--events", "click=0", "--max-impressions", "5"]) == 2
    assert capsys.readouterr().err == (
        "interleaf analyze: 2 problems:\n"
        "  - the weight of 'click' is 0.0; give a number other than 0\n"
        "  - dwell is -1.0; give seconds above 0, or leave it out\n"
    )


def test_kept_tallies_add_up_to_the_report_of_the_whole(tmp_path: Path, capsys: Said) -> None:
    kept = []
    for day, rows in enumerate((ROWS[:120], ROWS[120:])):
        log.write_batches(tmp_path / f"{day}.jsonl", table_of(rows).to_batches())
        kept.append(str(tmp_path / f"{day}.tally"))
        asked(["analyze", str(tmp_path / f"{day}.jsonl"), "--scheme", "click", "--out", kept[-1]], capsys)
    whole = json.loads(json.dumps(analyze(table_of(ROWS), "click").to_dict()))
    assert as_json(["analyze", *kept], capsys) == whole
    both = [str(tmp_path / "0.jsonl"), str(tmp_path / "1.jsonl")]
    assert as_json(["analyze", *both, "--scheme", "click"], capsys) == whole
    assert "tallies and logs cannot be mixed" in refused(["analyze", kept[0], str(tmp_path / "1.jsonl")], capsys)


@pytest.mark.parametrize(
    "options", ["--scheme click", "--by device", "--dwell 30", "--exclude device=phone", "--first", "--sessions 60"]
)
def test_what_a_kept_tally_cannot_do_any_more_is_refused_and_not_ignored(
    source: str, tmp_path: Path, options: str, capsys: Said
) -> None:
    kept = str(tmp_path / "kept.tally")
    asked(["analyze", source, "--out", kept], capsys)
    assert "tally" in refused(["analyze", kept, *options.split()], capsys)


def test_a_failed_check_is_the_status_only_where_strict(tmp_path: Path, capsys: Said) -> None:
    rows = [row | ({"teams": [0]} if number % 4 == 0 else {}) for number, row in enumerate(ROWS)]
    log.write_batches(tmp_path / "bad.parquet", table_of(rows).to_batches())
    log.write_batches(tmp_path / "good.parquet", table_of(ROWS).to_batches())
    assert cli.main(["analyze", str(tmp_path / "bad.parquet")]) == 0
    assert cli.main(["analyze", str(tmp_path / "bad.parquet"), "--strict"]) == 1
    assert cli.main(["analyze", str(tmp_path / "bad.parquet"), "--strict", "--format", "json"]) == 1
    assert cli.main(["analyze", str(tmp_path / "good.parquet"), "--strict"]) == 0
    capsys.readouterr()


def test_all_wrong_options_are_listed_before_the_log_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "--confidence",
        "3",
        "--correction",
        "bonf",
        "--cluster",
        "query",
        "--threads",
        "-1",
        "--guardrails",
        "x=1",
    ]
    assert cli.main(["analyze", "no-such-log.parquet", *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("interleaf analyze: 5 problems:")
    for part in ("confidence is 3.0", "unknown correction 'bonf'", "unknown cluster 'query'", "threads is -1", "'x'"):
        assert part in error
    assert "no-such-log" not in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("none.parquet", "none.parquet"),
        ("LOG --scheme best", "unknown scheme 'best'"),
        ("LOG --method best", "unknown method 'best'"),
        ("LOG --control Z", "no ranker 'Z'"),
        ("LOG --look 2", "--look: '2' is not a look"),
        ("LOG --look 7/5", "there is no look 7 of 5"),
        ("LOG --events click=many", "--events: 'click=many' has another form than KIND=WEIGHT"),
        ("LOG --events click=0", "the weight of 'click' is 0.0"),
        ("LOG --exclude device", "--exclude: 'device' has another form than ATTRIBUTE=VALUE"),
        ("LOG --max-impressions 0", "max_impressions is 0"),
        ("LOG --confidence 1", "confidence is 1.0"),
        ("LOG --planned-units 0", "planned_units is 0"),
        ("LOG --correction none", "unknown correction 'none'"),
        ("LOG --sessions 60 --by device", "cannot be combined with by"),
        ("LOG --sessions nan", "sessions=nan"),
        ("LOG --window inf", "window is inf"),
        ("LOG --dwell many", "invalid float value"),
        ("LOG --experiment other", "experiment 'other'"),
        ("LOG --version 2", "version 2"),
        ("LOG --holdout 2", "2.0"),
        ("LOG --split A", "--split: 'A' has another form than ARM=SHARE"),
        ("LOG --split Z=0.5 holdout=1", "split names the arm 'Z'"),
        ("LOG --out no/folder/x.html", "no/folder"),
        ("LOG --out no/folder/x.md", "no/folder"),
        ("LOG --out no/folder/x.tally", "no/folder"),
        ("LOG --out report.pdf", "--out is 'report.pdf'; end it in one of .txt, .json, .md, .html, .tally"),
        ("LOG --format tally", "--format tally cannot be printed"),
        ("LOG --format json --out a.json --out b.html", "--format is for one file"),
        ("LOG --dwell many --look 2", "--look: '2' is not a look"),
        ("LOG --look 2 --dwell many --enginee", "invalid float value: 'many'; there is no option --enginee"),
        ("broken.tally", "broken.tally is not a tally"),
        ("", "nothing to analyze"),
    ],
)
def test_wrong_use_ends_with_status_2_and_a_line(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str, capsys: Said
) -> None:
    rows = [made_row(number, (1,), "single(ranker=A)", arm="holdout", unit=f"h{number}") for number in range(400, 420)]
    log.write_batches(source, table_of([*ROWS, *rows]).to_batches())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.tally").write_bytes(b"PK\3\4 and so on")
    assert message in refused(["analyze", *arguments.replace("LOG", source).split()], capsys)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--guardrails latency", "--guardrails: 'latency' has another form than METRIC=MARGIN"),
        ("--guardrails abandonment=5%", "--guardrails: 'abandonment=5%' has another form than METRIC=MARGIN"),
        ("--guardrails latency=x", "--guardrails: 'latency=x' has another form than METRIC=MARGIN"),
        ("--guardrails latency=20 latency", "--guardrails: 'latency' has another form than METRIC=MARGIN"),
        ("--guardrails abandonment=0.1 abandonment=0.2", "--guardrails names 'abandonment' twice"),
        ("--guardrails latency=20 --guardrails latency=30", "--guardrails names 'latency' twice"),
        ("--split A=0.6 A=0.4", "--split names 'A' twice"),
        ("--kinds click=1 click=5", "--kinds names 'click' twice"),
        ("--events click=1 click=5", "--events names 'click' twice"),
    ],
)
def test_pairs_of_another_form_or_with_a_name_twice_are_refused(
    source: str, options: str, problem: str, capsys: Said
) -> None:
    assert problem in refused(["analyze", source, *options.split()], capsys)


def test_a_plan_is_printed_for_numbers_and_for_a_pilot(source: str, tmp_path: Path, capsys: Said) -> None:
    assert as_json(["plan", "--effect", "0.05"], capsys) == plan(0.05).to_dict()
    options = "--effect 0.05 --impressions-per-unit 4 --correlation 0.1 --variance 0.3 --power 0.9"
    many = options.split()
    expected = plan(0.05, impressions_per_unit=4, correlation=0.1, variance=0.3, power=0.9)
    assert as_json(["plan", *many], capsys) == expected.to_dict()
    assert asked(["plan", *many], capsys) == f"{expected}\n"
    found = as_json(["plan", source, "--effect", "0.02", "--scheme", "click"], capsys)
    assert found == plan(0.02, source, scheme="click").to_dict()
    assert as_json(["plan", source, "--units", "1000"], capsys) == plan(pilot=source, units=1000).to_dict()
    asked(["analyze", source, "--out", str(tmp_path / "x.tally")], capsys)
    kept = as_json(["plan", str(tmp_path / "x.tally"), "--effect", "0.02"], capsys)
    assert kept == as_json(["plan", source, "--effect", "0.02"], capsys)


@pytest.mark.parametrize(
    "arguments", ["", "--effect 0", "--effect 0.02 --power 1", "--effect 1 --variance 0", "--effect 1 --correlation 2"]
)
def test_a_plan_that_cannot_be_made_is_refused(arguments: str, capsys: Said) -> None:
    assert refused(["plan", *arguments.split()], capsys).startswith("interleaf plan: ")


def test_a_simulated_world_is_told_as_it_is(tmp_path: Path, capsys: Said) -> None:
    """The two commands of the first page, one after the other."""
    path = str(tmp_path / "world.parquet")
    made = ["simulate", "--rankers", "1", "18", "--impressions", "1500", "--taste", "1", "--out", path]
    assert "the truth: " in asked(made, capsys)
    asked(["analyze", path, "--out", str(tmp_path / "report.html"), "--out", str(tmp_path / "report.json")], capsys)
    found = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert found["verdict"]["winner"] == "A"
    assert "People prefer A" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_simulated_ranker_does_not_depend_on_the_other_ids(tmp_path: Path, capsys: Said) -> None:
    rankings = []
    for name, rankers in (("two", ["1", "5"]), ("three", ["1", "5", "99"])):
        path = str(tmp_path / f"{name}.parquet")
        asked(["simulate", "--rankers", *rankers, "--impressions", "40", "--with-rankings", "--out", path], capsys)
        rankings.append({row["query"]: row["rankings"][:2] for row in pq.read_table(path).to_pylist()})
    common = rankings[0].keys() & rankings[1].keys()
    assert len(common) > 20
    assert all(rankings[0][query] == rankings[1][query] for query in common)
