"""The types of the TypeScript client follow the OpenAPI description."""

from tests.support.typescript_types import API, api_types


def test_the_committed_types_are_current() -> None:
    assert API.read_text("utf-8") == api_types(), "run python -m tests.support.typescript_types"
