"""Follows a search or a batch on the screen until it is over, driven by the log and nothing else."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import aclosing, asynccontextmanager

from rich.live import Live

from trackside.cli.render import batch_board, screen
from trackside.cli.render.search_board import Board, best_line, progress_line
from trackside.cli.runtime.failures import Failure, Reported
from trackside.contracts.batches import GroupEnded
from trackside.contracts.message import Record
from trackside.contracts.searches import SearchStatus, TrialEnded
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, TaskStopRequested, TaskUnschedulable
from trackside.contracts.topics import Topics, partition_of
from trackside.domain.batch import Batch
from trackside.domain.search import Search
from trackside.domain.stream import Stream
from trackside.eventlog.clock import now_ms
from trackside.projections.owners import DISPATCHER, SCHEDULER
from trackside.projections.postgres import PostgresGoneError, SchemaMissingError
from trackside.projections.reads import open_read_models
from trackside.sdk.client import Client

FRAMES_PER_S = 8
PLAIN_LINES = 5
STRICT = frozenset({AttemptEnd.FINISHED})
"""The ends of tasks that are fine for who waits for their results."""
STOPPED_TOO = STRICT | {AttemptEnd.CANCELLED}
"""Those that are fine for who only watches."""
ANY = frozenset(AttemptEnd)
"""Those that are fine for who wanted an end and nothing else."""


async def until_over(client: Client, stream_id: str, as_json: bool) -> tuple[Search, int]:
    """Shows a search until it is over; gives its state and the offset of its last event.

    Raises Failure if the search ends because its tuner failed.
    """
    stream, last = await until_end(client, stream_id, as_json)
    if stream.search is None:
        raise Failure(f"{stream_id} is not a search")
    judge(stream, as_json)
    return stream.search, last


async def until_end(client: Client, stream_id: str, as_json: bool) -> tuple[Stream, int]:
    """Shows a search or a batch until it is over; gives its state and the offset of its last event."""
    board = Board(stream_id, devices=await _devices(client))
    last = -1
    async with _shown(board, as_json) as shown, aclosing(client.follow(stream_id)) as changes:
        async for record, stream in changes:
            last = record.offset
            board.see(record, stream)
            shown(record, stream)
    if board.stream is None:
        raise Failure(f"there is no {stream_id} in the log")
    return board.stream, last


def judge(stream: Stream, as_json: bool, fine: Collection[AttemptEnd] = STRICT) -> None:
    """Says how a search or a batch ended.

    Raises Failure if the search ended because its tuner failed, or a task of the batch in a way that isn't
    one of those that are `fine`.
    """
    if stream.search is not None:
        _judge_search(stream.stream_id, stream.search, as_json)
    elif stream.batch is not None:
        _judge_batch(stream, stream.batch, as_json, fine)
    else:
        raise Failure(f"{stream.stream_id} is neither a search nor a batch")


async def written(dsn: str, topics: Topics, stream_id: str, last_offset: int, timeout_s: float) -> None:
    """Waits until Postgres holds a stream up to an offset, so that what is asked next is not behind.

    Raises Failure after `timeout_s`, or if Postgres doesn't answer.
    """
    events = topics.events
    place = (events.name, partition_of(stream_id, events.partitions))
    try:
        async with open_read_models(dsn) as models:
            for owner in (DISPATCHER, SCHEDULER):
                await models.until(owner, *place, last_offset + 1, timeout_s)
    except TimeoutError as error:
        raise Failure(
            f"Postgres is behind the log: the end of {stream_id} (offset {last_offset}) was not in its rows "
            f"after {timeout_s:.0f} s; see `trackside status`"
        ) from error
    except (PostgresGoneError, SchemaMissingError) as error:
        raise Failure(f"Postgres does not answer: {error}") from error


def summary(stream_id: str, search: Search) -> dict[str, object]:
    """Gives what became of a search, for programs."""
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


def _judge_search(stream_id: str, search: Search, as_json: bool) -> None:
    if as_json:
        screen.emit_line(summary(stream_id, search))
    else:
        took = screen.duration((search.ended_ms - search.started_ms) / 1000)
        screen.say(f"{stream_id} {search.status.value}: {len(search.ends)} trials in {took}")
        if not screen.console().is_terminal:  # where a board was drawn, it has said so
            screen.say(best_line(search).replace("best so far", "best"))
    if search.status is SearchStatus.ERROR:
        raise Reported() if as_json else Failure(f"{stream_id} failed: {search.failure}")


def _judge_batch(stream: Stream, batch: Batch, as_json: bool, fine: Collection[AttemptEnd]) -> None:
    """Says how a batch ended; raises Failure if one of its tasks did so in a way that isn't fine."""
    bad = batch_board.unfinished(stream, fine)
    left_out = batch_board.left_out(batch) if AttemptEnd.CANCELLED not in fine else 0
    if as_json:
        screen.emit_line(batch_board.summary(stream, batch, fine))
        if bad or left_out:
            raise Reported()
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
        raise Failure(f"{stream.stream_id}: {len(bad)} of its tasks did not finish{never}")


async def _devices(client: Client) -> set[tuple[str, str]]:
    fleet = await client.fleet()
    return {
        (worker.worker_id, device_id)
        for worker in fleet.workers.values()
        if not worker.gone
        for device_id in worker.devices
    }


class _Plain:
    """A few lines for an output that nobody watches: one for each fifth of the trials or tasks."""

    def __init__(self) -> None:
        self._told = 0
        self._reasons: set[str] = set()

    def __call__(self, record: Record, stream: Stream) -> None:
        search, batch = stream.search, stream.batch
        if isinstance(record.message, TaskUnschedulable) and record.message.message not in self._reasons:
            self._reasons.add(record.message.message)
            name = record.message.task_id.removeprefix(f"{stream.stream_id}.")
            screen.complain(f"  {name} can't run: {record.message.message}")
        if search is not None and isinstance(record.message, TrialEnded):
            self._tell(len(search.ends), search.spec.max_trials, lambda: progress_line(search))
        elif batch is not None and isinstance(record.message, AttemptEnded | TaskStopRequested | GroupEnded):
            ended = batch_board.counts(batch).total()
            self._tell(ended, batch_board.total(batch), lambda: batch_board.progress_line(batch))

    def _tell(self, ended: int, total: int, line: Callable[[], str]) -> None:
        if ended * PLAIN_LINES // total > self._told:
            self._told = ended * PLAIN_LINES // total
            screen.complain(f"  {line()}")


def _nothing(record: Record, stream: Stream) -> None:
    """Shows nothing: the screen draws the board by itself, and a program wants only the end."""


@asynccontextmanager
async def _shown(board: Board, as_json: bool) -> AsyncIterator[Callable[[Record, Stream], None]]:
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
