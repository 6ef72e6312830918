"""Codes that never change, with texts that may: of dropped rows, events, and what an importer counts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, Self


class Note(NamedTuple):
    """A note for people, and its stable code for programs."""

    code: str
    text: str

    def to_dict(self) -> dict[str, str]:
        return {"code": str(self.code), "text": self.text}


class Code(StrEnum):
    """A stable code, its text, in which `{}` is the placeholder for the detail, and perhaps a remedy.

    `mark` is its position, from 1.
    """

    text: str
    remedy: str
    mark: int

    def __new__(cls, code: str, text: str = "", remedy: str = "") -> Self:
        member = str.__new__(cls, code)
        member._value_, member.text, member.remedy, member.mark = code, text, remedy, len(cls.__members__) + 1
        return member

    def __repr__(self) -> str:
        return repr(self.value)

    def of(self, detail: object) -> str:
        """The key of a count with a detail, such as `wrong_value:teams`."""
        return f"{self}:{detail}"

    def note(self, *values: object) -> Note:
        """A note with this code and text, in which the values replace the placeholders."""
        return Note(self, self.text.format(*values))

    def details(self, counts: Mapping[str, int]) -> dict[str, int]:
        """The counts that have this code, by their details."""
        parts = ((*key.partition(":"), number) for key, number in counts.items())
        return {detail: number for code, _, detail, number in parts if code == self}
