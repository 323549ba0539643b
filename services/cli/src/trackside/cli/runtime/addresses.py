"""Addresses of the stack: from the environment, else from the nearest `.trackside/stack.json`.

What only some commands need is imported by those that do: they start sooner.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.silence import watch_kafka, watch_postgres
from trackside.contracts.envelope.topics import PREFIX_RULE, is_topic_prefix
from trackside.contracts.wire.topic_rights import PUBLISHER

if TYPE_CHECKING:
    from trackside.embedded.stack import Stack
    from trackside.eventlog.settings.kafka_settings import KafkaSettings
    from trackside.projections.past.reader import PastReader
    from trackside.projections.writing.late_stream_keys import LateStreamKeys
    from trackside.replay.history.state_cache import StateCache

BOOTSTRAP = "TRACKSIDE_KAFKA_BOOTSTRAP"
DSN = "TRACKSIDE_POSTGRES_DSN"
PASSWORD_FILE = "TRACKSIDE_POSTGRES_PASSWORD_FILE"
PREFIX = "TRACKSIDE_TOPIC_PREFIX"
STORE = "TRACKSIDE_STORE"
PAST_FOLDER = "TRACKSIDE_PAST_FOLDER"


@dataclass(frozen=True)
class Addresses:
    """Addresses of Kafka, Postgres and the store; each is looked up when it is used."""

    @property
    def kafka(self) -> "KafkaSettings":
        """Kafka's address, and how a publisher connects; as `kafka_as`."""
        return self.kafka_as(PUBLISHER)

    def kafka_as(self, principal: str) -> "KafkaSettings":
        """Returns Kafka's address, and how to connect: as a principal, if this folder's stack has users.

        Where the environment has the address, it has the user, too.

        Raises CommandFailed if it is not known, BadUsage if its settings can't be used.
        """
        from trackside.eventlog.settings.kafka_settings import kafka_settings
        from trackside.eventlog.settings.settings_problems import InvalidSettingsError

        try:
            given = os.environ.get(BOOTSTRAP) or _found(BOOTSTRAP).kafka(principal)
            found = kafka_settings(given)
        except InvalidSettingsError as error:
            raise BadUsage(str(error)) from error
        for sentence in found.warnings:
            sys.stderr.write(f"trackside: {sentence}\n")
        watch_kafka(found)
        return found

    @property
    def dsn(self) -> str:
        """The DSN of the read models; raises CommandFailed if it is not known."""
        given = os.environ.get(DSN)
        found = _with_password(given) if given else _found(DSN).postgres_dsn
        watch_postgres(found)
        return found

    @property
    def keys(self) -> "LateStreamKeys":
        """The keys of encrypted streams, if the read models are there and this user may read them."""
        from trackside.projections.writing.late_stream_keys import LateStreamKeys

        return LateStreamKeys(self._known_dsn)

    def _known_dsn(self) -> str | None:
        try:
            return self.dsn
        except CommandFailed:
            return None

    @property
    def store(self) -> str:
        """The URL of the store of artifacts; raises CommandFailed if it is not known."""
        found = os.environ.get(STORE) or _found(STORE).store
        if not found:
            raise CommandFailed(f"the stack has no store of artifacts: run `trackside up`, or set {STORE}")
        return found

    @property
    def prefix(self) -> str:
        """The prefix of topic names, usually empty; raises BadUsage if no topic's name may begin so."""
        prefix = os.environ.get(PREFIX, "")
        if not is_topic_prefix(prefix):
            raise BadUsage(f"{PREFIX}: {prefix!r} begins no topic's name: expected {PREFIX_RULE}")
        return prefix

    @property
    def state_cache(self) -> "StateCache":
        """Where states of long streams are kept: in the user's cache."""
        from trackside.embedded.files import cache_folder
        from trackside.replay.history.state_cache import StateCache

        given = os.environ.get("XDG_CACHE_HOME")
        return StateCache((Path(given) / "trackside" if given else cache_folder()) / "states")

    @property
    def past_states(self) -> "PastReader | None":
        """Returns a reader of the snapshots of past states; None if it is not known where they are."""
        from trackside.projections.past.open_store import open_past_store
        from trackside.projections.past.reader import PastReader

        folder, dsn = os.environ.get(PAST_FOLDER), os.environ.get(DSN)
        if folder:
            return PastReader(open_past_store(Path(folder), ""))
        if not os.environ.get(BOOTSTRAP):
            return PastReader(open_past_store(_found(PAST_FOLDER).past_folder, ""))
        return PastReader(open_past_store(None, _with_password(dsn))) if dsn else None


def _with_password(dsn: str) -> str:
    path = os.environ.get(PASSWORD_FILE)
    if not path:
        return dsn
    from trackside.eventlog.settings.password_file import dsn_with_password, read_password

    try:
        return dsn_with_password(dsn, read_password(Path(path)))
    except ValueError as error:
        raise BadUsage(f"{DSN} with {PASSWORD_FILE}={path}: {error}") from error


def _found(variable: str) -> "Stack":
    from trackside.embedded import stack
    from trackside.embedded.errors import StackMissing

    try:
        return stack.find()
    except StackMissing as error:
        raise CommandFailed(f"{error} ({variable})") from error
