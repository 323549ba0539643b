"""Follows a search or a batch on the screen until it ends, by reading the log."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import aclosing, asynccontextmanager

from rich.live import Live

from trackside.aggregates.batch.messages import GroupEnded
from trackside.aggregates.batch.state import Batch, batch_of
from trackside.aggregates.search.messages import SearchStatus, TrialEnded
from trackside.aggregates.search.state import Search, search_of
from trackside.cli.render import batch_board, screen
from trackside.cli.render.search_board import ProgressBoard, best_line, progress_line
from trackside.cli.runtime.failures import CommandFailed, FailureReported
from trackside.contracts.message import Record
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, TaskStopRequested, TaskUnschedulable
from trackside.contracts.topics import Topics, partition_of
from trackside.domain.stream import Stream
from trackside.eventlog.clock import now_ms
from trackside.projections.owners import DISPATCHER, SCHEDULER
from trackside.projections.postgres import PostgresGoneError, SchemaMissingError
from trackside.projections.reads import open_read_models
from trackside.sdk.client import Client

FRAMES_PER_S = 8
PLAIN_LINES = 5
FINISHED_ONLY = frozenset({AttemptEnd.FINISHED})
"""The ends of tasks that are a success for `--wait`."""
FINISHED_OR_CANCELLED = FINISHED_ONLY | {AttemptEnd.CANCELLED}
"""The ends of tasks that are a success for `trackside watch`."""
ANY_END = frozenset(AttemptEnd)
"""The ends of tasks that are a success for `trackside stop --wait`."""


async def until_search_ends(client: Client, stream_id: str, as_json: bool) -> tuple[Search, int]:
    """Shows a search until it is over; returns its state and the offset of its last event.

    Raises CommandFailed if the search ends because its tuner failed.
    """
    stream, last = await until_end(client, stream_id, as_json)
    search = search_of(stream)
    if search is None:
        raise CommandFailed(f"{stream_id} is not a search")
    print_end(stream, as_json)
    return search, last


async def until_end(client: Client, stream_id: str, as_json: bool) -> tuple[Stream, int]:
    """Shows a search or a batch until it is over; returns its state and the offset of its last event."""
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
    """Prints how a search or a batch ended.

    Raises CommandFailed if the tuner of the search failed, or if a task of the batch ended in a way that is
    not `accepted`.
    """
    search, batch = search_of(stream), batch_of(stream)
    if search is not None:
        _print_end_of_search(stream.stream_id, search, as_json)
    elif batch is not None:
        _print_end_of_batch(stream, batch, as_json, accepted)
    else:
        raise CommandFailed(f"{stream.stream_id} is neither a search nor a batch")


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


def summary(stream_id: str, search: Search) -> dict[str, object]:
    """Returns the outcome of a search, for programs."""
    best = None if search.best is None else search.trials[search.best]
    return {
        "search_id": stream_id,
        "status": search.status.value,
        "trials": len(search.trials),
        "best_trial": None if best is None else best.number,
        "best_value": None if best is None else best.value,
        "best_parameters": None if best is None else best.parameters,
        "duration_s": (search.ended_ms - search.started_ms) / 1000,
        "failure": search.failure,
    }


def _print_end_of_search(stream_id: str, search: Search, as_json: bool) -> None:
    if as_json:
        screen.emit_line(summary(stream_id, search))
    else:
        took = screen.duration((search.ended_ms - search.started_ms) / 1000)
        screen.say(f"{stream_id} {search.status.value}: {len(search.ends)} trials in {took}")
        if not screen.console().is_terminal:  # where a board was drawn, it shows it
            screen.say(best_line(search).replace("best so far", "best"))
    if search.status is SearchStatus.ERROR:
        raise FailureReported() if as_json else CommandFailed(f"{stream_id} failed: {search.failure}")


def _print_end_of_batch(
    stream: Stream, batch: Batch, as_json: bool, accepted: Collection[AttemptEnd]
) -> None:
    """Prints how a batch ended; raises CommandFailed if a task ended in a way that is not accepted."""
    bad = batch_board.unfinished(stream, accepted)
    left_out = batch_board.left_out(batch) if AttemptEnd.CANCELLED not in accepted else 0
    if as_json:
        screen.emit_line(batch_board.summary(stream, batch, accepted))
        if bad or left_out:
            raise FailureReported()
        return
    took = screen.duration((batch.ended_ms - batch.started_ms) / 1000)
    ends = batch_board.ends_text(batch_board.counts(batch).items())
    screen.say(f"{stream.stream_id} {batch.status.value}: {batch_board.total(batch)} tasks in {took}: {ends}")
    for task in bad[: batch_board.LISTED]:
        screen.say(f"  {batch_board.short_name(task, stream.stream_id)} {batch_board.why(task)}")
    if len(bad) > batch_board.LISTED:
        screen.say(f"  and {len(bad) - batch_board.LISTED} more; `trackside show {stream.stream_id}` has all")
    if bad or left_out:
        never = f", {left_out} never had their turn" if left_out else ""
        raise CommandFailed(f"{stream.stream_id}: {len(bad)} of its tasks did not finish{never}")


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

    def __init__(self) -> None:
        self._fifths = 0
        self._reasons: set[str] = set()

    def __call__(self, record: Record, stream: Stream) -> None:
        search, batch = search_of(stream), batch_of(stream)
        if isinstance(record.message, TaskUnschedulable) and record.message.message not in self._reasons:
            self._reasons.add(record.message.message)
            name = record.message.task_id.removeprefix(f"{stream.stream_id}.")
            screen.complain(f"  {name} can't run: {record.message.message}")
        if search is not None and isinstance(record.message, TrialEnded):
            self._print(len(search.ends), search.spec.max_trials, lambda: progress_line(search))
        elif batch is not None and isinstance(record.message, AttemptEnded | TaskStopRequested | GroupEnded):
            ended = batch_board.counts(batch).total()
            self._print(ended, batch_board.total(batch), lambda: batch_board.progress_line(batch))

    def _print(self, ended: int, total: int, line: Callable[[], str]) -> None:
        if ended * PLAIN_LINES // total > self._fifths:
            self._fifths = ended * PLAIN_LINES // total
            screen.complain(f"  {line()}")


def _nothing(record: Record, stream: Stream) -> None:
    """Shows nothing: the screen draws the board by itself, and a program wants only the end."""


@asynccontextmanager
async def _shown(board: ProgressBoard, as_json: bool) -> AsyncIterator[Callable[[Record, Stream], None]]:
    output = screen.console()
    if as_json:
        yield _nothing
    elif not output.is_terminal:
        yield _Plain()
    else:
        with Live(
            get_renderable=lambda: board.render(now_ms()),
            console=output,
            refresh_per_second=FRAMES_PER_S,
            transient=False,
        ):
            yield _nothing
