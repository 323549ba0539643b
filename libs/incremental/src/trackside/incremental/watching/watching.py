"""The service that watches a dataset: says how far it has grown, in whole lines, and what is wrong with it.

What it says is cumulative, so that only the last of it counts, and a watcher that was killed loses nothing:
the next one is told how far the log has come, verifies that, and continues from there.
"""

import sys
from collections.abc import Mapping
from threading import Event
from typing import Any

from pydantic import BaseModel, ConfigDict

from trackside.aggregates.dataset.messages import DEFAULT_LOOK_S, DatasetEnd, DatasetFormat, DriftSpec
from trackside.eventlog.clock import monotonic_s
from trackside.incremental.watching.datasets import WAITED_FOR, open_dataset
from trackside.incremental.watching.drift_window import DriftWindow
from trackside.incremental.watching.file_changes import changes_of
from trackside.incremental.watching.growth import DatasetGrowth
from trackside.incremental.watching.lines import DatasetError
from trackside.sdk import Service, trial
from trackside.sdk.in_task.instructions import GivenInstruction

POLL_S = 1.0
"""How often it asks for another instruction while the dataset stays as it is."""
PAUSE_S = 0.2
"""How long samples are gathered, after some were reported, until more are."""


class WatchParameters(BaseModel):
    """The parameters of the task."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    url: str
    format: DatasetFormat
    credential: str | None = None
    look_s: float = DEFAULT_LOOK_S
    drift: DriftSpec | None = None


class WatchDataset(Service):
    """Watches a dataset until it is stopped.

    It is ready when it may be told how far the dataset was observed, `{end: {lines, size, sha256}}`. It
    acknowledges that once it has found the same bytes, and then is ready again with `end` each time that
    there are more samples, with `waits_for` while its file can't be reached, or with `problem` when it can't
    continue.
    """

    def load(self) -> None:
        """Reads the parameters."""
        self._parameters = WatchParameters.model_validate(trial.parameters())

    def serve(self, device: str) -> None:
        """Watches; SIGTERM ends it at once, as it has nothing to clean up."""
        trial.ready()
        given = _next_instruction()
        while True:
            given = self._follow(given) or _next_instruction()

    def _follow(self, given: GivenInstruction) -> GivenInstruction | None:
        """Watches from an observed end on; returns a newer instruction, None when it can't continue."""
        wanted, parameters = DatasetEnd.model_validate(given.body["end"]), self._parameters
        window = None if parameters.drift is None else DriftWindow(parameters.drift, parameters.format)
        growth = None
        try:
            source = open_dataset(parameters.url, parameters.credential)
            growth = DatasetGrowth(source, parameters.format, wanted, monotonic_s, window=window)
            with changes_of(source.path) as changed:
                return self._report(given, growth, changed, window)
        except DatasetError as error:
            found = problem_of(error)
            if growth is not None and growth.is_verified:  # what comes before a bad line counts
                given.acknowledge()
                trial.ready(end=_fields(growth.end), problem=found)
            else:
                given.acknowledge(ok=False, **found)
                trial.ready(problem=found)
            sys.stderr.write(f"{error.code}: {error}\n")
            return None

    def _report(
        self, given: GivenInstruction, growth: DatasetGrowth, changed: Event, window: DriftWindow | None
    ) -> GivenInstruction:
        """Reports growth until there is a newer instruction. Raises DatasetError if it can't continue."""
        waits, computes = _Complaints(), _Complaints()
        acknowledged = False
        said: dict[str, Any] = {}
        while True:
            changed.clear()
            try:
                grown = growth.look()
                if waits.forget():
                    trial.ready(**said)
            except DatasetError as error:
                if error.code not in WAITED_FOR:
                    raise
                grown = False
                if waits.write(f"{error.code}: {error}"):
                    trial.ready(**said, waits_for=str(error))
            if growth.is_verified and not acknowledged:
                given.acknowledge()
                acknowledged = True
            if grown:
                said = {"end": _fields(growth.end), **_metrics(window, computes)}
                trial.ready(**said)
            newer = self._wait(growth, changed, grown)
            if newer is not None:
                return newer

    def _wait(self, growth: DatasetGrowth, changed: Event, grown: bool) -> GivenInstruction | None:
        """Waits until the dataset may have grown; returns an instruction that comes meanwhile."""
        if grown and not growth.has_more:
            return trial.instruction(PAUSE_S)
        look_at_s = monotonic_s() + (0 if growth.has_more else self._parameters.look_s)
        while True:
            newer = trial.instruction()
            left_s = look_at_s - monotonic_s()
            if newer is not None or left_s <= 0 or changed.wait(min(POLL_S, left_s)):
                return newer


class _Complaints:
    """Writes to the output of the task what goes wrong for a while, each once in a row."""

    def __init__(self) -> None:
        self._last = ""

    def write(self, sentence: str) -> bool:
        """Writes a sentence, unless it was the last one; returns whether it did."""
        is_new = sentence != self._last
        if is_new:
            sys.stderr.write(f"{sentence}\n")
        self._last = sentence
        return is_new

    def forget(self) -> bool:
        """Lets the next sentence be written; returns whether one was before."""
        had_one, self._last = bool(self._last), ""
        return had_one


def _metrics(window: DriftWindow | None, complaints: _Complaints) -> dict[str, Any]:
    """Returns the metrics of the newest samples, as a field of a report; none where there aren't any."""
    try:
        drift = None if window is None else window.value()
    except ValueError as error:
        complaints.write(f"drift can't be computed: {error}")
        return {}
    return {} if drift is None else {"metrics": {"drift": drift}}


def problem_of(error: DatasetError) -> dict[str, Any]:
    """Returns a problem of a dataset as its watcher says it."""
    found: Mapping[str, Any] = {"line": error.line, "size": error.size, "sha256": error.sha256 or None}
    given = {name: value for name, value in found.items() if value is not None}
    return {"code": error.code, "message": str(error), **given}


def _fields(end: DatasetEnd) -> dict[str, Any]:
    return end.model_dump(mode="json")


def _next_instruction() -> GivenInstruction:
    while (found := trial.instruction(POLL_S)) is None:
        pass
    return found
