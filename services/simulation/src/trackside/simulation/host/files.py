"""The files that hosts of a simulation share: a dataset that grows, what tasks write, what services load."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate

from trackside.contracts.envelope.message import Json


class GrowingFile:
    """A dataset in virtual time: sample i is there from `times_s[i]` on, in s since the simulation began."""

    def __init__(self, times_s: Sequence[float]) -> None:
        self._times_s = sorted(times_s)
        self.samples = [b"sample %d%s\n" % (number, b"." * (number % 7)) for number in range(len(times_s))]
        self._sizes = [0, *accumulate(map(len, self.samples))]
        self._content = b"".join(self.samples)

    def lines(self, now_s: float) -> int:
        """Returns how many samples it has at a time."""
        return bisect_right(self._times_s, now_s)

    def end(self, lines: int) -> Json:
        """Returns where its first so many samples end, as its watcher reports it."""
        size = self._sizes[lines]
        return {"lines": lines, "size": size, "sha256": sha256(self._content[:size]).hexdigest()}

    def begins_with(self, size: int, digest: str) -> bool:
        """Returns whether its first so many bytes have a digest."""
        return sha256(self._content[:size]).hexdigest() == digest


@dataclass(slots=True)
class SimulatedFiles:
    """What is outside of the log: `written` are digests of files by URL, with the time of the writer in ms.

    `loaded` are the digests that placements of services have had in use, the newest last, by the id of their
    task and their numbers.
    """

    dataset: GrowingFile = field(default_factory=lambda: GrowingFile([]))
    written: dict[str, tuple[int, str]] = field(default_factory=dict)
    loaded: dict[tuple[str, int, int], list[str]] = field(default_factory=dict)

    def write(self, url: str, digest: str, time_ms: int = 0) -> bool:
        """Replaces a file, unless it was written with a later time; returns whether it was replaced."""
        if url in self.written and self.written[url][0] > time_ms:
            return False
        self.written[url] = (time_ms, digest)
        return True

    def remove(self, url: str, time_ms: int) -> None:
        """Removes a file; a writer with an earlier time does not bring it back."""
        self.written[url] = (max(time_ms, self.written.get(url, (0, ""))[0]) + 1, "")

    def was_loaded(self, task_id: str, digest: str) -> bool:
        """Returns whether a placement of a task has had a model in use."""
        return any(key[0] == task_id and digest in had for key, had in self.loaded.items())
