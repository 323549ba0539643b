"""Follows a stream on the screen until it ends, by reading the log."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import aclosing, asynccontextmanager

from rich.live import Live

from trackside.aggregates.registry import AGGREGATES
from trackside.cli.render import screen
from trackside.cli.render.progress_board import ProgressBoard, pace_text
from trackside.cli.runtime.failures import CommandFailed, FailureReported
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.tasks.instructions import TaskReady
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskStopRequested, TaskUnschedulable
from trackside.domain.display.task_state import short_name
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task_instructions import is_ready
from trackside.eventlog.clock import now_ms
from trackside.projections.database.postgres import PostgresGoneError, SchemaMissingError
from trackside.projections.reading.reads import open_read_models
from trackside.projections.tables.owners import DISPATCHER, SCHEDULER
from trackside.sdk.client import Client

FRAMES_PER_S = 8
PLAIN_LINES = 5
ENDS_OF_TASKS = (AttemptEnded, TaskStopRequested)
FINISHED_ONLY = frozenset({AttemptEnd.FINISHED})
"""The ends of tasks that are a success for `--wait`."""
FINISHED_OR_CANCELLED = FINISHED_ONLY | {AttemptEnd.CANCELLED}
"""The ends of tasks that are a success for `trackside watch`."""
ANY_END = frozenset(AttemptEnd)
"""The ends of tasks that are a success for `trackside stop --wait`."""


async def until_end(client: Client, stream_id: str, as_json: bool) -> tuple[Stream, int]:
    """Shows a stream until it is over; returns its state and the offset of its last event."""
    board = ProgressBoard(stream_id, devices=await _devices(client))
    last = -1
    async with _shown(board, as_json) as shown, aclosing(client.follow(stream_id)) as changes:
        async for record, stream in changes:
            last = record.offset
            board.update(record, stream)
            shown(record, stream)
    if board.stream is None:
        raise CommandFailed(f"there is no {stream_id} in the log")
    return board.stream, last


def print_end(stream: Stream, as_json: bool, accepted: Collection[AttemptEnd] = FINISHED_ONLY) -> None:
    """Prints how a stream ended.

    Raises CommandFailed if its view calls that a failure, such as a task of a batch that ended in a way that
    is not `accepted`; FailureReported if a program gets the failure as JSON.
    """
    aggregate = AGGREGATES.of(stream)
    if aggregate is None:
        raise CommandFailed(f"{stream.stream_id} has not started")
    end = aggregate.view.end(stream, accepted)
    if as_json:
        screen.emit_line(end.summary)
    else:
        shown = () if screen.console().is_terminal else end.board_lines  # a terminal has the board
        for line in (*end.lines, *shown):
            screen.say(line)
    if end.failure:
        raise FailureReported() if as_json else CommandFailed(end.failure)


async def wait_for_rows(dsn: str, topics: Topics, stream_id: str, last_offset: int, timeout_s: float) -> None:
    """Waits until Postgres holds a stream up to an offset, so that the next query is up to date.

    Raises CommandFailed after `timeout_s`, or if Postgres doesn't answer.
    """
    events = topics.events
    place = (events.name, partition_of(stream_id, events.partitions))
    try:
        async with open_read_models(dsn) as models:
            for owner in (DISPATCHER, SCHEDULER):
                await models.until(owner, *place, last_offset + 1, timeout_s)
    except TimeoutError as error:
        raise CommandFailed(
            f"Postgres lags the log: the end of {stream_id} (offset {last_offset}) was not in its rows "
            f"after {timeout_s:.0f} s; see `trackside status`"
        ) from error
    except (PostgresGoneError, SchemaMissingError) as error:
        raise CommandFailed(f"Postgres does not answer: {error}") from error


async def _devices(client: Client) -> set[tuple[str, str]]:
    fleet = await client.fleet()
    return {
        (worker.worker_id, device_id)
        for worker in fleet.workers.values()
        if not worker.gone
        for device_id in worker.devices
    }


class _Plain:
    """Prints a few lines where the output is no terminal: one for each fifth of the trials or tasks."""

    def __init__(self, board: ProgressBoard) -> None:
        self._board = board
        self._ended = 0
        self._fifths = 0
        self._reasons: set[str] = set()

    def __call__(self, record: Record, stream: Stream) -> None:
        message, aggregate = record.message, AGGREGATES.of(stream)
        if isinstance(message, TaskUnschedulable) and message.message not in self._reasons:
            self._reasons.add(message.message)
            name = message.task_id.removeprefix(f"{stream.stream_id}.")
            screen.complain(f"  {name} can't run: {message.message}")
        if isinstance(message, TaskReady):
            task = stream.tasks.get(message.task_id)
            if task is not None and is_ready(task) and message.number == 1:
                screen.complain(f"  {short_name(task, stream.stream_id)} is ready")
        if aggregate is None or not isinstance(message, (*aggregate.events, *ENDS_OF_TASKS)):
            return
        progress = aggregate.view.progress(stream)
        if progress.total and progress.ended > self._ended:
            self._ended = progress.ended
            pace = pace_text(progress, self._board.pace, record.append_time_ms)
            line = f"{progress.line}; {pace}" if pace else progress.line
            self._print(progress.ended * PLAIN_LINES // progress.total, line)

    def _print(self, fifths: int, line: str) -> None:
        if fifths > self._fifths:
            self._fifths = fifths
            screen.complain(f"  {line}")


def _nothing(record: Record, stream: Stream) -> None:
    """Shows nothing: the screen draws the board by itself, and a program wants only the end."""


@asynccontextmanager
async def _shown(board: ProgressBoard, as_json: bool) -> AsyncIterator[Callable[[Record, Stream], None]]:
    output = screen.console()
    if as_json:
        yield _nothing
    elif not output.is_terminal:
        yield _Plain(board)
    else:
        with Live(
            get_renderable=lambda: board.render(now_ms()),
            console=output,
            refresh_per_second=FRAMES_PER_S,
            transient=False,
        ):
            yield _nothing
