"""Credentials by name: records and settings have a name, and a file of the host has what belongs to it."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from trackside.artifacts.blobs.private_files import PrivateFileError, read_private
from trackside.artifacts.errors import CredentialMissing


class Credential(BaseModel):
    """Where an object store is, and its keys. `options` are further arguments of its fsspec protocol."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    endpoint_url: str | None = None
    region: str | None = None
    access_key_id: SecretStr | None = None
    secret_access_key: SecretStr | None = None
    session_token: SecretStr | None = None
    options: dict[str, SecretStr] = Field(default={})

    @property
    def secrets(self) -> list[str]:
        """The values that no message may have, longest first."""
        found = [self.access_key_id, self.secret_access_key, self.session_token, *self.options.values()]
        values = {each.get_secret_value() for each in found if each is not None}
        return sorted((value for value in values if value), key=len, reverse=True)


class Credentials:
    """The credentials of a host, by name."""

    def __init__(self, named: Mapping[str, Credential], path: Path | None) -> None:
        self._named = named
        self._path = path

    @classmethod
    def load(cls, path: Path | None) -> "Credentials":
        """Reads them from a TOML file with a table for each name; without a path there are none.

        CredentialMissing if the file can't be read, is another user's, or may be read by others.
        """
        return cls({} if path is None else _parse(_read_private(path), path), path)

    def __contains__(self, name: str) -> bool:
        """Returns whether the host has a credential of this name."""
        return name in self._named

    @property
    def names(self) -> list[str]:
        """The names of all credentials of the host, sorted."""
        return sorted(self._named)

    def get(self, name: str) -> Credential:
        """Returns a credential; CredentialMissing, naming it and the file, if the host doesn't have it."""
        if name in self._named:
            return self._named[name]
        if self._path is None:
            raise CredentialMissing(
                f"this host has no credential {name!r}: TRACKSIDE_CREDENTIALS is not set; set it to a file "
                f"with the table [{name}]"
            )
        raise CredentialMissing(
            f"this host has no credential {name!r}: add the table [{name}] to {self._path}"
        )


def _read_private(path: Path) -> str:
    try:
        return read_private(path).decode()
    except PrivateFileError as error:
        raise CredentialMissing(
            f"the credentials in {path}, which TRACKSIDE_CREDENTIALS names, can't be used: {error}; if "
            "others had access, replace the keys in it"
        ) from error
    except UnicodeDecodeError:
        raise CredentialMissing(f"{path} isn't UTF-8: expected a TOML file with credentials") from None


def _parse(text: str, path: Path) -> dict[str, Credential]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = str(error).rpartition("(")[2].rstrip(")")
        raise CredentialMissing(
            f"{path} is not TOML ({place}): expected a table for each credential"
        ) from None
    found = {}
    for name, table in tables.items():
        try:
            found[name] = Credential.model_validate(table)
        except ValidationError as error:
            detail = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in detail["loc"])
            raise CredentialMissing(f"{path}: {name}: {field}: {detail['msg']}") from None
    return found
