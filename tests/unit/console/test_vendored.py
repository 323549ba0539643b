import hashlib
import json
import re
from pathlib import Path

STATIC = Path(__file__).parents[3] / "services/console/src/trackside/console/static"
VENDOR = STATIC / "vendor"
LISTED = json.loads((VENDOR / "checksums.json").read_text("utf-8"))
LICENCES = {"0BSD", "MIT", "Apache-2.0", "BSD-3-Clause"}
SIZE_LIMIT_BYTES = 2_000_000
"""A page must load over a slow tunnel; everything together is what a first visit costs at most."""


def test_every_vendored_file_is_listed_with_its_checksum_source_and_licence() -> None:
    present = {path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*") if path.is_file()}
    assert present - {"checksums.json"} == set(LISTED)
    for name, entry in LISTED.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == entry["sha256"], name
        assert re.fullmatch(r"[a-z.]+@\d+\.\d+\.\d+", entry["source"]), name
        assert entry["licence"] in LICENCES, name
    with_text = {entry["source"] for name, entry in LISTED.items() if name.startswith("licences/")}
    assert with_text == {entry["source"] for entry in LISTED.values()}


def test_all_static_files_together_are_small() -> None:
    assert sum(path.stat().st_size for path in STATIC.rglob("*") if path.is_file()) < SIZE_LIMIT_BYTES


def test_no_own_script_or_style_names_another_server() -> None:
    own = [path for folder in ("js", "css") for path in (STATIC / folder).rglob("*") if path.is_file()]
    named = {
        path.name: found
        for path in own
        if (found := re.findall(r"https?://(?!www\.w3\.org/2000/svg)[^\s\"')]+", path.read_text("utf-8")))
    }
    assert named == {}
