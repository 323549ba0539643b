import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import certifi
import pytest
from deploy import environment, find_uv

from tests.unit.embedded.index_server import UV, WHEEL_NAMES, Index, serve_index, wheel

ROOT = Path(__file__).resolve().parents[3]
LOCK = ROOT / "uv.lock"
NOWHERE = "http://127.0.0.1:9/simple"


def quiet(_: str) -> None:
    return


def write_uv(folder: Path, script: str = UV) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    uv = folder / "uv"
    uv.write_text(script)
    uv.chmod(0o755)
    return uv


@pytest.fixture
def index() -> Iterator[Index]:
    with serve_index(Index()) as running:
        yield running


@pytest.fixture(autouse=True)
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides every index and every uv of this machine."""
    for name in find_uv.INDEX_VARIABLES:
        monkeypatch.setenv(name, NOWHERE)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


def test_a_uv_on_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = write_uv(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    assert find_uv.find(tmp_path / "cache", LOCK, quiet) == uv


@pytest.mark.parametrize("script", ["#!/bin/sh\necho 'uv 0.1.0'\n", "#!/bin/sh\nexit 127\n", "#!/nowhere\n"])
def test_a_uv_on_path_that_is_of_no_use_is_passed_over(tmp_path: Path, script: str) -> None:
    write_uv(tmp_path / "old", script)
    good = write_uv(tmp_path / "good")
    assert find_uv.on_path(f"{tmp_path / 'old'}:{tmp_path / 'good'}") == good
    with pytest.raises(find_uv.NotFound, match="old/uv"):
        find_uv.on_path(f"{tmp_path / 'old'}")


def test_a_venv_gets_uv_by_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = '/bin/mkdir -p "$3/bin" && /bin/cp "$0" "$3/bin/python"'
    pip = f'/bin/cp {write_uv(tmp_path / "wheel")} "$(/usr/bin/dirname "$0")/uv"'
    python = write_uv(tmp_path / "python3", f'#!/bin/sh\nif [ "$2" = venv ]; then {made}; else {pip}; fi\n')
    monkeypatch.setattr(sys, "executable", str(python))
    assert find_uv.by_venv(tmp_path / "cache", quiet) == tmp_path / "cache" / "uv-venv" / "bin" / "uv"


def test_a_python_without_venv_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = write_uv(tmp_path, "#!/bin/sh\necho 'ensurepip is not available' >&2\nexit 1\n")
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(find_uv.NotFound, match="ensurepip is not available"):
        find_uv.by_venv(tmp_path / "cache", quiet)
    assert not (tmp_path / "cache" / "uv-venv").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the index offers Linux wheels")
@pytest.mark.parametrize("as_html", [False, True])
@pytest.mark.parametrize("variable", find_uv.INDEX_VARIABLES)
def test_the_wheel_is_fetched_checked_and_unpacked(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch, variable: str, as_html: bool
) -> None:
    for name in find_uv.INDEX_VARIABLES:
        monkeypatch.delenv(name)
    monkeypatch.setenv(variable, index.url)
    index.as_html = as_html
    uv = find_uv.by_wheel(tmp_path / "cache", LOCK, quiet)
    assert find_uv.version_of(uv) == (0, 13, 8)
    assert find_uv.fetched(tmp_path / "cache") == uv


@pytest.mark.skipif(sys.platform != "linux", reason="the index offers Linux wheels")
def test_a_wheel_must_have_its_hash(tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(find_uv.INDEX_VARIABLES[0], index.url)
    index.sha256 = "0" * 64
    with pytest.raises(find_uv.NotFound, match="the index says 0000"):
        find_uv.by_wheel(tmp_path / "cache", LOCK, quiet)
    assert not (tmp_path / "cache").exists()


@pytest.fixture
def secure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """Yields an index with a self-signed certificate, and hides all other certificates from this process."""
    with serve_index(Index(tls=True)) as running:
        monkeypatch.setenv(find_uv.INDEX_VARIABLES[0], running.url)
        monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
        monkeypatch.setenv("SSL_CERT_DIR", "/nowhere")
        yield running


@pytest.mark.skipif(sys.platform != "linux", reason="the index offers Linux wheels")
def test_without_certificates_a_wheel_whose_hash_is_locked_is_taken(tmp_path: Path, secure: Index) -> None:
    lock = tmp_path / "uv.lock"
    digest = hashlib.sha256(secure.content).hexdigest()
    lock.write_text(f'[[package]]\nname = "uv"\nwheels = [{{ hash = "sha256:{digest}" }}]\n')
    said: list[str] = []
    assert find_uv.version_of(find_uv.by_wheel(tmp_path / "cache", lock, said.append)) == (0, 13, 8)
    assert "no certificates to verify" in said[0]


@pytest.mark.thorough
def test_without_certificates_no_password_is_sent_and_no_wheel_is_taken_whose_hash_is_not_locked(
    tmp_path: Path, secure: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(find_uv.INDEX_VARIABLES[0], secure.url.replace("//", "//me:secret@"))
    with pytest.raises(find_uv.NotFound, match="CERTIFICATE_VERIFY_FAILED"):
        find_uv.by_wheel(tmp_path / "cache", LOCK, quiet)
    assert secure.asked == []
    for url in (secure.url, secure.url.replace("https", "HTTPS")):
        monkeypatch.setenv(find_uv.INDEX_VARIABLES[0], url)
        with pytest.raises(find_uv.NotFound, match="has no wheel of uv"):
            find_uv.by_wheel(tmp_path / "cache", LOCK, quiet)
    assert [path for path in secure.asked if path.endswith(".whl")] == []


def test_certificates_are_verified(tmp_path: Path, secure: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    with pytest.raises(find_uv.NotFound, match="CERTIFICATE_VERIFY_FAILED"):
        find_uv.by_wheel(tmp_path / "cache", LOCK, quiet)
    assert secure.asked == []


def test_a_wheel_without_the_program_is_refused(tmp_path: Path) -> None:
    assert find_uv.unpack(wheel(), tmp_path).read_text() == UV
    with pytest.raises(find_uv.NotFound, match="no program uv"):
        find_uv.unpack(wheel().replace(b"scripts/uv", b"scripts/ux"), tmp_path)


@pytest.mark.parametrize(
    ("system", "machine", "glibc", "expected"),
    [
        ("linux", "x86_64", (2, 36), WHEEL_NAMES[0]),
        ("linux", "aarch64", (2, 17), WHEEL_NAMES[1]),
        ("linux", "x86_64", (2, 12), None),
        ("linux", "x86_64", None, WHEEL_NAMES[3]),
        ("darwin", "arm64", None, WHEEL_NAMES[2]),
        ("linux", "riscv64", (2, 36), None),
    ],
)
def test_a_wheel_fits(system: str, machine: str, glibc: tuple[int, ...] | None, expected: str | None) -> None:
    wheels = [find_uv.Wheel(name, f"http://127.0.0.1/{name}", "") for name in WHEEL_NAMES]
    found = find_uv.choose(wheels, system, machine, glibc)
    assert (found and found.name) == expected


def test_the_newest_uv_in_range_is_chosen_and_the_lock_has_one_for_the_usual_machines() -> None:
    versions = ("0.9.9", "0.10.1", "1.0.0", "0.7.0")
    names = [f"uv-{version}-py3-none-musllinux_1_1_x86_64.whl" for version in versions]
    page = json.dumps({"files": [{"filename": name, "url": name} for name in names]}).encode()
    wheels = find_uv.parse_page(page, "application/json", "http://127.0.0.1/simple/uv/")
    found = find_uv.choose(wheels, "linux", "x86_64", None)
    assert found is not None and found.name == names[1]
    gone = b'<a href="/uv-0.9.9-py3-none-any.whl" data-yanked="">uv</a>'
    assert find_uv.parse_page(gone, "text/html", "http://127.0.0.1/simple/uv/") == []
    names = re.findall(r'url = "[^"]*/(uv-[^"/]*\.whl)"', LOCK.read_text())
    wheels = [find_uv.Wheel(name, "", "") for name in names]
    machines = [("x86_64", (2, 17)), ("aarch64", (2, 17)), ("x86_64", None), ("aarch64", None)]
    assert all(find_uv.choose(wheels, "linux", machine, glibc) for machine, glibc in machines)
    assert len(find_uv.locked_hashes(LOCK)) == len(names)


def test_no_way_to_uv_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    monkeypatch.setenv(find_uv.INDEX_VARIABLES[0], "http://me:secret@127.0.0.1:9/simple")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(find_uv.NotFound) as caught:
        find_uv.find(tmp_path, LOCK, quiet)
    said = str(caught.value)
    ways = ("uv on PATH", "a venv and pip", "the wheel from", "HTTPS_PROXY")
    assert all(part in said for part in ways), said
    assert "secret" not in said


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Returns a folder with what the set-up reads, and a uv that notes what it is asked."""
    root = tmp_path / "clone"
    shutil.copytree(ROOT / "deploy", root / "deploy", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("uv.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    write_uv(tmp_path / "bin")
    return root


def bootstrap(clone: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(clone / "deploy" / "bootstrap.py"), *options]
    own = {"PATH": f"{clone.parent / 'bin'}:/usr/bin:/bin", "TRACKSIDE_CACHE": str(clone.parent / "cache")}
    variables = {**os.environ, **own, **env}
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=False)


def asked(clone: Path) -> list[str]:
    return (clone / "uv-was-asked").read_text().splitlines()


@pytest.mark.thorough
def test_the_environment_is_set_up_once_for_each_lock(clone: Path) -> None:
    first = bootstrap(clone)
    second = bootstrap(clone)
    without = bootstrap(clone, "--without-torch")
    assert (first.returncode, second.stderr, without.stderr) == (0, "", "")
    assert asked(clone) == [f"sync --locked --python {sys.executable}"]
    assert "about 140 MB of packages and 3,050 MB of torch" in first.stderr
    (clone / "uv.lock").write_text((clone / "uv.lock").read_text() + "\n")
    bootstrap(clone)
    assert len(asked(clone)) == 2


@pytest.mark.thorough
def test_without_torch_it_is_left_out_but_not_removed_and_another_index_gives_it_alone(clone: Path) -> None:
    bootstrap(clone, "--without-torch")
    assert asked(clone)[0].endswith("--no-group torch --inexact")
    done = bootstrap(clone, TRACKSIDE_TORCH_INDEX="http://me:hunter2@127.0.0.1:9/cpu")
    _, first, second = asked(clone)
    assert first.endswith("--no-group torch --inexact")
    assert "--index http://me:hunter2@127.0.0.1:9/cpu torch==" in second and "scikit-learn==" in second
    assert "hunter2" not in done.stderr


@pytest.mark.thorough
def test_a_failed_download_says_what_was_run_and_what_to_do(clone: Path) -> None:
    done = bootstrap(clone, FAKE_UV_EXIT="2")
    assert done.returncode == 1
    assert "`uv sync --locked" in done.stderr and "HTTPS_PROXY" in done.stderr
    assert bootstrap(clone).returncode == 0


def test_a_user_without_a_folder_for_downloads_is_told_what_to_set(clone: Path) -> None:
    (clone.parent / "cache").write_text("not a folder")
    done = bootstrap(clone)
    assert done.returncode == 1
    said = r"\[setup\] there is no folder for downloads: .*; set HOME, or TRACKSIDE_CACHE .*\n"
    assert re.fullmatch(said, done.stderr)


def test_a_disk_that_is_too_small_is_told_at_once(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=2_000_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(environment.Failed, match=r"2\.0 GB free.*TRACKSIDE_TORCH_INDEX"):
        environment.check_disk(clone, with_torch=True)
    environment.check_disk(clone, with_torch=False)
