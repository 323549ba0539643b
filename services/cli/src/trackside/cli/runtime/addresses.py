"""Where the stack is: as the environment says, else as the nearest `.trackside/stack.json` says."""

import os
from dataclasses import dataclass
from pathlib import Path

from trackside.cli.runtime.failures import Failure
from trackside.embedded import stack
from trackside.embedded.errors import StackMissing
from trackside.embedded.files import cache_folder
from trackside.replay.history.state_cache import Kept

BOOTSTRAP = "TRACKSIDE_KAFKA_BOOTSTRAP"
DSN = "TRACKSIDE_POSTGRES_DSN"
PREFIX = "TRACKSIDE_TOPIC_PREFIX"


@dataclass(frozen=True)
class Addresses:
    """Kafka's and Postgres's addresses; each is looked up when it is asked for."""

    @property
    def bootstrap(self) -> str:
        """Kafka's host:port; raises Failure if nothing says it."""
        return os.environ.get(BOOTSTRAP) or _found(BOOTSTRAP).bootstrap_servers

    @property
    def dsn(self) -> str:
        """The address of the read models; raises Failure if nothing says it."""
        return os.environ.get(DSN) or _found(DSN).postgres_dsn

    @property
    def prefix(self) -> str:
        """What topic names begin with, most often nothing."""
        return os.environ.get(PREFIX, "")

    @property
    def kept(self) -> Kept:
        """Where states of long streams are kept: in the user's cache."""
        given = os.environ.get("XDG_CACHE_HOME")
        return Kept((Path(given) / "trackside" if given else cache_folder()) / "states")


def _found(variable: str) -> stack.Stack:
    try:
        return stack.find()
    except StackMissing as error:
        raise Failure(f"{error} ({variable})") from error
