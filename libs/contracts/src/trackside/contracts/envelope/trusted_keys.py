"""The keys that a partition trusts at a place in it, as folded from the events about keys."""

from dataclasses import dataclass, field, replace
from typing import Literal

SignatureMode = Literal["off", "require"]
"""Whether events need a signature."""


@dataclass(slots=True)
class TrustedKey:
    """A key, whose it is, and from which offset on it is trusted, and no longer.

    `public_key` are its 32 bytes in hex.
    """

    public_key: str
    role: str
    worker_id: str = ""
    trusted_at: int = -1
    revoked_at: int | None = None


@dataclass(slots=True)
class Trust:
    """The keys by id, and where events need a signature, as folded from the events about keys.

    It says so of every place before these events, too: who reads one stream alone needs the newest only.
    """

    keys: dict[str, TrustedKey] = field(default_factory=dict)
    modes: list[tuple[int, SignatureMode]] = field(default_factory=list)
    """The offsets from which on another mode applies, the lowest first."""

    @property
    def mode(self) -> SignatureMode:
        """Whether events need a signature now."""
        return self.modes[-1][1] if self.modes else "off"

    def requires(self, offset: int) -> bool:
        """Returns whether an event at an offset needs a signature."""
        return next((mode for begin, mode in reversed(self.modes) if begin < offset), "off") == "require"

    def now(self) -> "Trust":
        """Returns the keys that are trusted now, and whether events need a signature now, for any place."""
        keys = {
            name: replace(key, trusted_at=-1, revoked_at=None if key.revoked_at is None else -1)
            for name, key in self.keys.items()
        }
        return Trust(keys, [(-1, self.mode)])
