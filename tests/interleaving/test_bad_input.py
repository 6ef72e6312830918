"""What is wrong is said in interleaf's own words: the thing, the value and the remedy; never a stranger's traceback."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from interleaf import (
    ClickError,
    InterleafError,
    Interleaving,
    ListError,
    MethodError,
    RandomnessError,
    RankingError,
    SchemeError,
    credit,
    interleave,
)
from interleaf.methods.registry import DEFAULT

TWO: Any = {"production": ["d4", "d1", "d7"], "candidate": ["d1", "d9", "d4"]}
THREE: Any = [["a", "b"], ["b", "a"], ["c", "a"]]


def shown() -> Interleaving:
    return interleave(TWO, "team_draft", key="user-7", k=3)


def of(documents: Any = ("d1", "d4"), teams: Any = (0, 1), method: Any = "team_draft", rankings: Any = TWO) -> object:
    return Interleaving.of(rankings, documents, method, teams)


Case = tuple[Callable[[], object], type[InterleafError], list[str]]

RANKINGS: dict[str, Case] = {
    "a document twice": (
        lambda: interleave({"production": ["a", "b", "a"], "candidate": ["b"]}),
        RankingError,
        ["'production'", "'a'", "ranks 1 and 3", "keep the first"],
    ),
    "one ranker": (lambda: interleave([["a"]]), RankingError, [DEFAULT, "2 to", "not 1", "'A'"]),
    "no ranker": (lambda: interleave([]), RankingError, [DEFAULT, "not 0"]),
    "three for balanced": (lambda: interleave(THREE, "balanced"), RankingError, ["balanced", "exactly 2", "not 3"]),
    "three for constraints": (lambda: interleave(THREE, "document_constraint"), RankingError, ["exactly 2", "not 3"]),
    "three for the sign of ranks": (
        lambda: interleave(THREE, "optimized(credit=binary)"),
        InterleafError,
        ["optimized(credit=binary)", "not 3"],
    ),
    "three for a list by the sign of ranks": (
        lambda: of(["a"], None, "optimized(credit=binary)", THREE),
        InterleafError,
        ["optimized(credit=binary)", "not 3"],
    ),
    "too many rankers": (lambda: interleave([["a"]] * 200), RankingError, ["2 to 127", "not 200"]),
    "rankings of none": (lambda: interleave(None), RankingError, ["None", "mapping from ranker to ranking"]),  # type: ignore[arg-type]
    "rankings of a string": (lambda: interleave("abc"), RankingError, ["'abc'", "sequence of rankings"]),
    "rankings of a number": (lambda: interleave(7), RankingError, ["7", "sequence of rankings"]),  # type: ignore[arg-type]
    "rankings without order": (lambda: interleave({("a",), ("b",)}), RankingError, ["sequence of rankings"]),  # type: ignore[arg-type]
    "a ranking of a string": (lambda: interleave(["abc", ["d"]]), RankingError, ["'A'", "'abc'", "sequence"]),
    "a ranking of none": (lambda: interleave([["a"], None]), RankingError, ["'B'", "None", "sequence"]),  # type: ignore[list-item]
    "a ranking of a number": (lambda: interleave([["a"], 7]), RankingError, ["'B'", "7", "sequence"]),  # type: ignore[list-item]
    "a ranking without order": (lambda: interleave([["a"], {"b", "c"}]), RankingError, ["'B'", "sequence"]),  # type: ignore[list-item]
    "an unhashable document": (lambda: interleave([["a"], [["b"]]]), RankingError, ["'B'", "hashable", "strings"]),  # type: ignore[list-item]
    "nothing to show": (lambda: interleave([[], []]), RankingError, ["every ranking is empty", "at least one"]),
    "a ranker's name": (lambda: interleave({1: ["a"], "b": ["c"]}), RankingError, ["name is a text", "1"]),  # type: ignore[dict-item]
    "k of zero": (lambda: interleave(TWO, k=0), RankingError, ["k is 0", "at least 1"]),
    "k below zero": (lambda: interleave(TWO, k=-3), RankingError, ["k is -3", "at least 1"]),
    "k of a half": (lambda: interleave(TWO, k=2.5), RankingError, ["k is 2.5", "whole number"]),  # type: ignore[arg-type]
    "k of a word": (lambda: interleave(TWO, k="3"), RankingError, ["k is '3'", "whole number"]),  # type: ignore[arg-type]
    "k of a truth": (lambda: interleave(TWO, k=True), RankingError, ["k is True", "whole number"]),
    "k of none": (lambda: interleave(TWO, k=None), RankingError, ["k is None", "whole number"]),  # type: ignore[arg-type]
    "a key of a float": (lambda: interleave(TWO, key=1.5), RandomnessError, ["1.5", "float", "string"]),  # type: ignore[arg-type]
    "a ranker that is not there": (
        lambda: interleave(TWO, "single(ranker=other)"),
        MethodError,
        ["'other'", "'production' or 'candidate'"],
    ),
}

CLICKS: dict[str, Case] = {
    "a click at rank 0": (lambda: credit(shown(), [0]), ClickError, ["rank 0", "1 to 3", "start at 1"]),
    "a click below zero": (lambda: credit(shown(), [-1]), ClickError, ["rank -1", "1 to 3"]),
    "a click beyond the list": (lambda: credit(shown(), [1, 4]), ClickError, ["rank 4", "1 to 3"]),
    "a click of a float": (lambda: credit(shown(), [1.0]), ClickError, ["1.0", "whole number"]),  # type: ignore[list-item]
    "a click of a truth": (lambda: credit(shown(), [True]), ClickError, ["True", "whole number"]),
    "clicks as a mask": (lambda: credit(shown(), np.array([True, False])), ClickError, ["True", "whole number"]),
    "a click of a word": (lambda: credit(shown(), ["d1"]), ClickError, ["'d1'", "rank"]),  # type: ignore[list-item]
    "a click of none": (lambda: credit(shown(), [None]), ClickError, ["None", "rank"]),  # type: ignore[list-item]
    "clicks of none": (lambda: credit(shown(), None), ClickError, ["None", "rank"]),  # type: ignore[arg-type]
    "clicks of a number": (lambda: credit(shown(), 2), ClickError, ["2", "rank"]),  # type: ignore[arg-type]
}

METHOD: dict[str, Case] = (
    {
        "unknown": (lambda: interleave(TWO, "teamdraft"), MethodError, ["'teamdraft'", "'team_draft'", "'balanced'"]),
        "none": (lambda: interleave(TWO, None), MethodError, ["None", "'team_draft'"]),  # type: ignore[arg-type]
        "a parameter": (lambda: interleave(TWO, "probabilistic(t=3)"), MethodError, ["'t'", "it has 'tau'"]),
        "a choice": (
            lambda: interleave(TWO, "team_draft(fill=no)"),
            MethodError,
            ["'fill'", "'no'", "'fair', 'owned'"],
        ),
        "a number as a choice": (
            lambda: interleave(TWO, "team_draft(prefix=1)"),
            MethodError,
            ["'prefix'", "1", "True"],
        ),
        "a truth as a number": (
            lambda: interleave(TWO, "probabilistic(tau=True)"),
            MethodError,
            ["'tau'", "True", "number"],
        ),
        "half a sample": (
            lambda: interleave(TWO, "optimized(samples=1.5)"),
            MethodError,
            ["'samples'", "1.5", "whole"],
        ),
        "no samples": (lambda: interleave(TWO, "optimized(samples=0)"), MethodError, ["'samples'", "0", "from 1 up"]),
        "a scheme": (
            lambda: credit(shown(), [1], "sign"),
            SchemeError,
            ["unknown", "'sign'", "'binary_deduped', 'click"],
        ),
        "a scheme of another": (
            lambda: credit(shown(), [1], "binary_direct"),
            SchemeError,
            ["team_draft does not offer", "'binary_direct'", "'binary_deduped'"],
        ),
        "a scheme of none at all": (
            lambda: credit(interleave(TWO, "single"), [1]),
            SchemeError,
            ["single", "no scheme", "A/B"],
        ),
        "a biased sign": (
            lambda: credit(interleave(TWO, "pairwise_preference"), [1], "binary"),
            SchemeError,
            ["'click'"],
        ),
    }
    | {
        f"tau {tau[:9]}": (
            lambda tau=tau: interleave(TWO, f"probabilistic(tau={tau})"),
            MethodError,
            ["'tau'", "number"],
        )
        for tau in ("nan", "inf", "-inf", "-1", "0", "0.0", "-0.0", "three", "'3'", "1e999", "9" * 400, "True", "False")
    }
)

LISTS: dict[str, Case] = {
    "teams too short": (lambda: of(teams=(0,)), ListError, ["teams has 1", "give 2"]),
    "teams too long": (lambda: of(teams=(0, 1, 1)), ListError, ["teams has 3", "give 2"]),
    "an owner that is not there": (lambda: of(teams=(0, 2)), ListError, ["rank 2", "ranker 2", "0 to 1"]),
    "an owner below nobody": (lambda: of(teams=(0, -2)), ListError, ["teams", "-2", "-1 up"]),
    "an owner of a float": (lambda: of(teams=(0, 1.0)), ListError, ["teams", "1.0", "whole"]),
    "an owner of a truth": (lambda: of(teams=(0, True)), ListError, ["teams", "True", "whole"]),
    "an owner by name": (lambda: of(teams=("production", "candidate")), ListError, ["'production'", "whole"]),
    "teams of a string": (lambda: of(teams="01"), ListError, ["teams", "'01'", "list"]),
    "teams of a number": (lambda: of(teams=1), ListError, ["teams", "1", "list"]),
    "no teams": (lambda: of(teams=None), ListError, ["team_draft", "owner of each"]),
    "a stranger": (lambda: of(("d1", "d5")), ListError, ["'d5'", "rank 2", "none of the rankings", "leave it out"]),
    "a document twice": (lambda: of(("d1", "d1")), ListError, ["'d1'", "twice", "once"]),
    "an unhashable document": (lambda: of((["d1"], "d4")), ListError, ["not a document id"]),
    "documents of none": (lambda: of(None), ListError, ["None", "list"]),
    "documents of a number": (lambda: of(3), ListError, ["3", "list"]),
    "documents of one string": (lambda: of("ab", rankings=[["a"], ["b"]]), ListError, ["'ab'", "list"]),
}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [pytest.param(*case, id=name) for cases in (RANKINGS, CLICKS, METHOD, LISTS) for name, case in cases.items()],
)
def test_a_mistake_is_named_with_its_value_and_its_remedy(
    call: Callable[[], object], error: type[InterleafError], words: list[str]
) -> None:
    with pytest.raises(error) as raised:
        call()
    assert [word for word in words if word not in str(raised.value)] == [], str(raised.value)
    assert "\n" not in str(raised.value)


MALFORMED = [
    *("", " ", "()", "(tau=3)", "team_draft(", "team_draft)", "team_draft(fill)", "team_draft(fill=)", "team draft"),
    *("team_draft(=fair)", "team_draft(fill=fair owned)", "team_draft(fill==fair)", "team_draft(,)", "3", "team-draft"),
    *("team_draft(fill=fair))", "team_draft((fill=fair))", "team_draft(fill='fair)", "team_draft(fill=\"fair')"),
    *("team_draft(fill=fair;prefix=True)", "team_draft(fill=fair)(prefix=True)", "team_draft(fill=fair, fill=fair)"),
    *("team_draft(fill=(fair))", "team_draft fill=fair", "team_draft()x", "team_draft\x00", "probabilistic(tau=3,,)"),
]


@pytest.mark.parametrize("spec", MALFORMED)
def test_a_malformed_spec_is_refused(spec: str) -> None:
    with pytest.raises(MethodError, match=r"spec|known are|twice"):
        interleave(TWO, spec)


@pytest.mark.parametrize("junk", [None, 3, 2.5, b"team_draft", ["team_draft"], {"name": "team_draft"}, object()])
def test_a_method_that_is_no_string_is_refused(junk: Any) -> None:
    with pytest.raises(MethodError, match="spec string"):
        interleave(TWO, junk)
    with pytest.raises(MethodError, match="spec string"):
        of(method=junk)


@pytest.mark.parametrize("error", [MethodError, SchemeError, RankingError, ListError, ClickError, RandomnessError])
def test_every_error_is_interleaf_s_own_and_a_value_error(error: type[Exception]) -> None:
    assert issubclass(error, InterleafError)
    assert issubclass(InterleafError, ValueError)


def test_numpy_s_integers_are_whole_numbers() -> None:
    assert interleave(TWO, k=np.int64(2), key="user-7").documents == shown().documents[:2]  # type: ignore[arg-type]
    assert credit(shown(), np.array([1, 3])).credit == credit(shown(), [1, 3]).credit
    assert credit(shown(), {3, 1}).credit == credit(shown(), (1, 3)).credit


def test_what_a_method_cannot_tell_is_none_and_what_cannot_be_is_never_likely() -> None:
    impossible = Interleaving.of(TWO, ["d9", "d1"], "team_draft", (1, 0))
    assert impossible.log_probability == -math.inf
    assert impossible.to_dict()["log_probability"] is None
    assert interleave(TWO, "single", key="user-7").log_probability is None
