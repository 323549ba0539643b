"""Commands that start from a recorded search or run, `replay rerun` and `fork`, and `replay compare`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trackside.aggregates.rounds.messages import CreateIncrementalJob
from trackside.aggregates.rounds.state import IncrementalJob, job_of
from trackside.aggregates.run.state import Run, run_of
from trackside.aggregates.search.state import Search, search_of
from trackside.cli.commands import submit
from trackside.cli.commands.publishing import Publishing
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.envelope.message import Command
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.display.text import Column, duration, number
from trackside.eventlog.clock import now_ms
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.replay.derive.fork import fork_search, parse_changes
from trackside.replay.derive.job_fork import fork_job
from trackside.replay.derive.rerun import (
    SearchComparison,
    TrialPair,
    compare_searches,
    rerun_command,
    status_of,
)
from trackside.replay.derive.run_copy import end_of_step, fork_run, rerun_run
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import BadRangeError, LiveTargetError, NotRecordedError
from trackside.replay.history.point_in_time import NOW, PointInTime, parse_point_in_time
from trackside.replay.history.recorded_stream import PastState, find_live, state_at


@dataclass(frozen=True, slots=True)
class Submission:
    """How a new search is submitted: its id (empty: a new one), whether to wait for its end, the command."""

    new_id: str
    wait: bool
    publishing: Publishing

    @property
    def as_json(self) -> bool:
        """Whether JSON is printed."""
        return self.publishing.as_json

    def submit(self, command: Command) -> str:
        """Begins a stream and returns its id; raises LiveTargetError if the log has a stream of this id."""
        publishing = self.publishing.identified()
        stream_id = self.new_id or submit.new_stream_id(command, publishing.command_id)
        if not is_identifier(stream_id):
            raise BadUsage(f"{stream_id!r} is not an id: expected {IDENTIFIER_RULE}")
        run(self._submit(command, stream_id, publishing))
        return stream_id

    async def _submit(self, command: Command, stream_id: str, publishing: Publishing) -> None:
        if not self.publishing.command_id:  # else it may be there by this very command
            await self._check_new(stream_id)
        await submit.start(command, stream_id, publishing, self.wait)

    async def _check_new(self, stream_id: str) -> None:
        addresses = Addresses()
        async with KafkaLog(
            addresses.kafka_as(VIEWER), client_id="trackside-replay", keys=addresses.keys
        ) as log:
            if await find_live(log, Topics(prefix=addresses.prefix), stream_id) is not None:
                raise LiveTargetError(f"the log has a stream {stream_id!r}; give the new one another --id")


def rerun(stream_id: str, at: str, submission: Submission, *, no_assessor: bool) -> None:
    """Runs the trials of a recorded search again as a new search, or a recorded run as a new run."""
    past = run(_past(stream_id, at))
    offset, recorded = past.last.offset, run_of(past.stream)
    if recorded is not None:
        if no_assessor:
            raise BadUsage("--no-assessor is for searches")
        if not submission.as_json:
            screen.complain(f"{stream_id} after offset {offset}: {len(recorded.steps)} steps to run again")
        submission.submit(rerun_run(recorded, stream_id, offset))
        return
    search = _search(past, stream_id)
    command = rerun_command(search, stream_id, offset, with_assessor=not no_assessor)
    if not submission.as_json:
        screen.complain(f"{stream_id} after offset {offset}: {len(search.trials)} trials to run again")
    started = submission.submit(command)
    if submission.wait:
        _show_both(stream_id, search, started, submission.as_json)


def fork(stream_id: str, at: str, changes: Sequence[str], submission: Submission) -> None:
    """Starts a search, run or job that continues a recorded one from a moment, with some fields changed."""
    past = run(_past(stream_id, at))
    offset, recorded = past.last.offset, run_of(past.stream)
    if recorded is not None:
        _fork_run(recorded, stream_id, offset, changes, submission)
        return
    if (job := job_of(past.stream)) is not None:
        _fork_job(job, stream_id, offset, changes, submission)
        return
    search = _search(past, stream_id)
    made = fork_search(search, stream_id, offset, parse_changes(changes))
    if not submission.as_json:
        screen.complain(
            f"{stream_id} after offset {offset}: {made.imported} of {made.ended} ended trials copied, "
            f"{made.command.max_trials} left to run, {made.unfinished} of which had not ended"
        )
        for line in made.left_out_lines:
            screen.complain(line)
    submission.submit(made.command)


def _fork_run(
    recorded: Run, stream_id: str, offset: int, changes: Sequence[str], submission: Submission
) -> None:
    made = fork_run(recorded, stream_id, offset, parse_changes(changes, ()))
    if not submission.as_json:
        taken, to_run = (", ".join(names) or "none" for names in (made.taken, made.to_run))
        screen.complain(
            f"{stream_id} after offset {offset}: {len(made.taken)} of {len(recorded.steps)} steps taken over"
        )
        screen.complain(f"  taken over: {taken}")
        screen.complain(f"  to run: {to_run}")
    submission.submit(made.command)


def compare(old: str, new: str, as_json: bool) -> None:
    """Prints two searches side by side."""
    _show_both(old, _search(run(_past(old, "now")), old), new, as_json)


def _show_both(old: str, search: Search, new: str, as_json: bool) -> None:
    found = compare_searches(search, _search(run(_past(new, "now")), new))
    if as_json:
        screen.emit(found.as_json())
    else:
        show(old, new, found)


def show(old: str, new: str, found: SearchComparison) -> None:
    """Prints two searches side by side."""
    columns = [
        Column("trial", right=True),
        Column("old"),
        Column("steps", right=True),
        Column("value", right=True),
        Column("new"),
        Column("steps", right=True),
        Column("value", right=True),
        Column("differs", right=True),
        Column("by step", right=True),
        Column("same", right=True),
    ]
    screen.show_table(columns, [_cells(pair) for pair in found.pairs])
    whole = found.as_json()
    for name, side in ((old, whole["old"]), (new, whole["new"])):
        best = number(side["best_value"])
        took = duration(side["duration_s"])
        screen.say(f"{name} {side['status']}: best {best} of trial {screen.cell(side['best_trial'])}, {took}")
    mean, largest = number(whole["mean_difference"]), number(whole["largest_difference"])
    screen.say(f"{whole['same_parameters']} trials have the same parameters")
    screen.say(f"{whole['compared']} of them came as far in both: mean difference {mean}, largest {largest}")
    step = number(whole["largest_difference_of_a_step"])
    screen.say(f"{whole['steps_compared']} steps were reported by both: largest difference {step}")


def _cells(pair: TrialPair) -> list[object]:
    """Returns the row of a trial in both searches; `by step` is the largest difference at a common step.

    `same` is whether both had the same parameters.
    """
    same = None
    if pair.old is not None and pair.new is not None:
        same = "yes" if pair.same_parameters else "no"
    sides: list[object] = []
    for trial in (pair.old, pair.new):
        result = (None, None) if trial is None else (len(trial.reports), trial.value)
        sides += [status_of(trial), *result]
    difference = pair.difference if pair.same_parameters else None
    return [pair.number, *sides, difference, max(pair.steps, key=abs, default=None), same]


def _fork_job(
    job: IncrementalJob, stream_id: str, offset: int, changes: Sequence[str], submission: Submission
) -> None:
    named = CreateIncrementalJob(**dict(job.spec))
    new_id = submission.new_id or submit.new_stream_id(named, submission.publishing.command_id)
    made = fork_job(job, parse_changes(changes, ()), new_id)
    if not submission.as_json:
        screen.complain(
            f"{stream_id} after offset {offset}: begins with {made.model} and sample {made.first_sample:,}, "
            f"writes to {made.command.output.url}"
        )
        if made.not_copied_to:
            screen.complain(
                f"its models are not copied to {made.not_copied_to}, as those of {stream_id} are; "
                "to copy them: --set deploy.copy_to.url=URL"
            )
    replace(submission, new_id=new_id).submit(made.command)


async def _past(stream_id: str, at: str) -> PastState:
    """Returns a recorded stream at a moment, which for a run can be the name of a step: at its end."""
    addresses = Addresses()
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-replay", keys=addresses.keys) as log:
        recorded = await find_stream(log, Topics(prefix=addresses.prefix), stream_id, addresses.past_states)
        try:
            point = parse_point_in_time(at, now_ms())
        except BadRangeError:
            last = run_of((await state_at(recorded, NOW, addresses.state_cache)).stream)
            if last is None or at not in last.steps:
                raise
            point = PointInTime(offset=end_of_step(last, at))
        return await state_at(recorded, point, addresses.state_cache)


def _search(past: PastState, stream_id: str) -> Search:
    search = search_of(past.stream)
    if job_of(past.stream) is not None:
        raise NotRecordedError(
            f"{stream_id} is an incremental job: its rounds can't be run again; `trackside replay fork` "
            "starts a job with its live model and the samples that it has not used"
        )
    if search is None:
        raise NotRecordedError(f"{stream_id} is not a search at that moment")
    return search
