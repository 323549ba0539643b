"""An S3 of a test's own: moto's server in a process of its own, on loopback."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.polling import poll_until_sync
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.artifacts.store import Store
from trackside.embedded.ports import free_ports, is_free

ACCESS_KEY, SECRET_KEY = "AKIA" + "QWERTYUIOPASDFGH", "canary/secret/of/the/store/0123456789abc"


@dataclass
class S3Server:
    """The server: its port, the file with its credential, and its process."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None)

    def start(self) -> None:
        """Starts it, and waits until it listens."""
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        with (self.folder / "moto.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ)
            )
        poll_until_sync(lambda: not is_free(self.port), 60)

    def kill(self) -> None:
        """Ends it at once; what it has is lost."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def store(self, url: str = "s3://models/prefix", **settings: str) -> Store:
        """Opens a store in it, with the credential `moto`."""
        values = {
            "store": url,
            "store_credential": "moto",
            "credentials": str(self.folder / "credentials.toml"),
        }
        return open_store(StoreSettings(**{**values, "store_timeout_s": "5", **settings}))  # type: ignore[arg-type]

    def make_bucket(self, name: str) -> None:
        """Makes an empty bucket."""
        blobs = self.store().blobs
        blobs.files.call_s3("create_bucket", Bucket=name)  # type: ignore[attr-defined]


def write_credentials(path: Path, endpoint_url: str) -> None:
    """Writes a file with the credential `moto` for an endpoint."""
    path.write_text(
        f'[moto]\nendpoint_url = "{endpoint_url}"\nregion = "us-east-1"\n'
        f'access_key_id = "{ACCESS_KEY}"\nsecret_access_key = "{SECRET_KEY}"\n'
    )
    path.chmod(0o600)


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Runs a server with the bucket `models` for a block."""
    server = S3Server(free_ports(1)[0], folder)
    write_credentials(folder / "credentials.toml", f"http://127.0.0.1:{server.port}")
    server.start()
    try:
        server.make_bucket("models")
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Yields a server that the tests of a module share; each uses a prefix of its own."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server
