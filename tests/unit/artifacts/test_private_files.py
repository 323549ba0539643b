import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trackside.artifacts.blobs.private_files import PrivateFileError, check_private, read_private

NOBODY = 65_534
AS_NOBODY = f"""
import os, sys
from pathlib import Path
from trackside.artifacts.blobs.private_files import read_private
os.setgroups([{NOBODY}])
os.setuid({NOBODY})
print(read_private(Path(sys.argv[1])))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_bytes(b"hunter2")
    path.chmod(0o600)
    return path


def test_a_file_that_only_its_owner_may_use_is_read_and_others_are_refused_with_a_remedy(path: Path) -> None:
    for mode in (0o600, 0o400, 0o700):
        path.chmod(mode)
        check_private(path)
        assert read_private(path) == b"hunter2"
        assert read_private(path, 3) == b"hun"
    for mode in (0o640, 0o604, 0o620, 0o602, 0o610, 0o601):
        path.chmod(mode)
        expected = f"(mode {mode:04o}): expected 0600, as `chmod 600 {path}` sets it"
        with pytest.raises(PrivateFileError, match=re.escape(expected)):
            check_private(path)


def test_a_link_is_read_as_the_file_that_it_leads_to(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    assert read_private(link) == b"hunter2"
    path.chmod(0o644)
    with pytest.raises(PrivateFileError, match="mode 0644"):
        read_private(link)


def test_what_is_not_a_file_is_refused_without_waiting(path: Path) -> None:
    pipe = path.with_name("pipe")
    os.mkfifo(pipe, 0o600)
    for each, reason in (
        (pipe, "not a file"),
        (path.parent, "not a file"),
        (path.with_name("no"), "No such"),
    ):
        with pytest.raises(PrivateFileError, match=reason):
            read_private(each)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")
def test_a_file_of_another_user_is_refused(path: Path) -> None:
    os.chown(path, NOBODY, -1)
    with pytest.raises(PrivateFileError, match=f"of user {NOBODY}: expected one of user 0 or of root"):
        read_private(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize(("mode", "read"), [(0o440, True), (0o444, False), (0o460, False)])
def test_a_file_of_root_may_be_readable_by_a_group(mode: int, read: bool) -> None:
    descriptor = os.memfd_create("password")  # a path that any user may follow, whatever folders are private
    os.write(descriptor, b"hunter2")
    os.fchown(descriptor, 0, NOBODY)
    os.fchmod(descriptor, mode)
    path = f"/proc/self/fd/{descriptor}"
    command = [sys.executable, "-c", AS_NOBODY, path]
    done = subprocess.run(command, pass_fds=[descriptor], capture_output=True, text=True)
    os.close(descriptor)
    assert done.stdout == ("b'hunter2'\n" if read else ""), done.stderr
    assert read or f"(mode {mode:04o})" in done.stderr
