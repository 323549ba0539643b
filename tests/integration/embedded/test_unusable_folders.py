"""A folder in which no stack can run is refused by one sentence, which says why and what to do."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.full_disk import public_folder
from tests.small_disk import small_disk
from trackside.cli.app import call
from trackside.embedded import stack
from trackside.embedded.errors import StackError
from trackside.embedded.options import StackOptions

ROWS_ALONE = StackOptions(bootstrap_servers="127.0.0.1:1", durable=False)


@pytest.fixture
def public() -> Iterator[Path]:
    with public_folder() as folder:
        yield folder


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Returns the one line that a command which fails prints."""
    capsys.readouterr()
    assert call(list(arguments)) == 1
    said = capsys.readouterr().err
    assert said.startswith("trackside: ")
    assert said.count("\n") == 1, said
    return said.rstrip("\n")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the current folder, whose stack would have no Kafka of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    return tmp_path


@pytest.mark.parametrize("name", ["", "/kafka", "/logs", "/services", "/postgres"])
def test_a_file_in_the_place_of_a_folder_is_named(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Path(f"{here}/.trackside{name}")
    place.parent.mkdir(exist_ok=True)
    place.touch()
    found = refusal(capsys, "up")
    assert str(place) in found and found.endswith("something else is in its place: rename that")


@pytest.mark.parametrize("name", ["lock", "installation.json", "ports.json", "stack.json"])
def test_a_folder_in_the_place_of_a_file_is_named(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / ".trackside" / name).mkdir(parents=True)
    found = refusal(capsys, "up")
    assert str(here / ".trackside" / name) in found and "Is a directory" in found


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"state": "running", "processes": {}, "of_a_later_release": 1}']
)
def test_a_status_that_cannot_be_read_is_named(
    text: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / ".trackside").mkdir()
    (here / ".trackside" / "stack.json").write_text(text)
    for command in ("up", "status", "down", "ls"):
        assert f"{here / '.trackside' / 'stack.json'} can't be read" in refusal(capsys, command)


def test_a_current_folder_that_was_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, spec = tmp_path / "gone", tmp_path / "search.yaml"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    spec.write_text("kind: task\ntask_type: noop\n")
    for command in (["up"], ["status"], ["down"], ["ls"], ["submit", str(spec)]):
        assert "the current folder can't be used: No such file or directory" in refusal(capsys, *command)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_file_system_that_is_read_only_is_refused(
    is_there: bool, public: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(public, "1m") as disk:
        monkeypatch.chdir(disk.folder)
        if is_there:
            (disk.folder / ".trackside").mkdir()
        disk.make_writable(writable=False)
        assert "Read-only file system; start it in a folder of your own" in refusal(capsys, "up")


@pytest.mark.parametrize(
    "inodes", [3, *(pytest.param(inodes, marks=pytest.mark.long) for inodes in (1, 2, 6, 9))]
)
def test_a_file_system_without_a_free_inode_is_refused(
    inodes: int, public: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    with small_disk(public, "1g", inodes):
        monkeypatch.chdir(public)
        assert "No space left on device; make room there" in refusal(capsys, "up")


def test_what_initdb_prints_on_a_full_disk_goes_to_the_log(public: Path) -> None:
    home = public / ".trackside"
    with small_disk(public, "2m"):
        with pytest.raises(StackError) as caught:
            stack.start(home, ROWS_ALONE)
        (line,) = str(caught.value).splitlines()
        log = home / "logs" / "postgres.log"
        assert "initdb: FATAL:  could not write to file" in line
        assert line.endswith(f"No space left on device; all that it printed is in {log}")
        assert len(log.read_text().splitlines()) > 5
        assert log.stat().st_mode & 0o077 == 0
        assert [path.name for path in (home / "postgres" / "server").iterdir()] == ["used.lock"]


@pytest.mark.skipif(os.geteuid() != 0, reason="not root, who may act as another user")
@pytest.mark.parametrize(
    "name", ["", *(pytest.param(name, marks=pytest.mark.long) for name in ("kafka", "logs"))]
)
def test_a_folder_of_another_user_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stranger = 65_533
    with tempfile.TemporaryDirectory(prefix="trackside-foreign-") as place:
        Path(place).chmod(0o777)
        home = Path(place) / ".trackside"
        home.mkdir()
        if name:
            (home / name).mkdir(mode=0o700)
            os.chown(home, stranger, -1)
        (Path(place) / "catalogue.yaml").write_text("tasks: {}\n")
        monkeypatch.chdir(place)
        monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
        monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", "postgresql://127.0.0.1:1/none")
        refusal(capsys, "up", "--catalogue", "none.yaml")  # imports all: the stranger may be unable to
        os.seteuid(stranger)
        try:
            found = refusal(capsys, "up")
        finally:
            os.seteuid(0)
        assert "Permission denied; start it in a folder of your own" in found
        assert str(home / name) in found
