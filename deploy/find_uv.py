"""Finds uv on PATH, or fetches it: into a venv with pip, or as a wheel with urllib. Standard library only."""

import hashlib
import io
import json
import os
import platform
import re
import shutil
import ssl
import stat
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit, urlunsplit

OLDEST_UV = (0, 8, 0)
BEFORE_UV = (1, 0, 0)
REQUIREMENT = "uv>=0.8,<1"
DEFAULT_INDEX = "https://pypi.org/simple"
INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
JSON_TYPE = "application/vnd.pypi.simple.v1+json"
Say = Callable[[str], None]
Version = tuple[int, ...]


class NotFound(Exception):
    """This way to get uv does not work here; the message says why."""


@dataclass(frozen=True)
class Wheel:
    """One file that an index offers."""

    name: str
    url: str
    sha256: str | None


def find(cache: Path, lock: Path, say: Say) -> Path:
    """Returns a uv that runs, by the first way that works; NotFound lists what was tried and what to do.

    `lock` is the uv.lock with the hashes of wheels of uv that are fetched even without certificates.
    """
    tried = []
    ways: dict[str, Callable[[], Path]] = {
        "uv on PATH": lambda: on_path(os.environ.get("PATH", "")),
        "uv fetched earlier": lambda: fetched(cache),
        "a venv and pip": lambda: by_venv(cache, say),
        f"the wheel from {index_url()[0]}": lambda: by_wheel(cache, lock, say),
    }
    for name, way in ways.items():
        try:
            return way()
        except NotFound as reason:
            tried.append(f"  {name}: {reason}")
    raise NotFound(
        "could not get uv, which sets up the environment. Tried:\n"
        + "\n".join(tried)
        + "\nInstall uv yourself and put it on PATH, or check the network: HTTPS_PROXY names a proxy, "
        f"{INDEX_VARIABLES[0]} a mirror of PyPI, SSL_CERT_FILE the certificates of a proxy that has its own."
    )


def version_of(uv: Path) -> Version:
    """Returns the version of a uv; NotFound if it does not run or is not one that Trackside can use."""
    try:
        done = subprocess.run([uv, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFound(f"{uv} does not run ({error})") from None
    found = re.match(r"uv (\d+)\.(\d+)\.(\d+)", done.stdout)
    if done.returncode != 0 or not found:
        raise NotFound(f"{uv} --version failed: {(done.stderr or done.stdout).strip()[:200]}")
    version = tuple(int(part) for part in found.groups())
    if not OLDEST_UV <= version < BEFORE_UV:
        raise NotFound(f"{uv} is {'.'.join(found.groups())}, expected {REQUIREMENT}")
    return version


def on_path(path: str) -> Path:
    """Returns the first usable uv of a search path."""
    reason = "none there"
    for folder in path.split(os.pathsep):
        candidate = shutil.which("uv", path=folder) if folder else None
        if candidate is None:
            continue
        try:
            version_of(Path(candidate))
        except NotFound as error:
            reason = str(error)
            continue
        return Path(candidate)
    raise NotFound(reason)


def fetched(cache: Path) -> Path:
    """Returns the uv that an earlier run put into the cache."""
    for uv in (cache / "uv-venv" / "bin" / "uv", cache / "uv" / "uv"):
        if uv.exists():
            version_of(uv)
            return uv
    raise NotFound(f"none in {cache}")


def by_venv(cache: Path, say: Say) -> Path:
    """Makes a venv and installs uv in it with pip; on Debian python3 has neither, unless installed."""
    folder = cache / "uv-venv"
    say(f"fetching uv (about 25 MB) with pip into {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    python = folder / "bin" / "python"
    steps = [
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "-q", REQUIREMENT],
    ]
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        except OSError as error:
            raise NotFound(f"{step[0]} does not run ({error})") from None
        if done.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            said = (done.stderr + done.stdout).strip().splitlines() or ["no output"]
            raise NotFound(f"{' '.join(step[1:4])} failed: {said[-1][:200]}")
    version_of(folder / "bin" / "uv")
    return folder / "bin" / "uv"


def index_url() -> tuple[str, str]:
    """Returns the package index to ask, as it may be shown (without a password) and as it is."""
    given = next(
        (os.environ[name] for name in INDEX_VARIABLES if os.environ.get(name)), DEFAULT_INDEX
    ).rstrip("/")
    parts = urlsplit(given)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), given


def is_unverifiable(url: str) -> bool:
    """Tells whether an HTTPS server can't be verified, as Python has no certificate of any authority.

    A minimal Debian has none: its python3 doesn't depend on ca-certificates.
    """
    paths = ssl.get_default_verify_paths()
    has_some = paths.cafile is not None or (paths.capath is not None and any(Path(paths.capath).iterdir()))
    return urlsplit(url).scheme == "https" and not has_some


def locked_hashes(lock: Path) -> set[str]:
    """Returns the SHA-256 of each wheel of uv in a uv.lock, in hex."""
    packages = tomllib.loads(lock.read_text(encoding="utf-8"))["package"]
    wheels = [wheel for package in packages if package["name"] == "uv" for wheel in package["wheels"]]
    return {wheel["hash"].removeprefix("sha256:") for wheel in wheels}


def by_wheel(cache: Path, lock: Path, say: Say) -> Path:
    """Fetches the wheel of uv for this machine with urllib, checks its SHA-256 and unpacks its program.

    The expected SHA-256 comes from the index. Without certificates the index can't be verified: then only
    wheels whose SHA-256 is in the lock are accepted.
    """
    shown, index = index_url()
    page = f"{index}/uv/"
    wheels = parse_page(*_get(page, JSON_TYPE + ", text/html;q=0.5"), page)
    if is_unverifiable(index):
        say(f"this machine has no certificates to verify {shown} by: accepting only a hash of {lock.name}")
        known = locked_hashes(lock)
        wheels = [wheel for wheel in wheels if wheel.sha256 in known]
    libc, libc_version = platform.libc_ver()
    glibc = _numbers(libc_version) if libc == "glibc" else None
    wheel = choose(wheels, sys.platform, platform.machine(), glibc)
    if wheel is None:
        raise NotFound(f"{shown} has no wheel of {REQUIREMENT} for {sys.platform} on {platform.machine()}")
    say(f"fetching {wheel.name} from {shown}")
    content, _ = _get(wheel.url, "*/*")
    say(f"fetched {len(content) / 1e6:.0f} MB")
    found = hashlib.sha256(content).hexdigest()
    if wheel.sha256 is None or found != wheel.sha256:
        raise NotFound(f"{wheel.name} has sha256 {found}, the index says {wheel.sha256}")
    uv = unpack(content, cache / "uv")
    version_of(uv)
    return uv


def _get(url: str, accept: str) -> tuple[bytes, str]:
    """Returns a page's bytes and content type; credentials in the address are sent as basic authentication.

    Without certificates a page is fetched unverified, unless credentials would be sent with it.
    """
    parts = urlsplit(url)
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    request = urllib.request.Request(bare, headers={"Accept": accept, "User-Agent": "trackside-bootstrap"})
    if parts.username:
        passwords = urllib.request.HTTPPasswordMgrWithPriorAuth()
        passwords.add_password(None, bare, parts.username, parts.password or "", is_authenticated=True)
        opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
    elif is_unverifiable(bare):
        unchecked = ssl._create_unverified_context()
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=unchecked))
    else:
        opener = urllib.request.build_opener()
    reason: Exception | None = None
    for _ in range(3):
        try:
            with opener.open(request, timeout=60) as answer:
                return answer.read(), answer.headers.get("Content-Type", "")
        except (OSError, EOFError) as error:
            reason = error
    raise NotFound(f"{bare} could not be fetched (3 times): {reason}")


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a" and (link := values.get("href")) and "data-yanked" not in values:
            self.links.append(link)


