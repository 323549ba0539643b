"""The keys of encrypted streams, for programs that read such a stream seldom: connects only if they do."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trackside.projections.writing.stream_keys import PostgresStreamKeys


class LateStreamKeys:
    """The keys in the database of the read models; none if its address is not known.

    `dsn` is called when an encrypted record is read for the first time.
    """

    def __init__(self, dsn: Callable[[], str | None]) -> None:
        self._dsn = dsn
        self._keys: PostgresStreamKeys | None = None

    async def load(self, public_keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        """Returns the private keys of those of these public keys that are kept; raises TransientError."""
        if self._keys is None:
            dsn = self._dsn()
            if dsn is None:
                return {}
            from trackside.projections.writing.stream_keys import PostgresStreamKeys

            self._keys = PostgresStreamKeys(dsn)
        return await self._keys.load(public_keys)

    def close(self) -> None:
        """Closes the connection, if there is one."""
        if self._keys is not None:
            self._keys.close()
