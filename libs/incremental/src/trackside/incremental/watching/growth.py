"""Follows a dataset as it grows: verifies what was observed of it, and counts what was added.

What was observed is verified by its digest when the watch begins, when the dataset is another file or object
than before, and when it was written to and has not grown. When it has grown, its last 64 KiB are compared,
and all of it once a minute at most: a change within old bytes that the writer hides by appending is found
then, or at the latest by the task that writes the next manifest.
"""

from collections.abc import Callable, Iterator

from trackside.aggregates.dataset.messages import DatasetEnd, DatasetFormat
from trackside.incremental.watching.datasets import DatasetSource, DatasetStamp
from trackside.incremental.watching.drift_window import DriftWindow
from trackside.incremental.watching.lines import DatasetError, LineScan, SampleSplitter

STEP_BYTES = 64 * 2**20
"""How much of a file is read before it is reported; an object is read at once."""
CHECK_S = 60.0
CHECK_SHARE = 0.01
"""How much of the time, at most, goes into reading again what was observed."""


class DatasetGrowth:
    """A dataset from one observed end on. `clock` returns monotonic seconds.

    `samples` is called with the samples that were added, as bytes without their line ends. `window` gets all
    samples, also those that were observed before.
    """

    def __init__(
        self,
        source: DatasetSource,
        format_: DatasetFormat,
        observed: DatasetEnd,
        clock: Callable[[], float],
        samples: Callable[[list[bytes]], None] = lambda _: None,
        window: DriftWindow | None = None,
    ) -> None:
        self.has_more = False
        """Whether there is more to read, whatever the file system says."""
        self._source = source
        self._format: DatasetFormat = format_
        self._observed = observed
        self._clock = clock
        self._samples = samples
        self._window = window
        self._scan: LineScan | None = None
        self._stamp: DatasetStamp | None = None
        self._check_at_s = 0.0

    @property
    def is_verified(self) -> bool:
        """Whether what was observed is known to be still there."""
        return self._scan is not None or self._observed.size == 0

    @property
    def end(self) -> DatasetEnd:
        """How far it was observed, by now."""
        return self._observed

    def look(self) -> bool:
        """Reads what was added, of a file about 64 MiB at once; returns whether there are more samples.

        DatasetError if it can't be read, has a bad line, or lacks bytes that were observed; what came before
        a bad line counts.
        """
        stamp = self._source.stamp()
        if stamp == self._stamp and self._scan is not None and not self.has_more:
            return False
        if stamp.size < self._observed.size:
            self._scan = None
            raise truncated(self._observed.size, stamp.size)
        before = self._observed.lines
        try:
            if self._scan is not None and self._only_grew(stamp):
                self._read_on(self._scan)
            else:
                self._read_all()
        finally:
            if self._scan is not None:
                self._observed = self._scan.end
        self._stamp = stamp
        return self._observed.lines > before

    def _only_grew(self, stamp: DatasetStamp) -> bool:
        """Returns whether it is as if it had only been appended to."""
        last = self._stamp
        if last is None or last.identity != stamp.identity:
            return False
        grew = stamp.size > last.size or stamp.version == last.version
        return grew and (self.has_more or self._clock() < self._check_at_s)

    def _read_all(self) -> None:
        """Reads it from its beginning: compares the digest of what was observed, and continues."""
        began_s, observed = self._clock(), self._observed
        self._scan, self.has_more = None, False
        scan, parts = LineScan(self._format), self._source.read()
        rest = b""
        take_old = self._old_samples(scan)
        while scan.size < observed.size:
            part = next(parts, b"")
            if not part:
                raise truncated(observed.size, scan.size)
            size = observed.size - scan.size
            scan.pass_over(part[:size])
            take_old(part[:size])
            rest = part[size:]
        if scan.end.sha256 != observed.sha256:
            raise changed(observed, scan.end.sha256)
        scan.resume(observed.lines)
        now_s = self._clock()
        self._check_at_s = now_s + max(CHECK_S, (now_s - began_s) / CHECK_SHARE)
        self._scan = scan
        self._feed(scan, _after(rest, parts))

    def _old_samples(self, scan: LineScan) -> Callable[[bytes], None]:
        """Returns what gives the window the samples that were observed before."""
        window = self._window
        if window is None:
            return lambda _: None
        window.restart()
        splitter, header = SampleSplitter(), self._format == "csv"

        def take(part: bytes) -> None:
            nonlocal header
            samples = splitter.push(part)
            window.add(samples[header:], scan.columns)
            header = header and not samples

        return take

    def _read_on(self, scan: LineScan) -> None:
        """Reads it from its last whole line on, and compares what comes right before that."""
        parts, tail = self._source.read(scan.size - len(scan.tail)), b""
        rest = b""
        while len(tail) < len(scan.tail):
            part = next(parts, b"")
            if not part:
                self._scan = None
                raise truncated(scan.size, scan.size - len(scan.tail) + len(tail))
            missing = len(scan.tail) - len(tail)
            tail, rest = tail + part[:missing], part[missing:]
        if tail != scan.tail:
            self._read_all()  # which names the digest that it has now
            return
        scan.restart_line()
        self._feed(scan, _after(rest, parts))

    def _feed(self, scan: LineScan, parts: Iterator[bytes]) -> None:
        begin, self.has_more = scan.size, False
        for part in parts:
            samples = scan.feed(part)
            self._samples(samples)
            if self._window is not None:
                self._window.add(samples, scan.columns)
            if scan.size - begin >= STEP_BYTES and self._source.path is not None:
                self.has_more = True
                return


def changed(observed: DatasetEnd, sha256: str) -> DatasetError:
    """Returns the error of bytes that were observed and are other ones now, with their digest."""
    message = (
        f"its first {observed.size} bytes are other ones than those that were observed: their SHA-256 is "
        f"{sha256}, and was {observed.sha256}. Restore them, and only append to it"
    )
    return DatasetError("changed", message, size=observed.size, sha256=sha256)


def truncated(observed: int, size: int) -> DatasetError:
    """Returns the error of a dataset that is shorter than what was observed, both in bytes."""
    message = (
        f"it has {size} bytes, and {observed} were observed: restore them, and only append to it; write a "
        "new version of it to another path, and rename that"
    )
    return DatasetError("truncated", message, size=size)


def _after(rest: bytes, parts: Iterator[bytes]) -> Iterator[bytes]:
    if rest:
        yield rest
    yield from parts
