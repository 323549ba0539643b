"""Follows a search on the screen until it is over, driven by the log and nothing else."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from rich.live import Live

from trackside.cli import screen
from trackside.cli.board import Board, best_line, progress_line
from trackside.cli.failures import Failure, Reported
from trackside.contracts.message import Record
from trackside.contracts.searches import SearchStatus, TrialEnded
from trackside.contracts.topics import Topics, partition_of
from trackside.domain.search import Search
from trackside.domain.stream import Stream
from trackside.eventlog.clock import now_ms
from trackside.projections.owners import DISPATCHER, SCHEDULER
from trackside.projections.postgres import PostgresGoneError, SchemaMissingError
from trackside.projections.reads import reads
from trackside.sdk.client import Client

FRAMES_PER_S = 8
PLAIN_LINES = 5


async def until_over(client: Client, stream_id: str, as_json: bool) -> tuple[Search, int]:
    """Shows a search until it is over; gives its state and the offset of its last event.

    Raises Failure if the search ends because its tuner failed.
    """
    board = Board(stream_id, devices=await _devices(client))
    last = -1
    async with _shown(board, as_json) as shown, aclosing(client.follow(stream_id)) as changes:
        async for record, stream in changes:
            last = record.offset
            board.see(stream)
            shown(record, stream)
    search = None if board.stream is None else board.stream.search
    if search is None:
        raise Failure(f"{stream_id} is not a search")
    return _judged(stream_id, search, as_json), last


async def written(dsn: str, topics: Topics, stream_id: str, last_offset: int, timeout_s: float) -> None:
    """Waits until Postgres holds a stream up to an offset, so that what is asked next is not behind.

    Raises Failure after `timeout_s`, or if Postgres doesn't answer.
    """
    events = topics.events
    place = (events.name, partition_of(stream_id, events.partitions))
    try:
        async with reads(dsn) as models:
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


def _judged(stream_id: str, search: Search, as_json: bool) -> Search:
    if as_json:
        screen.emit_line(summary(stream_id, search))
    else:
        took = screen.duration((search.ended_ms - search.started_ms) / 1000)
        screen.say(f"{stream_id} {search.status.value}: {len(search.ends)} trials in {took}")
        if not screen.console().is_terminal:  # where a board was drawn, it has said so
            screen.say(best_line(search).replace("best so far", "best"))
    if search.status is SearchStatus.ERROR:
        raise Reported() if as_json else Failure(f"{stream_id} failed: {search.failure}")
    return search


async def _devices(client: Client) -> set[tuple[str, str]]:
    fleet = await client.fleet()
    return {
        (worker.worker_id, device_id)
        for worker in fleet.workers.values()
        if not worker.gone
        for device_id in worker.devices
    }


class _Plain:
    """A few lines for an output that nobody watches: one for each fifth of the trials."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, record: Record, stream: Stream) -> None:
        search = stream.search
        if search is None or not isinstance(record.message, TrialEnded):
            return
        ended, total = len(search.ends), search.spec.max_trials
        if ended * PLAIN_LINES // total > self._told:
            self._told = ended * PLAIN_LINES // total
            screen.complain(f"  {progress_line(search)}")


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
