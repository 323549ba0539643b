"""What a simulation runs: the command that begins a stream, and what must be true at its end."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

from trackside.aggregates.batch.messages import BatchStatus, SubmitTasks
from trackside.aggregates.batch.state import batch_of
from trackside.aggregates.search.messages import (
    SearchStarted,
    SearchStatus,
    StartSearch,
    TrialEnded,
    TrialStatus,
    TrialSuggested,
)
from trackside.aggregates.search.state import search_of
from trackside.contracts.envelope.ids import batch_task_id
from trackside.contracts.envelope.message import Command, Record
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskSubmitted
from trackside.dispatcher.tuners.tuner import suggestion_seed
from trackside.domain.folding.streams import Streams
from trackside.domain.streams.stream import Stream
from trackside.simulation.host.files import SimulatedFiles
from trackside.simulation.host.worker_state import TASK_TYPE

STREAM = "s"
"""The stream that is simulated."""


class StreamScenario(ABC):
    """One stream to simulate, of so many tasks, at most `concurrency` at once; the seed may vary it."""

    kind: str
    """The kind of its aggregate."""
    name: str
    """What it is called in commands."""
    plural: str
    """What people call several of them."""
    has_user = False
    """Whether a user publishes further commands."""
    saves = False
    """Whether its tasks save artifacts."""
    blobs: tuple[bytes, ...] = ()
    """What the store has from the begin on."""

    def __init__(self, seed: int, tasks: int, concurrency: int) -> None:
        self.seed = seed
        self.tasks = tasks
        self.concurrency = concurrency
        self.files = SimulatedFiles()

    @abstractmethod
    def command(self) -> Command:
        """Returns the command that begins the stream."""

    def first_commands(self) -> list[tuple[str, Command]]:
        """Returns the commands that the simulation begins with, each with the id of its stream."""
        return [(STREAM, self.command())]

    def next_commands(self, streams: Streams, rng: Random) -> list[tuple[str, Command]]:
        """Returns what the user asks for next, as streams are now, each with the id of its stream."""
        stream = streams.by_id.get(STREAM)
        command = None if stream is None or stream.root is None else self.next_command(stream, rng)
        return [] if command is None else [(STREAM, command)]

    def next_command(self, stream: Stream, rng: Random) -> Command | None:
        """Returns what the user may ask the stream for next, as it is now; None for nothing."""
        return None

    def is_over(self, streams: Streams) -> bool:
        """Returns whether a stream is over that no event ends, as streams are now."""
        return False

    def take(self, record: Record, stream: Stream) -> None:  # noqa: B027 - it may look at the end alone
        """Takes in an event that had an effect, in the order of the log, once the stream has ended.

        `stream` is what the log folds to, up to this event.
        """

    def violations(self, stream: Stream) -> list[str]:
        """Returns what is wrong with the stream that has ended, as the log folds to it."""
        return []


class SearchScenario(StreamScenario):
    """A search at random; every other seed has an assessor. All its trials must end well, once."""

    kind = name = "search"
    plural = "searches"
    task_type = TASK_TYPE
    """The type of the tasks of its trials."""

    def __init__(self, seed: int, tasks: int, concurrency: int) -> None:
        super().__init__(seed, tasks, concurrency)
        self._started: SearchStarted | None = None
        self._ends: Counter[int] = Counter()
        self._violations: list[str] = []

    def command(self) -> StartSearch:
        """Returns the command that starts the search."""
        assessor = {"name": "median", "options": {"n_startup_trials": 3}}
        return StartSearch.model_validate(
            {
                "task_type": self.task_type,
                "space": {"x": {"type": "uniform", "low": 0.0, "high": 1.0}},
                "tuner": {"name": "random"},
                "assessor": assessor if self.seed % 2 else None,
                "max_trials": self.tasks,
                "concurrency": self.concurrency,
                "retry": {"lost": 100},
            }
        )

    def take(self, record: Record, stream: Stream) -> None:
        """Checks the parameters of each trial, and how it ended, and counts its ends."""
        event = record.message
        if type(event) is SearchStarted:
            self._started = event
        elif type(event) is TrialSuggested and event.parameters != self._suggested(event.trial):
            self._violations.append(f"trial {event.trial} has parameters that were not suggested")
        elif type(event) is TrialEnded:
            self._ends[event.trial] += 1
            if event.status not in (TrialStatus.SUCCEEDED, TrialStatus.EARLY_STOPPED):
                message = f"trial {event.trial} is {event.status}: no end of this kind was requested"
                self._violations.append(message)

    def _suggested(self, number: int) -> dict[str, Any] | None:
        """Returns the parameters that the tuner suggests for a trial."""
        if self._started is None:
            return None
        space = self._started.search.model_dump(mode="json", include={"space"})["space"]
        return random_parameters(space, self._started.seed, number)

    def violations(self, stream: Stream) -> list[str]:
        """Returns which trials didn't end once and well, or have parameters that were not suggested."""
        search = search_of(stream)
        if search is None or search.status is not SearchStatus.DONE:
            return [f"the search is {search and search.status}"]
        once = self._ends == Counter(range(self.tasks))
        violations = [] if once else [f"numbers of ends by trial: {dict(self._ends)}"]
        return violations + self._violations


