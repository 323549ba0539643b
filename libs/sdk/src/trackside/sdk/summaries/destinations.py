"""Where a SummaryWriter's values go: to event files, or to the worker of the task that runs here."""

import os
import socket
import weakref
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import trackside.sdk.trial as trial
from trackside.eventlog.clock import now_ms
from trackside.sdk.in_task.channel import Channel, ReportedSummary
from trackside.summaries.event_files.values import Graph, HParams, SummaryValue, TextRows
from trackside.summaries.event_files.writing import (
    PlainHParam,
    first_record,
    graph_record,
    hparams_records,
    record,
    session_start,
    tensor_scalar,
)
from trackside.summaries.kinds.registry import KINDS

_numbers = count()


class EventFile:
    """An event file of a folder, which is made. Any thread may write."""

    def __init__(self, folder: str, suffix: str) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        time_ms = now_ms()
        self._writing = Lock()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        while True:
            name = f"events.out.tfevents.{time_ms // 1000:010d}.{socket.gethostname()}"
            path = Path(folder) / f"{name}.{os.getpid()}.{next(_numbers)}{suffix}"
            try:
                self._descriptor = os.open(path, flags, 0o666)
            except FileExistsError:  # of another process with this number
                continue
            break
        self.path = path
        self._close = weakref.finalize(self, os.close, self._descriptor)
        self.write(first_record(time_ms))

    def write(self, records: bytes) -> None:
        """Writes whole records. Raises OSError, as for a disk that is full."""
        with self._writing:
            while records:
                records = records[os.write(self._descriptor, records) :]

    def close(self) -> None:
        """Closes the file."""
        with self._writing:
            self._close()


class At(NamedTuple):
    """When a value was measured: its step, None if the user gave none, and ms since 1970."""

    step: int | None
    time_ms: int


class Destination(Protocol):
    """Takes what a SummaryWriter is given."""

    def scalar(self, tag: str, value: float, at: At, width: int | None = None) -> None:
        """Takes a number; `width` are 32 or 64 bits of a tensor, None for a plain one."""
        ...

    def scalars(self, main_tag: str, values: Mapping[str, float], at: At) -> None:
        """Takes numbers that are shown in one chart."""
        ...

    def item(self, kind: str, tag: str, value: SummaryValue, at: At) -> None:
        """Takes a value that is no number."""
        ...

    def hparams(
        self,
        given: HParams,
        metrics: Mapping[str, float],
        domains: Mapping[str, Sequence[PlainHParam]],
        run_name: str,
        at: At,
    ) -> None:
        """Takes hyper-parameters, and the metrics that their run is compared by."""
        ...

    def flush(self) -> None:
        """Brings what was taken on its way."""
        ...

    def close(self) -> None:
        """Ends it; what is taken afterwards begins another file."""
        ...


class EventFiles:
    """Writes event files below a folder: a new one after a `close`. A value without a step has step 0."""

    def __init__(self, folder: str, suffix: str, purge_step: int | None) -> None:
        self._folder = folder
        self._suffix = suffix
        self._purge_step = purge_step
        self._files: dict[str, EventFile] = {}
        self._file(folder)

    def scalar(self, tag: str, value: float, at: At, width: int | None = None) -> None:
        """Writes a number."""
        step, time_ms = _step_of(at), at.time_ms
        if width is None:
            self._file(self._folder).write(record(tag, step, time_ms, value))
        else:
            self._file(self._folder).write(tensor_scalar(tag, step, time_ms, value, double=width == 64))

    def scalars(self, main_tag: str, values: Mapping[str, float], at: At) -> None:
        """Writes each number to a folder of its own: TensorBoard shows runs in one chart."""
        for tag, value in values.items():
            file = self._file(f"{self._folder}/{main_tag.replace('/', '_')}_{tag}")
            file.write(record(main_tag, _step_of(at), at.time_ms, value))

    def item(self, kind: str, tag: str, value: SummaryValue, at: At) -> None:
        """Writes a value; texts have the tag that torch's writer gives them."""
        file = self._file(self._folder)
        if isinstance(value, Graph):
            file.write(graph_record(_step_of(at), at.time_ms, value))
            return
        name = f"{tag}/text_summary" if isinstance(value, TextRows) else tag
        file.write(record(name, _step_of(at), at.time_ms, value))  # type: ignore[arg-type]

    def hparams(
        self,
        given: HParams,
        metrics: Mapping[str, float],
        domains: Mapping[str, Sequence[PlainHParam]],
        run_name: str,
        at: At,
    ) -> None:
        """Writes them to a folder of their own: to TensorBoard each is a run."""
        file = EventFile(str(Path(self._folder) / (run_name or str(at.time_ms / 1000))), "")
        file.write(hparams_records(_step_of(at), at.time_ms, given, domains))
        for tag, value in metrics.items():
            file.write(record(tag, _step_of(at), at.time_ms, value))
        file.close()

    def flush(self) -> None:
        """Does nothing: everything is written at once."""

    def close(self) -> None:
        """Closes the files."""
        while self._files:
            self._files.popitem()[1].close()

    def _file(self, folder: str) -> EventFile:
        found = self._files.get(folder)
        if found is None:
            found = self._files[folder] = EventFile(folder, self._suffix)
            if folder == self._folder and self._purge_step is not None:
                purge_step, self._purge_step = self._purge_step, None
                found.write(session_start(purge_step, now_ms()))
        return found


