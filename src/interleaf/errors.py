"""The exceptions of interleaf. Each message says what is wrong, with its value, and what to do.

All of them are also `ValueError`s, so that `except ValueError` catches them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")
_LOGIN = re.compile(r"(:/+)(?:\S*:\S*@|[^\s/@]*@)")  # one slash is left of two if the address became a path
_SETTING = re.compile(r"([?&]\w*(?:password|pwd|secret|token)\w*=)[^\s&'\"]+", re.IGNORECASE)


def hide_passwords(text: str) -> str:
    """A text in which users and passwords of addresses are `***`.

    >>> hide_passwords("cannot read mysql://ann:hunter2@host/shop?ssl=1&password=hunter2 of s3://logs/a@b")
    'cannot read mysql://***host/shop?ssl=1&password=*** of s3://logs/a@b'
    """
    return _SETTING.sub(r"\1***", _LOGIN.sub(r"\1***", text))


class InterleafError(ValueError):
    """The base class of all errors of interleaf, whose messages hide passwords; `problems` are the parts of several."""

    problems: tuple[InterleafError, ...] = ()

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(hide_passwords(one) if isinstance(one, str) else one for one in arguments))


class MethodError(InterleafError):
    """A spec string names an unknown method or parameter, or sets a value that is out of range."""


class SchemeError(InterleafError):
    """A scoring scheme is unknown, or this method does not offer it."""


class RankingError(InterleafError):
    """Rankings cannot be interleaved: a duplicate, nothing to show, too few or too many rankers, or k below 1."""


class ListError(InterleafError):
    """A shown list does not fit its rankings, its teams, or its stored form."""


class ClickError(InterleafError):
    """A click at a rank that was not shown, or an impossible click model."""


class RandomnessError(InterleafError):
    """An invalid key of a random draw, or an invalid number of choices."""


class DataError(InterleafError):
    """Judged queries or a log cannot be read, or an option does not fit them; with file and line where known."""


class ExperimentError(InterleafError):
    """A setting of an experiment, or the field of a request, is wrong: its name, its value, and the remedy."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        shown = "" if value is None else f" is {repr(value)[:200]}"
        super().__init__(f"{field}{shown}: {remedy}")
        self.field, self.remedy = field, remedy


class StateError(InterleafError):
    """The state of an experiment does not allow an action; the message has the state and the possible actions."""


class ClientError(InterleafError):
    """The service rejected a request, or a client is used wrongly; with status, code and field of the response."""

    def __init__(
        self, message: str, status: int | None = None, code: str | None = None, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.field = status, code, field


class StoreError(InterleafError):
    """The store cannot be reached, or cannot write. Nothing was acknowledged, so that you can try again."""


class MissingExtraError(InterleafError, ImportError):
    """An optional extra of interleaf is not installed; the message has the command that installs it."""


def collect_errors(*calls: Callable[[], object]) -> list[InterleafError]:
    """The errors that these calls raise."""
    errors = []
    for call in calls:
        try:
            call()
        except InterleafError as error:
            errors.append(error)
    return errors


def raise_errors(errors: Iterable[InterleafError]) -> None:
    """Raise one error that lists all of these, each once; a single error is raised as it is, and none is no error."""
    all_problems = [problem for error in errors for problem in error.problems or (error,)]
    problems = list({str(problem): problem for problem in all_problems}.values())
    if len(problems) == 1:
        raise problems[0]
    if problems:
        summary = DataError("\n  - ".join([f"{len(problems)} problems:", *map(str, problems)]))
        summary.problems = tuple(problems)
        raise summary


def make_both(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """What two calls return; if calls fail, one error that lists the problems of both."""
    raise_errors(collect_errors(first, second))
    return first(), second()


def join_names(names: Iterable[object]) -> str:
    """Known names as an error shows them: `'a', 'b' or 'c'`.

    >>> join_names(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    words = [repr(name) for name in names]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words) or "none"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A hint for a misspelt name: the known name that is nearest to it, or '' if none is near.

    >>> did_you_mean("devcie", ["country", "device"])
    "; did you mean 'device'?"
    """
    nearest = get_close_matches(name, list(names), n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def suggest(name: str, names: Iterable[str]) -> str:
    """The known names, as `join_names` gives them, with a hint if one of them is near to a misspelt name.

    >>> suggest("tema_draft", ["balanced", "team_draft"])
    "'balanced' or 'team_draft'; did you mean 'team_draft'?"
    """
    names = list(names)
    return join_names(names) + did_you_mean(name, names)
