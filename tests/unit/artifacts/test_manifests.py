import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.artifacts import manifests
from trackside.artifacts.errors import BadArtifact, PathOutsideStore

DIGEST = "ab" * 32
names = st.text("abc.-_ äß", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


def file(path: str, size_bytes: int = 1) -> manifests.ManifestFile:
    return manifests.ManifestFile(path=path, sha256=DIGEST, size_bytes=size_bytes)


@pytest.mark.thorough
@given(st.sets(paths, max_size=8), st.randoms(use_true_random=False))
def test_a_folder_has_one_manifest_in_whatever_order_its_files_are_found(found: set[str], random) -> None:  # type: ignore[no-untyped-def]
    files = [path for path in found if not any(other.startswith(f"{path}/") for other in found)]
    manifest = manifests.make_manifest([file(path) for path in files])
    random.shuffle(files)
    assert manifests.make_manifest([file(path) for path in files]).encode() == manifest.encode()
    assert manifests.decode_manifest(manifest.encode(), "it") == manifest
    assert manifest.size_bytes == len(files)


@given(st.text(max_size=30))
def test_a_path_that_is_accepted_stays_within_its_folder(path: str) -> None:
    try:
        manifests.check_path(path)
    except ValueError:
        return
    folder = "/the/folder"
    assert os.path.normpath(f"{folder}/{path}") == f"{folder}/{path}"
    assert path.isprintable() and path.encode()


def test_a_path_that_leads_out_or_is_not_plain_is_refused() -> None:
    plain = ("", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/", "x" * 256)
    for path in (*plain, "a\\b", "a\nb", "a\0b", "\udcff"):
        with pytest.raises(ValueError, match=r"path|has"):
            manifests.check_path(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{}", "files"),
        (b"[]", "object"),
        (b'{"files":[],"version":2}', "version"),
        (b'{"version":1,"files":[]}', "not canonical"),
        (b'{"files":[],"version":1,"x":1}', "x"),
        (b'{"files":[{"executable":false,"path":"../x","sha256":"%s","size_bytes":1}],"version":1}', "'..'"),
    ],
)
def test_what_is_no_manifest_is_refused(content: bytes, reason: str) -> None:
    content = content.replace(b"%s", DIGEST.encode())
    with pytest.raises(BadArtifact, match=f"it is not a manifest.*{reason}"):
        manifests.decode_manifest(content, "it")


def test_a_path_is_not_a_file_and_a_folder() -> None:
    with pytest.raises(BadArtifact, match="'a' is a file and a folder"):
        manifests.make_manifest([file("a"), file("a/b")])
    with pytest.raises(BadArtifact, match="'a' is repeated"):
        manifests.make_manifest([file("a"), file("a")])


def test_a_link_in_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for name, leads_to in (("inner/link", "/etc/passwd"), ("etc", "/etc")):
        (tmp_path / name).symlink_to(leads_to)
        with pytest.raises(PathOutsideStore, match=f"{name} is a link"):
            manifests.files_below(tmp_path)
        (tmp_path / name).unlink()


def test_what_is_no_file_in_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadArtifact, match="pipe is a named pipe"):
        manifests.files_below(tmp_path)
    (tmp_path / "pipe").unlink()
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        with pytest.raises(BadArtifact, match="socket is a socket"):
            manifests.files_below(tmp_path)
    (tmp_path / "socket").unlink()
    (tmp_path / "a\nb").touch()
    with pytest.raises(BadArtifact, match="not printable"):
        manifests.files_below(tmp_path)


def test_files_are_found_in_all_folders_in_the_order_of_a_manifest(tmp_path: Path) -> None:
    for path in ("b/c/d", "b/a", "a-b", "a/z"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "empty").mkdir()
    assert [path.as_posix() for path in manifests.files_below(tmp_path)] == ["a/z", "a-b", "b/a", "b/c/d"]
