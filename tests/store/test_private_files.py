"""What the store holds is for its owner: files are made with mode 0600, and those that others can open are named."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interleaf.cli import main
from interleaf.store import open_store
from tests.support.services import live
from tests.support.stores import address_of

NOBODY = 65534


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {path.name: f"{stat.S_IMODE(path.stat().st_mode):o}" for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("mask", [0, 0o022, 0o777])
def test_store_backup_and_key_files_are_for_their_owner_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    live_store, copy, key = (str(tmp_path / name) for name in ("live.sqlite", "copy.sqlite", "admin.key"))
    with umask(mask):
        assert main(["keys", "add", "admin", "--store", live_store, "--out", key]) == 0
        store = open_store(live_store)
        assert store.key_of(Path(key).read_text().strip()) is not None
        assert main(["store", "backup", copy, "--store", live_store]) == 0
        names = ["admin.key", "copy.sqlite", "live.sqlite", "live.sqlite-shm", "live.sqlite-wal"]
        assert modes(tmp_path) == dict.fromkeys(names, "600")
        store.close()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_can_neither_read_the_store_nor_make_a_key(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    path = tmp_path / "live.sqlite"
    with umask(0):
        store = open_store(path)
        store.add_key("ingest", "mine", 1)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(PermissionError):
            path.read_bytes()
        for action in ("SELECT * FROM access_keys", "DELETE FROM access_keys"):
            with pytest.raises(sqlite3.OperationalError, match="unable to open"), sqlite3.connect(path) as beside:
                beside.execute(action)
    finally:
        os.seteuid(0)
    store.close()


def test_a_store_that_others_can_open_is_named_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.sqlite"
    open_store(path).close()
    path.chmod(0o644)
    with live(tmp_path):
        pass
    wal, shm = (tmp_path / f"store.sqlite{ending}" for ending in ("-wal", "-shm"))
    assert f"chmod 600 {path} {wal} {shm}" in caplog.text
    assert main(["keys", "list", "--store", str(path)]) == 0
    assert f"other users of this machine can open {path} (mode 0644)" in capsys.readouterr().err
    path.chmod(0o600)
    caplog.clear()
    with live(tmp_path):
        pass
    assert main(["keys", "list", "--store", str(path)]) == 0
    assert (caplog.text, capsys.readouterr().err) == ("", "")


def test_a_secret_or_a_key_that_others_can_open_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from interleaf.cli.service_commands import read_secret

    secret = tmp_path / "unit.secret"
    secret.write_bytes(b"0123456789abcdef\n")
    secret.chmod(0o640)
    assert read_secret(secret) == b"0123456789abcdef"
    assert f"chmod 600 {secret}" in capsys.readouterr().err
    command = [str(Path(sys.executable).with_name("interleaf")), "keys", "add", "read", "--store", "live.sqlite"]
    with umask(0o022), (tmp_path / "read.key").open("w") as file:
        done = subprocess.run(command, cwd=tmp_path, stdout=file, stderr=subprocess.PIPE, text=True, check=True)
    assert "use --out FILE" in done.stderr


def test_nothing_is_written_over_and_no_key_is_made_without_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = tmp_path / "live.sqlite", tmp_path / "other"
    open_store(path).close()
    other.write_text("mine")
    assert main(["store", "backup", str(other), "--store", str(path)]) == 2
    for out in (str(other), str(tmp_path / "nowhere" / "key")):
        assert main(["keys", "add", "admin", "--store", str(path), "--out", out]) == 2
    errors = capsys.readouterr().err
    assert "already exists; give the backup another name" in errors
    assert "already exists; choose another --out" in errors
    assert "cannot create" in errors
    assert other.read_text() == "mine"
    store = open_store(path)
    assert store.keys() == []
    store.close()
    assert main(["store", "backup", "x", "--store", str(tmp_path / "nope")]) == 2
    assert "there is no store" in capsys.readouterr().err


def test_a_backup_is_the_whole_store_and_leaves_out_free_pages(tmp_path: Path) -> None:
    store = open_store(tmp_path / "live.sqlite")
    store.add_key("admin", "me", 1)
    store.back_up(tmp_path / "copy.sqlite")
    copy = open_store(tmp_path / "copy.sqlite")
    assert copy.keys() == store.keys()
    copy.close()
    store.close()
    with sqlite3.connect(tmp_path / "copy.sqlite") as beside:
        assert beside.execute("PRAGMA freelist_count").fetchall() == [(0,)]


def test_a_store_in_postgres_is_backed_up_by_its_own_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = address_of("postgres", tmp_path)
    assert main(["store", "backup", str(tmp_path / "copy"), "--store", address]) == 2
    assert "pg_dump" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()