class _TaskSeries:
    """What the writers of one task share: the folder of the first one, and the next steps of tags.

    A writer without a folder of its own has None.
    """

    def __init__(self, first_folder: str | None) -> None:
        self.first_folder = first_folder
        self._next_steps: dict[tuple[str, str], int] = {}

    def step(self, kind: str, tag: str, given: int | None) -> int:
        """Returns the step of a value: without one each tag counts its own."""
        step = self._next_steps.get((kind, tag), 0) if given is None else given
        self._next_steps[kind, tag] = step + 1
        return step


_series: "WeakKeyDictionary[Channel, _TaskSeries]" = WeakKeyDictionary()


class TaskReports:
    """Reports to the worker of this task. Every point is kept by its tag and step, whose first value counts.

    So the tags of a second writer with a folder of its own begin with its path from the folder above that of
    the first one: `test/loss` after a writer for `runs/train`.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._open()

    def scalar(self, tag: str, value: float, at: At, width: int | None = None) -> None:
        """Reports a number."""
        channel, series = self._open()
        named = self._tag(series, tag)
        channel.points(series.step("scalar", named, at.step), {named: value}, at.time_ms)

    def scalars(self, main_tag: str, values: Mapping[str, float], at: At) -> None:
        """Reports each number under the main tag and its own."""
        for tag, value in values.items():
            self.scalar(f"{main_tag}/{tag}", value, at)

    def item(self, kind: str, tag: str, value: SummaryValue, at: At) -> None:
        """Reports a value."""
        channel, series = self._open()
        named = self._tag(series, tag)
        packed = KINDS[kind].pack(value)
        step = series.step(kind, named, at.step)
        channel.summary(
            ReportedSummary(kind, named, step, at.time_ms, 0, packed.body, packed.data, packed.media_type)
        )

    def hparams(
        self,
        given: HParams,
        metrics: Mapping[str, float],
        domains: Mapping[str, Sequence[PlainHParam]],
        run_name: str,
        at: At,
    ) -> None:
        """Reports them; the metrics are points."""
        self.item("hparams", "hparams", given, at)
        for tag, value in metrics.items():
            self.scalar(tag, value, at)

    def flush(self) -> None:
        """Sends what waits."""
        trial.channel().flush()

    def close(self) -> None:
        """Sends what waits."""
        self.flush()

    def _open(self) -> tuple[Channel, _TaskSeries]:
        """Returns the channel of the task that runs now: a process may run one after another."""
        channel = trial.channel()
        return channel, _series.setdefault(channel, _TaskSeries(self._folder))

    def _tag(self, series: _TaskSeries, tag: str) -> str:
        if self._folder is None or self._folder == series.first_folder:
            return tag
        above = Path(series.first_folder or self._folder).parent
        path = Path(os.path.relpath(self._folder, above))
        return "/".join([*(part for part in path.parts if part != os.pardir), tag])


def destination_of(folder: str, is_named: bool, suffix: str, purge_step: int | None) -> Destination:
    """Returns where values go: to the worker in a task, else to event files."""
    if trial.in_task():
        return TaskReports(folder if is_named else None)
    return EventFiles(folder, suffix, purge_step)


def _step_of(at: At) -> int:
    return 0 if at.step is None else at.step
