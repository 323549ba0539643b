"""How a task leaves: sys.exit, functions for the exit, and the last lines of a flood of output."""

from pathlib import Path

import pytest

from tests.integration.worker.given import SHARES, TaskType, shared_types
from tests.integration.worker.harness import WorkerHarness
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.summaries import OutputWritten
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.worker.child.process import at_exit

TASK = """
import atexit, os, sys, tempfile, time
from pathlib import Path
from trackside.sdk import Task, trial


class Leaving(Task):
    def load(self):
        pass

    def train(self, device):
        exec(trial.parameters()["do"])
        return {}
"""
pytestmark = SHARES
worker = shared_types({"leaving": TaskType(TASK, "entry: 'script:Leaving'")})


@pytest.mark.parametrize(
    ("do", "code", "message"),
    [
        ("sys.exit(3)", 3, "sys.exit(3) was called"),
        ("sys.exit()", 0, "sys.exit() was called"),
        ("sys.exit('no data')", 1, "sys.exit(no data) was called"),
        ("os._exit(3)", 3, "exit code 3"),
        ("os.kill(os.getpid(), 11)", -11, "SIGSEGV"),
    ],
)
async def test_the_exit_code_of_a_task_is_the_one_that_python_has(
    harness: WorkerHarness, do: str, code: int, message: str
) -> None:
    end = await harness.ended("a", {"do": do}, task_type="leaving")
    assert (end.end, end.exit_code) == (AttemptEnd.FAILED, code)
    assert end.error is not None and message in end.error.message


@pytest.mark.parametrize("then", ["pass", "raise ValueError('no')", "sys.exit(3)"])
async def test_functions_for_the_exit_run_before_the_end_is_reported(
    harness: WorkerHarness, tmp_path: Path, then: str
) -> None:
    left = tmp_path / "left"
    do = f"atexit.register(Path({str(left)!r}).write_text, 'saved'); {then}"
    await harness.ended("a", {"do": do}, task_type="leaving")
    assert left.read_text() == "saved"


async def test_a_function_for_the_exit_that_hangs_is_interrupted(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    saves = f"atexit.register(Path({str(left)!r}).write_text, 'saved')"
    do = f"{saves}; atexit.register(time.sleep, {10 * at_exit.LIMIT_S})"
    assert (await harness.ended("a", {"do": do}, task_type="leaving")).end is AttemptEnd.FINISHED
    assert left.read_text() == "saved", "those after it run, too"
    assert "atexit took more than 5 s" in await harness.output("a", lambda text: "atexit took" in text)


async def test_the_last_lines_of_a_flood_are_kept_with_the_number_of_those_between(
    harness: WorkerHarness,
) -> None:
    do = "sys.stdout.write(''.join(f'line {n}\\n' for n in range(1, 100_001))); print('the cause')"
    await harness.ended("a", {"do": do}, task_type="leaving")
    found: dict[int, str] = {}

    def complete(messages: list[Message]) -> bool:
        for batch in messages:
            if isinstance(batch, OutputWritten):
                found.update(enumerate(batch.lines, batch.first_line))
        return 100_001 in found

    await harness.messages(harness.topics.logs, "a", complete)
    assert (found[1], found[100_000], found[100_001]) == ("line 1", "line 100000", "the cause")
    notes = [line for line in found.values() if "more lines came too fast" in line]
    assert notes and len(found) + sum(int(note[1:].split()[0]) - 1 for note in notes) == 100_001


async def test_the_end_of_a_flood_without_line_ends_is_kept(harness: WorkerHarness) -> None:
    do = "sys.stdout.write('x' * 5_000_000 + 'the cause')"
    await harness.ended("a", {"do": do}, task_type="leaving")
    text = await harness.output("a", lambda text: text.endswith("the cause"))
    assert "characters left out]" in text and len(text) < 1_000_000
