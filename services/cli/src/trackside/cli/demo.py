"""The command `demo`: one search from its command to its replay, on a stack of its own."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from trackside.aggregates.search.messages import SearchStatus
from trackside.aggregates.search.state import Search, search_of
from trackside.aggregates.search.view import trial_table
from trackside.cli.commands import stack_process
from trackside.cli.commands.replay.rebuild import rebuild_and_compare
from trackside.cli.commands.submit import new_stream_id
from trackside.cli.render import follow, screen
from trackside.cli.render.curve_charts import show_chart
from trackside.cli.render.screen import StepReporter
from trackside.cli.runtime import examples
from trackside.cli.runtime.failures import CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.message import Command
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import PUBLISHER, VIEWER
from trackside.domain.rows.table import ViewRow
from trackside.embedded.stack import Stack
from trackside.projections.reading.reads import open_read_models
from trackside.sdk.client import Client
from trackside.sdk.connection.publication import Refused
from trackside.sdk.definitions.specs import read_spec
from trackside.summaries.plotting import ChartCurve

BEST = 5
DRAWN = 3
"""How many of the best trials have their curves drawn: more of them cover each other."""
CURVES_HEIGHT = 14
SLOTS = 2
"""As many as the examples run trials at once."""
ANSWER_S = 30.0
ROWS_S = 60.0
NO_TORCH = (
    "torch and scikit-learn are not both installed: this demo fits a curve with NumPy. "
    "To train on digits: pip install 'trackside[torch]'"
)


def demo(keep: bool) -> None:
    """Runs the example search to its end and compares the read models with the log."""
    example = examples.runnable()
    if example != examples.DIGITS:
        screen.say(NO_TORCH)
    command = read_spec(examples.folder(example) / examples.SPEC)
    with _stack(keep, examples.folder(example) / examples.CATALOGUE) as used:
        run(_search(used, command))
        rebuild_and_compare(used.kafka(VIEWER), used.postgres_dsn)
        if used.console_url is not None:
            until = "" if keep else "; `trackside up` keeps one running"
            screen.say(f"the console showed all of this at {used.console_url}{until}")


@contextmanager
def _stack(keep: bool, catalogue: Path) -> Iterator[Stack]:
    found = stack_process.running()
    if found is not None:
        screen.say(f"using the stack that runs in {found.folder}")
        yield found
        return
    screen.say("starting Kafka, Postgres, dispatcher, scheduler, worker, summary-indexer and console")
    if keep:
        yield stack_process.start(catalogue, SLOTS, StepReporter())
        screen.say("the stack is still running; stop it with: trackside down")
        return
    with stack_process.started(catalogue, SLOTS, StepReporter()) as made:
        yield made


async def _search(used: Stack, command: Command) -> None:
    stream_id = new_stream_id(command)
    async with Client(used.kafka(PUBLISHER), name="demo") as client:
        publication = await client.publish(command, stream_id)
        answer = await client.answer(publication, ANSWER_S)
        if isinstance(answer, Refused):
            raise CommandFailed(f"{stream_id} refused: {answer.code} at {answer.path}: {answer.message}")
        screen.say(f"search {stream_id} accepted")
        stream, last_offset = await follow.until_end(client, stream_id, as_json=False)
    search = search_of(stream)
    assert search is not None
    follow.print_end(stream, as_json=False)
    if search.status is not SearchStatus.DONE:
        raise CommandFailed(f"{stream_id} ended as {search.status.value}, expected DONE")
    await _show_best(used.postgres_dsn, stream_id, search, last_offset)


async def _show_best(dsn: str, stream_id: str, search: Search, last_offset: int) -> None:
    """Shows the best trials as Postgres has them, once its rows hold the end of the search."""
    await follow.wait_for_rows(dsn, Topics(), stream_id, last_offset, ROWS_S)
    async with open_read_models(dsn) as models:
        trials = await models.rows("search.trials", stream_id)
    best = best_trials(trials, search.spec.direction, BEST)
    stopped = sum(trial["status"] == "EARLY_STOPPED" for trial in trials)
    screen.say("")
    title = f"best of {len(trials)} trials, from Postgres ({stopped} stopped early by the assessor)"
    screen.show_text_table(trial_table(best), title)
    _show_curves(best)


def _show_curves(trials: Sequence[ViewRow]) -> None:
    """Draws what trials have reported, step by step; their rows have it."""
    curves = [
        ChartCurve(
            f"trial {trial['trial']}",
            np.array(trial["report_steps"]),
            np.array([math.nan if value is None else value for value in trial["report_values"]]),
        )
        for trial in trials[:DRAWN]
        if trial["report_steps"]
    ]
    if curves:
        screen.say("")
        screen.say(f"what the best {len(curves)} of them reported, by step")
        show_chart(curves, height=CURVES_HEIGHT)


def best_trials(trials: list[ViewRow], direction: str, count: int) -> list[ViewRow]:
    """Returns the best trials that succeeded, the best first."""
    done = [trial for trial in trials if trial["status"] == "SUCCEEDED" and trial["value"] is not None]
    return sorted(done, key=lambda trial: trial["value"], reverse=direction == "maximize")[:count]