class BatchScenario(StreamScenario):
    """A batch of two groups. Some tasks fail once and are tried again, some fail each time, some are urgent.

    Urgent tasks preempt others. How a task ends, and how often it fails, doesn't depend on faults.
    """

    kind = name = "batch"
    plural = "batches"
    retries = 2
    """How often a failed task is tried again."""
    always = 1_000
    """The number of attempts that fail of a task that always fails."""

    def __init__(self, seed: int, tasks: int, concurrency: int) -> None:
        super().__init__(seed, tasks, concurrency)
        first = max(1, tasks // 3)
        self._sizes = [first, max(1, tasks - first)]
        self._failing = {
            batch_task_id(STREAM, group, str(number + 1)): self._attempts_that_fail(number)
            for group, size in enumerate(self._sizes)
            for number in range(size)
        }
        self._submitted: list[str] = []
        self._failures: Counter[str] = Counter()

    def command(self) -> SubmitTasks:
        """Returns the command that submits the batch."""
        groups = [{"tasks": [self._task(number) for number in range(size)]} for size in self._sizes]
        return SubmitTasks.model_validate(
            {
                "groups": groups,
                "concurrency": self.concurrency,
                "retry": {"lost": 100, "failed": {"times": self.retries, "backoff_s": 0.2}},
            }
        )

    def _task(self, number: int) -> Mapping[str, Any]:
        parameters = {"x": number / 10, "failing_attempts": self._attempts_that_fail(number)}
        urgent = (number + self.seed) % 5 == 0
        priority = {"priority": 9, "preempt": True} if urgent else {"priority": number % 3}
        return {"task_type": TASK_TYPE, "parameters": parameters, **priority}

    def _attempts_that_fail(self, number: int) -> int:
        """Returns how many attempts fail of a task: of one in seven all, of another one the first."""
        place = (number + self.seed) % 7
        return self.always if place == 3 else 1 if place == 5 else 0

    def take(self, record: Record, stream: Stream) -> None:
        """Notes which tasks were submitted, in their order, and how often each failed."""
        event = record.message
        if type(event) is TaskSubmitted:
            self._submitted.append(event.task_id)
        elif type(event) is AttemptEnded and event.end is AttemptEnd.FAILED:
            self._failures[event.task_id] += 1

    def violations(self, stream: Stream) -> list[str]:
        """Returns which tasks were not submitted in order and once, or ended or failed otherwise."""
        batch = batch_of(stream)
        if batch is None or batch.status is not BatchStatus.DONE:
            return [f"the batch is {batch and batch.status}"]
        violations = []
        if self._submitted != list(self._failing):
            violations.append(f"tasks were submitted in another order, or not once: {self._submitted}")
        for task_id, failing in self._failing.items():
            failed = self._failures[task_id]
            if failed > failing or (failing == self.always and failed != 1 + self.retries):
                violations.append(f"task {task_id} failed {failed} times")
        expected = [self._ends(group) for group in range(len(self._sizes))]
        if batch.ended != expected:
            violations.append(f"groups ended as {batch.ended}, not as {expected}")
        return violations

    def _ends(self, group: int) -> dict[str, int]:
        numbers = range(self._sizes[group])
        ends = [
            AttemptEnd.FAILED if self._attempts_that_fail(number) == self.always else AttemptEnd.FINISHED
            for number in numbers
        ]
        return dict(Counter(end.value for end in ends))


DEFAULT_SCENARIO: type[StreamScenario] = SearchScenario


def random_parameters(space: Mapping[str, Mapping[str, Any]], seed: int, number: int) -> dict[str, Any]:
    """Returns random parameters of a trial, in a space of uniform ones; the same for a seed and a number."""
    rng = Random(suggestion_seed(seed, number))
    return {name: rng.uniform(space[name]["low"], space[name]["high"]) for name in sorted(space)}
