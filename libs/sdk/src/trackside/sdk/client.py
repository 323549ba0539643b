"""The client that users import: calls for code with an event loop, and `blocking` for code without one."""

from typing import TYPE_CHECKING

from trackside.eventlog.keys.encryption import StreamKeys
from trackside.eventlog.log import Log
from trackside.sdk.async_client import AsyncClient
from trackside.sdk.blocking import BlockingClient
from trackside.sdk.connection.signing import Signer

if TYPE_CHECKING:
    from trackside.eventlog.settings.kafka_settings import KafkaSettings


class Client(AsyncClient):
    """Publishes commands to one installation and follows what became of them; see AsyncClient."""

    @staticmethod
    def blocking(
        bootstrap: "KafkaSettings | str",
        topic_prefix: str = "",
        *,
        log: Log | None = None,
        signer: Signer | None = None,
        encrypted: bool = False,
        keys: StreamKeys | None = None,
    ) -> BlockingClient:
        """Returns the same client for code without an event loop; close it, or use it in a `with`."""
        return BlockingClient(
            lambda: Client(bootstrap, topic_prefix, log=log, signer=signer, encrypted=encrypted, keys=keys)
        )
