"""A search, defined, run, changed and inspected from Python."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackside.aggregates.search.messages import (
    AddTrial,
    PauseSearch,
    RequestTrials,
    ResumeSearch,
    SearchStatus,
    StartSearch,
    StopSearch,
    StopTrial,
    TrialEnded,
    UpdateSearch,
    UpdateSearchSpace,
)
from trackside.aggregates.search.state import search_of
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Command, Json
from trackside.contracts.tasks.tasks import Figure
from trackside.contracts.wire.codec import validate_command
from trackside.domain.streams.stream import Stream
from trackside.sdk.blocking import BlockingClient
from trackside.sdk.client import Client
from trackside.sdk.connection.publication import Pong
from trackside.sdk.definitions import discovery, specs, trial_lists
from trackside.sdk.definitions.durations import put_seconds
from trackside.sdk.errors import ClientError, SearchFailedError, UnsendableError
from trackside.sdk.task import Task

Connect = Callable[[], BlockingClient]


@dataclass(frozen=True, slots=True)
class TrialView:
    """A trial as recorded in the log: its status as `trackside show` has it, its value or None.

    `values` holds a value for each objective of the search, by name, or None; a number that isn't finite is
    its name, such as "nan". `source` is the origin of its parameters (algorithm, fallback, customized),
    `space_version` the version of their space, `outside` the names of those that are not in it. `reports` are
    (step, value); `duration_s` is the time from the suggestion to the end, None before that.
    """

    number: int
    status: str
    parameters: Json
    value: float | None
    values: dict[str, Figure | None]
    source: str
    space_version: int
    outside: tuple[str, ...]
    reports: tuple[tuple[int, float | None], ...]
    duration_s: float | None
    task_id: str


class Search:
    """A search over the parameters of a task: a name of the worker's catalogue, or the class itself.

    `fields` are further fields of a search, as in a spec file: objectives, concurrency, limits, seed,
    resources, and also `past` and `first`; durations may be texts such as "2h". The platform is found as by
    the command line, unless `connect` is given. All calls block; use Client in code with an event loop.
    """

    def __init__(
        self,
        task: str | type[Task],
        space: Mapping[str, Any],
        *,
        max_trials: int,
        tuner: str | dict[str, Any] = "tpe",
        assessor: str | dict[str, Any] | None = None,
        search_id: str = "",
        connect: Connect | None = None,
        **fields: Any,
    ) -> None:
        task_type = task if isinstance(task, str) else discovery.task_type_of(task)
        policies = {"tuner": discovery.policy(tuner), "assessor": discovery.policy(assessor)}
        body = {"task_type": task_type, "space": dict(space), "max_trials": max_trials, **policies, **fields}
        self.command: StartSearch | None = _read(StartSearch, body)
        self.id = search_id or new_id(task_type)
        self._connect = connect or _connected

    @classmethod
    def open(cls, search_id: str, connect: Connect | None = None) -> "Search":
        """Returns a search that was submitted before."""
        found = cls.__new__(cls)
        found.command, found.id, found._connect = None, search_id, connect or _connected
        return found

    def submit(self, timeout_s: float = 30.0) -> str:
        """Submits the search, waits for the answer and returns its id; raises what Client.send raises."""
        if self.command is None:
            raise ClientError(f"search {self.id} was opened, so it has been submitted")
        self._send(self.command, timeout_s)
        return self.id

    def run(self, timeout_s: float | None = None) -> TrialView | None:
        """Submits the search, waits for its end and returns the best trial, None if none has a value."""
        self.submit()
        return self.wait(timeout_s)

    def wait(self, timeout_s: float | None = None) -> TrialView | None:
        """Waits for the end and returns the best trial; raises NotOverError or SearchFailedError."""
        with self._connect() as client:
            stream = client.wait(self.id, timeout_s)
        search = search_of(stream)
        if search is not None and search.status is SearchStatus.ERROR:
            raise SearchFailedError(f"search {self.id} failed: {search.failure}")
        return _best(stream)

    def watch(self) -> Iterator[TrialView]:
        """Yields each trial when it ends, from the first on, until the search is over."""
        with self._connect() as client, closing(client.follow(self.id)) as changes:
            for record, stream in changes:
                if isinstance(record.message, TrialEnded):
                    yield _view(stream, record.message.trial)

    def status(self) -> SearchStatus:
        """Returns the current status."""
        search = search_of(self.state())
        assert search is not None
        return search.status

    def trials(self) -> list[TrialView]:
        """Returns the trials, also those that have not ended."""
        stream = self.state()
        search = search_of(stream)
        assert search is not None
        return [_view(stream, trial.number) for trial in search.trials]

    def best(self) -> TrialView | None:
        """Returns the best trial so far that is in the space, None if none has a value."""
        return _best(self.state())

    def front(self) -> list[TrialView]:
        """Returns the Pareto front so far; with a single objective, the best trial."""
        stream = self.state()
        search = search_of(stream)
        assert search is not None
        best = [] if search.best is None else [search.best]
        return [_view(stream, number) for number in search.front or best]

    def state(self) -> Stream:
        """Returns the current state of the search; raises ClientError if there is no such search."""
        with self._connect() as client:
            found = client.state(self.id)
        if found is None or search_of(found) is None:
            raise ClientError(f"there is no search {self.id}; submit it first")
        return found

    def export_trials(self, path: Path | None = None, *, every: bool = False) -> list[Json]:
        """Returns the trials that succeeded, or all; also writes them to a file: .csv as CSV, else JSON."""
        rows = trial_lists.export_rows(self.state(), every)
        if path is not None:
            is_csv = path.suffix.lower() == ".csv"
            path.write_text(trial_lists.to_csv(rows) if is_csv else trial_lists.to_json(rows), "utf-8")
        return rows

    def import_trials(self, trials: Path | Sequence[Mapping[str, Any]]) -> int:
        """Sends results of other trials, from a file or a list, to the tuner; returns their number."""
        found = trial_lists.read_trials(trials) if isinstance(trials, Path) else trials
        for command in trial_lists.import_commands([trial_lists.past_trial(dict(past)) for past in found]):
            self._send(command)
        return len(found)

    def pause(self, *, give_back: bool = False, reason: str = "") -> None:
        """Begins no trials until it is resumed; with `give_back` running ones release their devices."""
        self._send(PauseSearch(running="return" if give_back else "finish", reason=reason))

    def resume(self) -> None:
        """Continues after a pause."""
        self._send(ResumeSearch())

    def update(self, **limits: Any) -> None:
        """Changes limits, by the fields of UpdateSearch: concurrency, max_trials, goal, remove and so on."""
        self._send(_read(UpdateSearch, limits))

    def update_space(self, space: Mapping[str, Any]) -> None:
        """Replaces the space, from the next suggestion on."""
        self._send(_read(UpdateSearchSpace, {"space": dict(space)}))

    def request_trials(self, count: int) -> None:
        """Begins `count` further trials once, beyond the concurrency."""
        self._send(_read(RequestTrials, {"count": count}))

    def add_trial(
        self, parameters: Mapping[str, Any], *, tell_tuner: bool = False, outside: bool = False
    ) -> None:
        """Runs a trial with these parameters next; the tuner draws those that are left out.

        With `outside` values may be outside of the space; such a trial is never the best one.
        """
        body = {"parameters": dict(parameters), "tell_tuner": tell_tuner, "outside": outside}
        self._send(_read(AddTrial, body))

    def stop_trial(self, number: int) -> None:
        """Ends one trial; the search continues."""
        self._send(_read(StopTrial, {"trial": number}))

    def stop(self, reason: str = "") -> None:
        """Ends the search: running trials are stopped, no more are suggested."""
        self._send(StopSearch(reason=reason))

    def ping(self, timeout_s: float = 30.0) -> Pong:
        """Measures how long the dispatcher of the search takes to answer."""
        with self._connect() as client:
            return client.ping(self.id, timeout_s)

    def _send(self, command: Command, timeout_s: float = 30.0) -> None:
        with self._connect() as client:
            client.send(command, self.id, timeout_s)


def _connected() -> BlockingClient:
    return Client.blocking(discovery.bootstrap(), discovery.prefix())


def _read(kind: type[Command], body: Json) -> Any:
    body = copy.deepcopy(body)
    problems = (
        specs.convert_durations("search", body)
        if kind is StartSearch
        else put_seconds("$", body, kind.model_fields)
    )
    found = validate_command(kind.wire_type(), body, (kind,))
    if isinstance(found, tuple):
        problems = specs.merged(problems, found)
    if problems:
        raise UnsendableError(*problems)
    return found


def _view(stream: Stream, number: int) -> TrialView:
    search = search_of(stream)
    assert search is not None
    task_id = search.task_of(number)
    trial, task = search.trials[number], stream.tasks.get(task_id)
    reports = trial.reports if trial.ended_at >= 0 or task is None else task.reports
    return TrialView(
        number=number,
        status=trial_lists.status_of(stream, trial).value,
        parameters=trial.parameters,
        value=trial.value,
        values=trial_lists.values_of(search, trial),
        source=trial.source,
        space_version=trial.space_version,
        outside=tuple(trial.outside),
        reports=tuple((step, value) for step, value in reports),
        duration_s=(trial.ended_ms - trial.suggested_ms) / 1000 if trial.ended_ms else None,
        task_id=task_id,
    )


def _best(stream: Stream) -> TrialView | None:
    search = search_of(stream)
    return None if search is None or search.best is None else _view(stream, search.best)
