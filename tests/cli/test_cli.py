"""The command line: what it prints, how it refuses, and that help needs no compiler."""

import argparse
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interleaf
from interleaf import Interleaving, audit, cli
from interleaf.methods.registry import METHODS
from tests.support.conformance import check_once

VERBS = (
    *("methods", "interleave", "credit", "audit", "simulate", "reproduce"),
    *("analyze", "plan", "learn", "caption", "reuse", "import", "export"),
    *("serve", "proxy", "keys", "store", "demo"),
    "completion",
)
RANKINGS = {"production": ["d4", "d1", "d7"], "candidate": ["d1", "d9", "d4"]}
HEAVY = ("numba", "llvmlite", "scipy", "pyarrow")
Said = pytest.CaptureFixture[str]


def feed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def ask(arguments: list[str], said: Said) -> str:
    """Standard output of a command that succeeds, with nothing on standard error."""
    assert cli.main(arguments) == 0
    out, err = said.readouterr()
    assert err == ""
    return out


def status_of(arguments: list[str]) -> int:
    """The exit status, whether it is returned or, for wrong arguments, raised."""
    try:
        return cli.main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def help_of(verb: str, said: Said) -> str:
    assert status_of([verb, "--help"]) == 0
    return said.readouterr().out


def shell(command: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    """A command line as a person types it, with the `interleaf` of this Python."""
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": folders}
    return subprocess.run(command, shell=True, capture_output=True, text=True, env=environment, timeout=300, **more)


def test_the_help_names_every_verb(capsys: Said) -> None:
    assert status_of(["--help"]) == 0
    text = capsys.readouterr().out
    assert tuple(re.findall(r"^    (\w+)", text, flags=re.MULTILINE)) == VERBS


@pytest.mark.parametrize(
    "verb",
    # test_serve, test_config and test_demo_run run the examples of serve, proxy and demo.
    [
        pytest.param(verb, marks=pytest.mark.slow if verb == "reproduce" else ())
        for verb in VERBS
        if verb not in ("serve", "proxy", "demo")
    ],
)
def test_the_help_of_a_verb_ends_with_an_example_that_runs(
    verb: str, capsys: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_of(verb, capsys)
    heading, example = text.rstrip().splitlines()[-2:]
    assert heading == "Example:"
    assert f"interleaf {verb}" in example
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(audit, "check", check_once)
    if "|" in example or ">" in example:
        done = shell(example)
        assert (done.returncode, done.stderr) == (0, "")
        out = done.stdout
    else:
        commands = [shlex.split(command) for command in example.split(" && ")]
        assert {words[0] for words in commands} == {"interleaf"}
        out = "".join(ask(words[1:], capsys) for words in commands)
    if verb in ("interleave", "credit") or "--format json" in example:
        json.loads(out)
    assert out.strip() or ">" in example


@pytest.mark.parametrize("spec", [*METHODS, "probabilistic(tau=1)", "team_draft(fill=owned)"])
def test_interleave_and_credit_are_the_library_s(spec: str, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, json.dumps(RANKINGS))
    shown = json.loads(ask(["interleave", "--method", spec, "-k", "4", "--key", "exp", "user-7"], capsys))
    expected = interleaf.interleave(RANKINGS, spec, 4, key=("exp", "user-7"))
    assert shown == expected.to_dict()
    assert Interleaving.from_dict(shown) == expected
    for scheme in METHODS[shown["method"].partition("(")[0]].schemes:
        feed(monkeypatch, json.dumps(shown))
        outcome = json.loads(ask(["credit", "--clicks", "1", "3", "--scheme", scheme], capsys))
        assert outcome == interleaf.credit(expected, [1, 3], scheme).to_dict()


def test_interleave_takes_a_plain_list_of_rankings_and_prints_them_if_asked(
    capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(monkeypatch, '[["ä", 2], [2, "本"]]')
    line = ask(["interleave", "--with-rankings", "--key", "x"], capsys)
    shown = json.loads(line)
    assert shown["rankers"] == ["A", "B"]
    assert shown["rankings"] == [["ä", 2], [2, "本"]]
    assert "本" in line


def test_without_a_key_each_list_has_its_own(capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for _ in range(3):
        feed(monkeypatch, json.dumps(RANKINGS))
        keys.add(json.loads(ask(["interleave"], capsys))["key"])
    assert len(keys) == 3


def test_the_printed_key_gives_the_same_list_again(capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, json.dumps(RANKINGS))
    first = ask(["interleave", "--key", "exp", "user-7"], capsys)
    feed(monkeypatch, json.dumps(RANKINGS))
    assert ask(["interleave", "--key", json.loads(first)["key"]], capsys) == first


def test_a_list_goes_through_a_pipe_to_its_outcome() -> None:
    pipe = "interleaf interleave --key u | interleaf credit --clicks 1"
    done = shell(pipe, input=json.dumps(RANKINGS))
    assert (done.returncode, done.stderr) == (0, "")
    expected = interleaf.credit(interleaf.interleave(RANKINGS, key="u"), [1])
    assert json.loads(done.stdout) == expected.to_dict()


LISTED = '{"rankings": [["a", "b"], ["b"]], "documents": ["a", "b"], "teams": [0, 1]}'
WRONG: dict[str, tuple[list[str], str, str]] = {
    "no verb": ([], "", "VERB"),
    "unknown verb": (["interlave"], "", "'interleave'"),
    "unknown option": (["methods", "--yaml"], "", "--yaml"),
    "not a number": (["interleave", "-k", "ten"], "[]", "'ten'"),
    "no input": (["interleave"], "", "not JSON"),
    "no list": (["credit", "--clicks", "1"], "", "not JSON"),
    "bad JSON": (["interleave"], '{"A": [', "not JSON"),
    "no rankings": (["interleave"], "17", "17"),
    "rankings in an object": (
        ["interleave"],
        '{"rankings": {"A": ["a"], "B": ["b"]}}',
        "list of documents for each ranker",
    ),
    "rankings in a list": (["interleave"], '{"rankings": [["a"], ["b"]]}', "list of documents for each ranker"),
    "one ranking": (["interleave"], '[["a"]]', "2 to 127 rankers, not 1"),
    "a duplicate": (["interleave"], '[["a", "b", "a"], ["b"]]', "ranks 1 and 3"),
    "k of zero": (["interleave", "-k", "0"], '[["a"], ["b"]]', "at least 1"),
    "unknown method": (["interleave", "--method", "tema_draft"], '[["a"], ["b"]]', "'team_draft'"),
    "unknown parameter": (["interleave", "--method", "team_draft(tau=3)"], '[["a"], ["b"]]', "'fill' or 'prefix'"),
    "unknown method to audit": (["audit", "tema_draft"], "", "'team_draft'"),
    "click below the list": (["credit", "--clicks", "3"], LISTED, "ranks 1 to 2"),
    "click above the list": (["credit", "--clicks", "0"], LISTED, "ranks 1 to 2"),
    "unknown scheme": (["credit", "--scheme", "clicks"], LISTED, "'click'"),
    "a list of lists": (["credit"], "[]", "object"),
    "an empty object": (["credit"], "{}", "documents"),
    "no teams": (["credit"], '{"rankings": [["a"], ["b"]], "documents": ["a"]}', "owner"),
    "documents are a number": (["credit"], '{"rankings": [["a"], ["b"]], "documents": 5, "teams": [0]}', "documents"),
    "too few rankers": (
        ["credit"],
        '{"rankings": [["a"], ["b"]], "rankers": ["A"], "documents": ["a"], "teams": [0]}',
        "rankers",
    ),
    "rankers are a number": (
        ["credit"],
        '{"rankings": [["a"], ["b"]], "rankers": 5, "documents": ["a"], "teams": [0]}',
        "rankers",
    ),
    "not a number at all": (["interleave"], '[[NaN], ["b"]]', "NaN"),
}


# A misspelt word of each kind, and what is meant.
MISSPELT: dict[str, tuple[list[str], str]] = {
    "verb": (["simulat"], "'simulate'"),
    "verb of a verb": (["keys", "lst"], "'list'"),
    "option": (["simulate", "--impresions", "5"], "'--impressions'"),
    "option of a verb of a verb": (["keys", "add", "admin", "--lable=x"], "'--label'"),
    "choice": (["analyze", "x.parquet", "--engine", "sprk"], "'spark'"),
    "method": (["audit", "tema_draft"], "'team_draft'"),
    "parameter": (["audit", "team_draft(fil=owned)"], "'fill'"),
    "scheme": (["credit", "--scheme", "clicks"], "'click'"),
    "ranker": (["interleave", "--method", "single(ranker=prodution)"], "'production'"),
    "ranker of the demo": (["demo", "--rankers", "equal", "exakt"], "'exact'"),
    "click model": (["simulate", "--clicks", "informationl"], "'informational'"),
    "study": (["reproduce", "fidelty"], "'fidelity'"),
    "option before the verb": (["--hlep"], "'--help'"),
    "option before the verb, with a value": (["--versoin=1", "methods"], "'--version'"),
}


@pytest.mark.parametrize(("option", "said"), [("--method=team_darft", "unknown method"), ("-k0", "k is 0")])
def test_a_wrong_option_is_named_before_input_is_read(
    option: str, said: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(monkeypatch, "")
    assert status_of(["interleave", option]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("what", MISSPELT)
def test_a_misspelt_word_is_answered_with_what_is_meant(
    what: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, meant = MISSPELT[what]
    feed(monkeypatch, LISTED if arguments[0] == "credit" else json.dumps(RANKINGS))
    assert status_of(arguments) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"did you mean {meant}?" in said


def test_all_unknown_options_are_named_at_once_with_the_verb_s_own_help(capsys: Said) -> None:
    assert status_of(["keys", "list", "--jsn", "--lable"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("interleaf keys list: there is no option --jsn; there is no option --lable")
    assert said.endswith("(see interleaf keys list --help)\n")


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and all parsers of its verbs."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for made in action.choices.values():
                yield from parsers(made)


def test_every_argument_has_a_help_text_and_shows_its_default() -> None:
    for parser in parsers(cli.build_parser()):
        text = " ".join(parser.format_help().split())
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                continue
            assert action.help, (parser.prog, action.dest)
            if isinstance(action.default, int | float) and not isinstance(action.default, bool):
                assert f"(default: {action.default})" in text, (parser.prog, action.dest)


def test_the_help_shows_verbs_in_groups(capsys: Said) -> None:
    assert status_of(["--help"]) == 0
    text = capsys.readouterr().out
    headings = [f"\n{title}:\n    {verbs[0].name}" for title, verbs in cli.GROUPS.items()]
    assert [heading for heading in headings if heading not in text] == []


@pytest.mark.parametrize("what", WRONG)
def test_wrong_use_is_one_line_and_status_two(what: str, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, given, remedy = WRONG[what]
    feed(monkeypatch, given)
    assert status_of(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("interleaf")
    assert remedy in err


def test_wrong_use_in_a_shell_is_one_line_too() -> None:
    for command in ("interleaf bogus", "interleaf credit --clicks 1 </dev/null", "interleaf interleave <&-"):
        done = shell(command)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert done.stderr.count("\n") == 1


def test_a_document_that_cannot_be_written_in_utf_8_is_escaped_or_refused() -> None:
    """JSON can hold half a character; whatever is done about it, it is no traceback."""
    done = shell("interleaf interleave --key u", input=r'[["\ud800"], ["b"]]')
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        assert set(json.loads(done.stdout)["documents"]) == {"\ud800", "b"}
    else:
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_reader_that_goes_away_is_no_error() -> None:
    done = shell("interleaf methods | true; interleaf methods --format json | head -c 9")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["methods"], ["methods", "--format", "json"], ["audit", "--help"]]
)
def test_help_and_the_table_need_no_compiler(arguments: list[str]) -> None:
    code = (
        "import atexit, sys\nfrom interleaf.cli import main\n"
        f"atexit.register(lambda: print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr))\n"
        f"main({arguments!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout
    assert done.stderr == "[]\n"


def test_importing_interleaf_brings_no_heavy_package() -> None:
    code = f"import sys, interleaf; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_the_table_lists_every_method_once(capsys: Said) -> None:
    assert [row["name"] for row in json.loads(ask(["methods", "--format", "json"], capsys))] == list(METHODS)
    headings = [line.partition(":")[0] for line in ask(["methods"], capsys).splitlines() if not line.startswith(" ")]
    assert headings == list(METHODS)
    lines = ask(["methods", "--format", "markdown"], capsys).splitlines()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines]
    assert rows == ["name", "---", *METHODS]


def test_an_audit_prints_verdicts_or_nothing_but_json_and_no_bar_in_a_pipe(capsys: Said) -> None:
    text = ask(["audit", "single"], capsys)
    assert text.startswith("single\n  considerate: proved in all ")
    (found,) = json.loads(ask(["audit", "single", "--format", "json"], capsys))["methods"]
    assert found["claims"] == {"considerate": True, "fair": None, "pareto": None, "reusable": False}


def test_on_a_terminal_an_audit_shows_a_bar_and_takes_it_away(capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert cli.main(["audit", "single"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("single\n")
    assert "#" in err
    assert err.rpartition("\r")[2].strip() == ""
