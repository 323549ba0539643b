"""A folder with the private keys of an installation, one file for each service and worker, and their list."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from trackside.contracts.envelope.ids import is_identifier
from trackside.contracts.envelope.trusted_keys import TrustedKey
from trackside.eventlog.files_by_id import read_by_id
from trackside.eventlog.keys.decision_signer import DecisionSigner, new_signer, pem_of, read_signing_key

SETUP = "setup"
SERVICES = ("dispatcher", "scheduler", "summary-indexer")
"""The services that write events."""
WORKER = "worker-"
"""What the name of a worker's key begins with."""
PUBLIC = "keys.json"
"""The list of all public keys, for `verify-log --keys`."""
_FIELDS = {"public", "role", "worker"}


class BadKeyFileError(Exception):
    """A file of keys is not valid; the message names the file, the key and the rule."""


class KeyFolder:
    """Keys by name: `setup`, a service's role, or `worker-<id>`. Only its user may read it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, name: str) -> Path:
        """Returns the file with the private key of a name."""
        return self.path / f"{name}.key"

    def signer(self, name: str) -> DecisionSigner:
        """Reads the private key of a name; raises BadKeyFileError."""
        return _signer(self.file(name))

    def make(self, name: str) -> DecisionSigner:
        """Returns the key of a name, a new one if there is none; raises BadKeyFileError."""
        check_key_name(name)
        return self._made(self.file(name))

    def make_next(self, name: str) -> DecisionSigner:
        """Returns the key that a name has next, a new one if none was made yet; raises BadKeyFileError."""
        self.signer(name)
        return self._made(self._next(name))

    def use_next(self, name: str) -> None:
        """Puts the next key of a name into the place of its old one, once the log trusts it."""
        self._next(name).rename(self.file(name))

    def _next(self, name: str) -> Path:
        return self.path / f"{name}.next.key"

    def list_keys(self, keys: Mapping[str, TrustedKey]) -> None:
        """Adds public keys to the list; raises BadKeyFileError."""
        listed = {**(read_public_keys(self.path / PUBLIC) if (self.path / PUBLIC).exists() else {}), **keys}
        text = json.dumps({key_id: _as_json(key) for key_id, key in sorted(listed.items())}, indent=1)
        self._put(PUBLIC, f"{text}\n".encode())

    def _made(self, file: Path) -> DecisionSigner:
        if file.exists():
            return _signer(file)
        signer = new_signer()
        self._put(file.name, pem_of(signer))
        return signer

    def _put(self, name: str, octets: bytes) -> None:
        """Writes a file that is there whole or not at all."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = self.path / f"{name}.part"
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(octets)
            file.flush()
            os.fsync(file.fileno())
        part.rename(self.path / name)


def _signer(file: Path) -> DecisionSigner:
    try:
        return read_signing_key(file)
    except ValueError as error:
        raise BadKeyFileError(f"{file}: {error}") from error


def check_key_name(name: str) -> None:
    """Raises BadKeyFileError for a name that no key of an installation has."""
    worker = name.removeprefix(WORKER)
    if name not in (SETUP, *SERVICES) and (worker == name or not is_identifier(worker)):
        raise BadKeyFileError(
            f"no key is called {name!r}: expected {SETUP}, {', '.join(SERVICES)} or {WORKER}ID"
        )


def trusted_key(name: str, signer: DecisionSigner) -> TrustedKey:
    """Returns what the log says of the key of a name."""
    worker = name.removeprefix(WORKER) if name.startswith(WORKER) else ""
    return TrustedKey(signer.public_key.hex(), "worker" if worker else name, worker)


def read_public_keys(path: Path) -> dict[str, TrustedKey]:
    """Reads a list of public keys: {"ID": {"public": hex, "role": ROLE, "worker": ID of the worker}, ...}.

    Raises BadKeyFileError.
    """
    try:
        body = read_by_id(path, "keys")
    except ValueError as error:
        raise BadKeyFileError(str(error)) from error
    return dict(_keys(path, body))


def _keys(path: Path, body: Mapping[str, object]) -> Iterator[tuple[str, TrustedKey]]:
    for key_id, fields in body.items():
        if not isinstance(fields, dict) or not {"public", "role"} <= fields.keys() <= _FIELDS:
            raise BadKeyFileError(
                f'{path}: key {key_id!r}: expected {{"public": ..., "role": ...}}, for a worker "worker" too'
            )
        yield key_id, TrustedKey(str(fields["public"]), str(fields["role"]), str(fields.get("worker", "")))


def _as_json(key: TrustedKey) -> dict[str, str]:
    worker = {"worker": key.worker_id} if key.worker_id else {}
    return {"public": key.public_key, "role": key.role, **worker}
