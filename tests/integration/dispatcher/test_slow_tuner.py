"""A user's tuner that thinks for as long as it likes delays no end of a trial, of its search or of another.

It thinks until a gate is opened, and that is only opened when the log has the ends that must not wait for it.
"""

from functools import partial
from pathlib import Path

from tests.integration.dispatcher.users_package import installed_package
from tests.unit.dispatcher import harness
from trackside.aggregates.search.messages import SearchEnded, TrialEnded, TrialSuggested
from trackside.contracts.envelope.message import Record
from trackside.dispatcher.advice.advisor_process import AdvisorProcess
from trackside.eventlog.keys.decode import decode

QUICK = 60
"""Trials of the other search."""
PACKAGE = """
import pathlib
import random
import threading


class Slow:
    def __init__(self, space, options, direction):
        self.gates = pathlib.Path(options["gates"])

    def suggest(self, history, number, seed):
        gate = self.gates / str(number)
        while not gate.exists():
            threading.Event().wait(0.01)
        return {"x": random.Random(seed).random()}
"""


package = installed_package("slow", PACKAGE, "[trackside.tuners]\nslow = slow:Slow\n")


def ends(stream: str, record: Record) -> bool:
    """Returns whether an event is the end of a search."""
    return isinstance(record.message, SearchEnded) and record.envelope.stream == stream


def ends_trial(trial: int, record: Record) -> bool:
    """Returns whether an event is the end of a trial of the search that is asked slowly."""
    message = record.message
    return isinstance(message, TrialEnded) and (record.envelope.stream, message.trial) == ("slow", trial)


async def test_d03_a_tuner_that_thinks_delays_no_end_of_any_trial(tmp_path: Path) -> None:
    log = await harness.new_log()
    space = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}
    slow = {"name": "slow", "options": {"gates": str(tmp_path)}}
    await harness.start_search(log, "slow", space=space, tuner=slow, max_trials=3, concurrency=3)
    await harness.start_search(log, "quick", space=space, tuner={"name": "random"}, max_trials=QUICK)
    own = AdvisorProcess("own-tuner", timeout_s=3_600.0)
    async with harness.dispatcher(log, own), harness.fleet(log, lambda parameters: parameters["x"]):
        await harness.until(log, partial(ends, "quick"))
        for trial in range(3):
            (tmp_path / str(trial)).touch()
            await harness.until(log, partial(ends_trial, trial))
        await harness.until(log, partial(ends, "slow"))
    told = [record for record in map(decode, await harness.written(log)) if record is not None]
    kinds = [
        type(record.message).__name__
        for record in told
        if record.envelope.stream == "slow" and isinstance(record.message, TrialSuggested | TrialEnded)
    ]
    assert kinds == ["TrialSuggested", "TrialEnded"] * 3, "each trial ended while the next was thought about"
