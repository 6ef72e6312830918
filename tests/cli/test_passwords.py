"""No error of a command shows the password of an address that it was given."""

from contextlib import suppress

import pytest

from interleaf.cli import main

PLACES = [
    "analyze ADDRESS",
    "analyze --impressions ADDRESS --events e.parquet",
    "analyze --impressions i.parquet --events ADDRESS",
    "simulate --out ADDRESS",
    "simulate --impressions 10 --out ADDRESS.parquet",
    "reuse ADDRESS",
    "import tables ADDRESS e.parquet --out log.parquet",
    "import tables i.parquet e.parquet --out ADDRESS.parquet",
    "export ubi --store ADDRESS --experiment shop --out shop.ndjson",
    "serve --store ADDRESS",
    "serve --webhook ADDRESS",
    "store migrate --store ADDRESS",
]
ADDRESSES = [
    "mysql://ann:hunter2@shop.invalid/db",
    "mysql://ann:hunter2@shop.invalid/db?query=select * from impressions",
    "mysql://ann:hunter2/and@hunter2@shop.invalid/db",
    "mysql://shop.invalid/db?user=ann&password=hunter2&query=select 1",
    "https://hunter2@shop.invalid/log.parquet",
    "postgresql://ann:hunter2@127.0.0.1:9/shop",
    "s3a:/ann:hunter2@bucket/logs",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("address", ADDRESSES)
def test_no_error_shows_a_password(place: str, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [word.replace("ADDRESS", address) for word in place.split()]
    with suppress(SystemExit):  # of the parser
        main(arguments)
    said = capsys.readouterr()
    assert said.err
    assert "hunter" not in said.err + said.out
