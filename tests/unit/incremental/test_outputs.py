"""Files that others read meanwhile: whole or as they were, whatever happens to their writer."""

import fcntl
import hashlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.polling import poll_until_sync
from tests.rights import obeying_rights
from tests.small_disk import small_disk
from tests.unit.incremental.given import refused
from trackside.artifacts.blobs.credentials import Credential
from trackside.incremental.outputs import OutputError, named_credential, write_output

WRITER = """
import sys
from trackside.incremental.outputs import OutputError, write_output
try:
    written = write_output(sys.argv[1], None, iter(lambda: sys.stdin.buffer.read1(2**20), b""))
except OutputError as error:
    print(error.code, error)
else:
    print(written.sha256)
"""


def start_writer(path: Path) -> subprocess.Popen[bytes]:
    command = obeying_rights([sys.executable, "-c", WRITER, str(path)])
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def temporaries(folder: Path) -> list[Path]:
    return sorted(folder.glob(".trackside-*"))


def feed_half(writer: subprocess.Popen[bytes], folder: Path) -> Path:
    """Gets a writer 4 MiB of what it is to write; returns its temporary file once that has some of it."""
    assert writer.stdin is not None
    writer.stdin.write(b"n" * 2**22)
    writer.stdin.flush()
    poll_until_sync(lambda: any(each.stat().st_size for each in temporaries(folder)))
    return temporaries(folder)[-1]


def code_of(url: str, credential: Credential | None = None) -> str:
    with pytest.raises(OutputError) as caught:
        write_output(url, credential, [b"new"])
    assert url in str(caught.value) or caught.value.code == "bad_url"
    return caught.value.code


def test_a_shorter_file_over_a_longer_one_leaves_no_tail_and_folders_are_created(tmp_path: Path) -> None:
    """I29: Sedna's copy of 3 bytes over 16 keeps 13 old ones."""
    path = tmp_path / "live.bin"
    path.write_bytes(b"a model of sixteen"[:16])
    written = write_output(str(path), None, [b"n", b"", b"ew"])
    assert path.read_bytes() == b"new"
    assert (written.sha256, written.size_bytes) == (hashlib.sha256(b"new").hexdigest(), 3)
    assert names(tmp_path) == ["live.bin"]
    written = write_output((tmp_path / "a" / "b c" / "data.txt").as_uri(), None, [])
    assert (tmp_path / "a" / "b c" / "data.txt").read_bytes() == b"" and written.size_bytes == 0


def test_a_replaced_file_keeps_its_mode_and_a_link_leads_to_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "live.bin"
    write_output(str(path), None, [b"one"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    path.chmod(0o600)
    write_output(str(path), None, [b"two"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (tmp_path / "models").mkdir()
    (tmp_path / "live").symlink_to("models/one")
    write_output(str(tmp_path / "live"), None, [b"new"])
    assert (tmp_path / "live").is_symlink() and (tmp_path / "models" / "one").read_bytes() == b"new"


def test_a_source_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def source() -> Iterator[bytes]:
        yield b"half"
        raise OSError("the source is gone")

    (tmp_path / "live").write_bytes(b"old")
    with pytest.raises(OSError, match="the source is gone"):
        write_output(str(tmp_path / "live"), None, source())
    assert names(tmp_path) == ["live"] and (tmp_path / "live").read_bytes() == b"old"


def test_a_killed_writer_leaves_the_old_file_and_the_next_one_tidies_up(tmp_path: Path) -> None:
    """I29: Sedna writes into the file that is being read."""
    path = tmp_path / "live"
    path.write_bytes(b"old")
    writer = start_writer(path)
    feed_half(writer, tmp_path)
    assert path.read_bytes() == b"old"
    writer.kill()
    writer.communicate()
    assert path.read_bytes() == b"old" and len(temporaries(tmp_path)) == 1
    write_output(str(tmp_path / "other"), None, [b"new"])
    assert names(tmp_path) == ["live", "other"]


@pytest.mark.thorough
def test_the_file_of_a_writer_that_is_only_slow_is_not_tidied_away(tmp_path: Path) -> None:
    writer = start_writer(tmp_path / "slow")
    try:
        unfinished = feed_half(writer, tmp_path)
        os.kill(writer.pid, signal.SIGSTOP)
        write_output(str(tmp_path / "other"), None, [b"new"])
        assert unfinished.exists()
    finally:
        os.kill(writer.pid, signal.SIGCONT)
        out, _ = writer.communicate(b"end")
    written = b"n" * 2**22 + b"end"
    assert out.decode().strip() == hashlib.sha256(written).hexdigest()
    assert (tmp_path / "slow").read_bytes() == written and not temporaries(tmp_path)


def test_a_file_taken_for_a_leftover_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock
    taken: list[Path] = []

    def take_first(file: object, operation: int) -> None:
        if not taken:
            taken.extend(temporaries(tmp_path))
            taken[0].unlink()
        lock(file, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", take_first)
    write_output(str(tmp_path / "live"), None, [b"new"])
    assert taken and (tmp_path / "live").read_bytes() == b"new" and names(tmp_path) == ["live"]


def test_a_full_disk_is_named_and_the_old_file_stays(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        path = disk.folder / "live"
        path.write_bytes(b"old")
        with refused("disk_full", "make room there"):
            write_output(str(path), None, [b"n" * 2**18] * 10)
        assert path.read_bytes() == b"old" and names(disk.folder) == ["live"]
        disk.make_writable(writable=False)
        assert code_of(str(path)) == "no_permission"


def test_a_folder_without_the_right_to_write_is_named(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    writer = start_writer(tmp_path / "closed" / "live")
    out, _ = writer.communicate(b"new")
    assert out.decode().startswith("no_permission ") and str(tmp_path / "closed" / "live") in out.decode()


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe", "loop", "file/below", "new/"):
        assert code_of(f"{tmp_path}/{name}") == "not_a_file", name
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode) and not (tmp_path / "new").exists()


@pytest.mark.parametrize("url", ["", "relative", "ftp://host/x", "/tmp/../x", "/a\0b", "/tmp/" + "n" * 300])
def test_what_is_no_url_of_a_file_is_named_and_a_key_in_one_is_not_repeated(url: str) -> None:
    """I33."""
    assert code_of(url) == "bad_url"
    with pytest.raises(OutputError) as caught:
        write_output("s3://key:canary@bucket/x", None, [])
    assert caught.value.code == "bad_url" and "canary" not in str(caught.value)


def test_a_credential_that_the_host_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I34."""
    (tmp_path / "credentials.toml").write_text('[one]\nregion = "here"\n')
    (tmp_path / "credentials.toml").chmod(0o600)
    monkeypatch.setenv("TRACKSIDE_CREDENTIALS", str(tmp_path / "credentials.toml"))
    found = named_credential("one")
    assert found is not None and found.region == "here" and named_credential(None) is None
    with refused("credential_missing", r"add the table \[two\]"):
        named_credential("two")
