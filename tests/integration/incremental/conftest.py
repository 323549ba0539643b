"""An object store for the tests of this folder, and what tests of the worker are given."""

from collections.abc import Iterator

import pytest

from tests.integration.artifacts.conftest import S3Server, s3_server
from tests.integration.worker.conftest import gate, harness, missing_store, on_kafka, store

__all__ = ["gate", "harness", "missing_store", "on_kafka", "store"]


@pytest.fixture(scope="package")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server with the bucket `models`, which these tests share; each uses a prefix of its own."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server
