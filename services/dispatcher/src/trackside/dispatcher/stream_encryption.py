"""With which key what the dispatcher writes into a stream is encrypted."""

from trackside.domain.streams import Streams
from trackside.projections.stream_keys import NewStreamKeys


class StreamEncryption:
    """The public keys of streams; one that is to be encrypted begins once its key is in the database.

    With `every` all new streams are encrypted, else those that are wanted so.
    """

    def __init__(self, streams: Streams, new_keys: NewStreamKeys, *, every: bool) -> None:
        self._streams, self._new, self._every = streams, new_keys, every

    def key_of(self, stream_id: str) -> str:
        """Returns the public key of a stream that has begun, empty if it is not encrypted."""
        stream = self._streams.find(stream_id)
        return "" if stream is None else stream.public_key

    def key_for(self, stream_id: str, *, wanted: bool) -> str | None:
        """Returns the public key for a command, empty for none; None while that of a new stream is made."""
        stream = self._streams.find(stream_id)
        if stream is not None and stream.rules:
            return stream.public_key
        return (self._new.take(stream_id) or None) if wanted or self._every else ""

    def begun(self, stream_id: str) -> None:
        """Forgets what was made for a stream that has begun."""
        self._new.begun(stream_id)