def parse_page(content: bytes, content_type: str, url: str) -> list[Wheel]:
    """Reads an index page, JSON (PEP 691) or HTML (PEP 503); withdrawn files are left out."""
    if "json" in content_type:
        files = json.loads(content)["files"]
        return [
            Wheel(each["filename"], urljoin(url, each["url"]), each.get("hashes", {}).get("sha256"))
            for each in files
            if not each.get("yanked")
        ]
    links = _Links()
    links.feed(content.decode("utf-8", "replace"))
    wheels = []
    for link in links.links:
        parts = urlsplit(urljoin(url, link))
        found = re.search(r"sha256=([0-9a-f]{64})", parts.fragment)
        name = parts.path.rpartition("/")[2]
        wheels.append(Wheel(name, urlunsplit(parts._replace(fragment="")), found and found.group(1)))
    return wheels


def choose(wheels: list[Wheel], system: str, machine: str, glibc: Version | None) -> Wheel | None:
    """Returns the newest wheel in range that fits the system; `glibc` is None where libc is another one."""
    fitting = []
    for wheel in wheels:
        found = re.fullmatch(r"uv-(\d+\.\d+\.\d+)-py3-none-(.+)\.whl", wheel.name)
        if not found:
            continue
        version = _numbers(found.group(1))
        tags = found.group(2).split(".")
        if OLDEST_UV <= version < BEFORE_UV and any(_fits(tag, system, machine, glibc) for tag in tags):
            fitting.append((version, wheel.name, wheel))
    return max(fitting)[2] if fitting else None


def _fits(tag: str, system: str, machine: str, glibc: Version | None) -> bool:
    if system == "darwin":
        return tag.startswith("macosx_") and tag.endswith(f"_{machine}")
    if not tag.endswith(f"_{machine}") or system != "linux":
        return False
    if found := re.match(r"manylinux_(\d+)_(\d+)_", tag):
        return glibc is not None and (int(found.group(1)), int(found.group(2))) <= glibc[:2]
    return tag.startswith("musllinux_") and glibc is None


def unpack(content: bytes, folder: Path) -> Path:
    """Writes the program `uv` of a wheel into a folder, in one step; NotFound if the wheel has none."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"uv-[^/]+\.data/scripts/uv", name)]
        if not names:
            raise NotFound("the wheel holds no program uv")
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"uv.{os.getpid()}"
        part.write_bytes(archive.read(names[0]))
    part.chmod(part.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    part.replace(folder / "uv")
    return folder / "uv"


def _numbers(text: str) -> Version:
    return tuple(int(part) for part in re.findall(r"\d+", text))
