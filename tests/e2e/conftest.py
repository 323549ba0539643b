"""Folders below those of the product stacks of the run."""

from collections.abc import Iterator

import pytest

from tests.e2e.shared_stack import StackFolder, folder_below, open_stack, secure_stack


@pytest.fixture(scope="module")
def home() -> Iterator[StackFolder]:
    """Yields a folder of the module on the open stack."""
    with folder_below(open_stack()) as folder:
        yield folder


@pytest.fixture(scope="module")
def secure_home() -> Iterator[StackFolder]:
    """Yields a folder of the module on the secure stack."""
    with folder_below(secure_stack()) as folder:
        yield folder
