"""Every error interleaf raises on purpose; each message names the thing, the value and the remedy.

    InterleafError
    ├── MethodError     a spec string: unknown method, unknown parameter, a value out of range
    ├── SchemeError     a scoring scheme that is unknown, or that this method does not offer
    ├── RankingError    input rankings: a duplicate, nothing to show, too few or too many rankers, k below 1
    ├── ListError       a shown list that does not fit its rankings, its teams, or its stored form
    ├── ClickError      a click at a rank that was not shown, or a click model that cannot be
    ├── RandomnessError a key part or a number of choices that chance cannot be keyed by
    ├── DataError       judged queries and logs: a file that is not what it should be, a bad row, too few queries
    ├── ExperimentError a setting of a live experiment, or a request to one, that cannot be; it knows its `field`
    ├── StateError      what a live experiment is asked to do, and cannot in its present state
    ├── ClientError     a request that the live service refused, or a client of it that is used wrongly
    ├── StoreError      a store that cannot be reached or written; nothing was acknowledged, trying again is fine
    └── MissingExtraError  an optional extra is not installed; the message has the command that installs it

All of them are `ValueError`s too, so that `except ValueError` keeps its meaning. `MissingExtraError` is also an
`ImportError`.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class InterleafError(ValueError):
    """The root of every error that interleaf raises on purpose."""


class MethodError(InterleafError):
    """A spec string names something that does not exist, or sets it to a value it cannot take."""


class SchemeError(InterleafError):
    """A scoring scheme is unknown, or the method does not offer it."""


class RankingError(InterleafError):
    """The input rankings cannot be interleaved."""


class ListError(InterleafError):
    """A shown list does not fit its rankings, its teams, or its stored form."""


class ClickError(InterleafError):
    """A click, or a model of clicks, is impossible."""


class RandomnessError(InterleafError):
    """A key or a number of choices is not one that chance can work with."""


class DataError(InterleafError):
    """Judged queries or a log cannot be read, or do not fit together; with file and line where there are such."""


class ExperimentError(InterleafError):
    """A setting of an experiment, or a field of a request to one, is wrong: which, its value, and the remedy."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        shown = "" if value is None else f" is {repr(value)[:200]}"
        super().__init__(f"{field}{shown}: {remedy}")
        self.field, self.remedy = field, remedy


class StateError(InterleafError):
    """An experiment is not in the state for that; the message says what it is in, and what is possible."""


class ClientError(InterleafError):
    """The service refused a request, or a client is used wrongly; with the status, code and field that it gave."""

    def __init__(
        self, message: str, status: int | None = None, code: str | None = None, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.field = status, code, field


class StoreError(InterleafError):
    """The store cannot be reached, or cannot write; nothing was acknowledged, and it is worth trying again."""


class MissingExtraError(InterleafError, ImportError):
    """An optional extra of interleaf is not installed; the message has the command that installs it."""


def listed(names: Iterable[object]) -> str:
    """Known names as an error shows them: `'a', 'b' or 'c'`.

    >>> listed(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    words = [repr(name) for name in names]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words) or "none"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: the known name that is nearest to it, or '' if none is near.

    >>> did_you_mean("devcie", ["country", "device"])
    "; did you mean 'device'?"
    """
    nearest = get_close_matches(name, list(known), n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def suggest(name: str, known: Iterable[str]) -> str:
    """The known names, as `listed` gives them, with a hint if one of them is near to a misspelt name.

    >>> suggest("tema_draft", ["balanced", "team_draft"])
    "'balanced' or 'team_draft'; did you mean 'team_draft'?"
    """
    names = list(known)
    return listed(names) + did_you_mean(name, names)
