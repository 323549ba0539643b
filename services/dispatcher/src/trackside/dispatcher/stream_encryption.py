"""With which key what the dispatcher writes into a stream is encrypted."""

from dataclasses import dataclass

from trackside.domain.folding.streams import Streams
from trackside.projections.writing.stream_keys import NewStreamKeys


@dataclass(slots=True)
class StreamEncryption:
    """The public keys of streams; one that is to be encrypted begins once its key is in the database.

    With `every` all new streams are encrypted, else those that are wanted so.
    """

    streams: Streams
    new_keys: NewStreamKeys
    every: bool = False

    def key_for(self, stream_id: str, *, wanted: bool) -> str | None:
        """Returns the public key for a command, empty for none; None while that of a new stream is made."""
        stream = self.streams.find(stream_id)
        if stream is not None and stream.rules:
            return stream.public_key
        return (self.new_keys.take(stream_id) or None) if wanted or self.every else ""

    def begun(self, stream_id: str) -> None:
        """Forgets the key that was made for a stream that has begun."""
        self.new_keys.begun(stream_id)
