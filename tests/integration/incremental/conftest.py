"""An object store for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.integration.artifacts.conftest import S3Server, s3_server


@pytest.fixture(scope="package")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server with the bucket `models`, which these tests share; each uses a prefix of its own."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server
