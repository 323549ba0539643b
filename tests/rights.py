"""Runs commands that must obey the rights of files, also where the tests are run by root."""

import os
import shutil
from collections.abc import Sequence

import pytest

IGNORES_RIGHTS = "-dac_override,-dac_read_search"


def obeying_rights(command: Sequence[str]) -> list[str]:
    """Returns a command without what lets root ignore the rights of files; skips where that can't be had."""
    if os.geteuid() != 0:
        return [*command]
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv of util-linux is missing, so root can't be made to obey the rights of files")
    return ["setpriv", f"--bounding-set={IGNORES_RIGHTS}", f"--inh-caps={IGNORES_RIGHTS}", *command]
