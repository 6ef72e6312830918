"""What is wrong in LETOR text, in words: file, line, value, remedy."""

from __future__ import annotations

import re

from interleaf.errors import DataError
from interleaf.simulate.data import MOST_GRADE
from interleaf.simulate.letor_rows import (
    BAD_FEATURE,
    BAD_GRADE,
    BAD_NUMBER,
    ID_LARGE,
    ID_ORDER,
    ID_ZERO,
    MOST_FEATURES,
    NO_QUERY,
    Outcome,
)
from interleaf.simulate.letor_text import Piece

FORM = "a row reads `grade qid:ID 1:value 2:value ... # comment`"
_WORDS = {
    BAD_GRADE: f"the grade is {{word}}; grades are whole numbers from 0 to {MOST_GRADE}, and {FORM}",
    NO_QUERY: f"{{word}} stands where the query belongs; {FORM}",
    BAD_FEATURE: f"{{word}} stands where a feature belongs; {FORM}",
    BAD_NUMBER: "{word} has a value that is not a number; write it as 0.25, -3 or 1e-5",
    ID_ZERO: "{word} has feature id 0; ids count from 1",
    ID_ORDER: "{word} comes after a feature with the same or a larger id; each id comes once, in rising order",
    ID_LARGE: f"{{word}} has a feature id above {MOST_FEATURES:,}; number the features from 1, without gaps",
}
_NOT_FINITE = "{word} has a value that is not finite; replace it by a number, or leave the feature out, which means 0"
_TOO_LARGE = "{word} has a value beyond the range of 32-bit floats (3.4e38); scale the feature down"
_FINITE_NOT = re.compile(r"[^:]*:[+-]?(nan|inf|infinity)", re.IGNORECASE)
_LONGEST = 60


def mistake(piece: Piece, outcome: Outcome) -> DataError:
    """The error for what the parser stumbled over."""
    word = _word(piece.text, outcome.at)
    is_not_finite = outcome.code == BAD_NUMBER and _FINITE_NOT.fullmatch(word)
    words = (_NOT_FINITE if is_not_finite else _WORDS[outcome.code]).format(word=_shown(word))
    is_first = piece.before == 0 and outcome.rows == 0
    if is_first and outcome.code in (BAD_GRADE, NO_QUERY, BAD_FEATURE):
        words = f"this does not look like LETOR text: {words}"
    return DataError(f"{place(piece, outcome.line)}: {words}")


def too_large(piece: Piece, at: int) -> DataError:
    """The error for a number that would become infinite."""
    start = max(piece.text.rfind(sign, 0, at) for sign in (b" ", b"\t")) + 1
    line = piece.text.count(b"\n", 0, at)
    return DataError(f"{place(piece, line)}: {_TOO_LARGE.format(word=_shown(_word(piece.text, start)))}")


def place(piece: Piece, line: int) -> str:
    """Where a line of a piece (from 0) is, as a person counts."""
    return f"{piece.path}, line {piece.before + line + 1}"


def _word(text: bytes, at: int) -> str:
    found = re.compile(rb"[^\s#]*").match(text, at)
    return found.group().decode("utf-8", "replace") if found else ""


def _shown(word: str) -> str:
    if not word:
        return "the end of the row"
    return repr(word if len(word) <= _LONGEST else word[:_LONGEST] + "...")
