"""How an attempt ended, from what its process left."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.secret_samples import PLAIN, SECRETS
from trackside.contracts.envelope.redaction import REDACTED, looks_secret
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStatus
from trackside.worker.attempts.memory.memory_at_end import MemoryAtEnd
from trackside.worker.attempts.memory.memory_cap import MemoryCap
from trackside.worker.attempts.outcome import determine_ending, recovered_ending
from trackside.worker.child.serialise import UnreportableError, error_fields, to_plain_json
from trackside.worker.messages.process_messages import AttemptEnding, encode
from trackside.worker.messages.report_messages import StepReport
from trackside.worker.output_text import keep_end, printable
from trackside.worker.reporting.journal import Journal, JournalEntry

MIB, GIB = 2**20, 2**30
KILLED = "DataLoader worker (pid 7) is killed by signal: Killed. "
FINISHED = AttemptEnding("finished", {"x": 1}, None, None, [], 1, 2, 0, 0, 0, [], None, 0)
FULL = MemoryAtEnd("host", None, 3 * GIB, 100 * MIB, 16 * GIB)
ROOMY = MemoryAtEnd(None, None, 80 * MIB, 15 * GIB, 16 * GIB)
FAILED = FINISHED._replace(
    end="failed", result=None, error={"stage": "TRAIN", "type": "E", "message": ""}, train_time_ms=-1
)


def known(memory: MemoryAtEnd) -> Callable[[], MemoryAtEnd]:
    return lambda: memory


@pytest.mark.parametrize(
    ("written", "code", "asked", "end"),
    [
        (FINISHED, 0, None, AttemptEnd.FINISHED),
        (FINISHED, -9, AttemptEnd.CANCELLED, AttemptEnd.FINISHED),
        (FINISHED, None, AttemptEnd.LOST, AttemptEnd.FINISHED),
        (FAILED, 0, None, AttemptEnd.FAILED),
        (FAILED, 0, AttemptEnd.CANCELLED, AttemptEnd.CANCELLED),
        (FAILED, 0, AttemptEnd.LOST, AttemptEnd.LOST),
        (FAILED, 0, AttemptEnd.PREEMPTED, AttemptEnd.PREEMPTED),
        (None, -15, AttemptEnd.TIMED_OUT_RUN, AttemptEnd.TIMED_OUT_RUN),
        (None, -15, AttemptEnd.CANCELLED, AttemptEnd.CANCELLED),
        (None, -15, AttemptEnd.LOST, AttemptEnd.LOST),
        (None, None, None, AttemptEnd.LOST),
        (None, -9, None, AttemptEnd.FAILED),
        (None, 0, None, AttemptEnd.FAILED),
    ],
)
def test_what_was_written_counts_then_why_it_was_ended_then_how_it_died(
    written: AttemptEnding | None, code: int | None, asked: AttemptEnd | None, end: AttemptEnd
) -> None:
    assert determine_ending(written, code, asked, TaskStatus.TRAINING)["end"] == end


@pytest.mark.parametrize("code", [-9, 137])
@pytest.mark.parametrize(("phase", "stage"), [(TaskStatus.LOADING, "LOAD"), (TaskStatus.TRAINING, "TRAIN")])
def test_t6_a_kill_on_a_full_host_is_an_end_by_memory(code: int, phase: TaskStatus, stage: str) -> None:
    starved = determine_ending(None, code, None, phase, known(FULL))
    assert (starved["end"], starved["error"].stage) == (AttemptEnd.OOM_HOST, stage)
    assert determine_ending(None, code, None, phase, known(ROOMY))["end"] is AttemptEnd.FAILED
    assert determine_ending(None, code, AttemptEnd.CANCELLED, phase, known(FULL))["end"] == "cancelled"
    assert determine_ending(None, 1, None, phase, known(FULL))["end"] is AttemptEnd.FAILED


@pytest.mark.parametrize("said", [{"exit_code": -9}, {"exit_code": 137}, {"error": {"message": KILLED}}])
def test_t6_a_program_or_helper_killed_for_its_memory_ends_the_attempt_so(said: dict[str, Any]) -> None:
    written = FAILED._replace(**said)
    assert determine_ending(written, 0, None, TaskStatus.TRAINING, known(FULL))["end"] == "oom_host"
    assert determine_ending(written, 0, None, TaskStatus.TRAINING, known(ROOMY))["end"] == "failed"


def text_of(ending: dict[str, Any]) -> str:
    error = ending["error"]
    return str(error["message"] if isinstance(error, dict) else error.message)


def test_an_end_by_memory_names_the_limit_what_was_used_and_what_was_left() -> None:
    """It said that the host had no memory left, with 15 GiB free: the task was killed at its own ceiling."""
    ceiling = MemoryAtEnd("max_memory", MemoryCap("max_memory", 300 * MIB), 300 * MIB, 15 * GIB, 16 * GIB)
    for memory, limit_bytes, sentence in (
        (ceiling, 300 * MIB, "killed at max_memory of its task type, 300 MiB: the task used 300 MiB, "),
        (FULL, 0, "killed because the host ran out of memory: the task used 3 GiB, "),
    ):
        ending = determine_ending(None, -9, None, TaskStatus.TRAINING, known(memory))
        assert (ending["limit"], ending["peak_memory_bytes"]) == (memory.limit, memory.used_bytes)
        assert ending["limit_bytes"] == limit_bytes
        assert text_of(ending).startswith(f"the process was {sentence}the host had ")
        program = FAILED._replace(exit_code=-9, error={"message": "the program was killed by SIGKILL"})
        ending = determine_ending(program, 0, None, TaskStatus.TRAINING, known(memory))
        assert (ending["limit"], ending["limit_bytes"]) == (memory.limit, limit_bytes)
        assert sentence in text_of(ending) and text_of(ending).endswith("; the program was killed by SIGKILL")


def test_what_was_left_is_said_of_a_kill_from_outside_and_of_an_allocation_that_failed_in_the_task() -> None:
    message = text_of(determine_ending(None, -9, None, TaskStatus.TRAINING, known(ROOMY)))
    assert message == (
        "the process was killed by SIGKILL from outside, not for memory: "
        "the task used 80 MiB, the host had 15 GiB of 16 GiB left"
    )
    written = FAILED._replace(end="oom_host", error={"message": ""}, peak_memory_bytes=2 * GIB)
    ending = determine_ending(written, 0, None, TaskStatus.TRAINING, known(ROOMY))
    assert text_of(ending) == "(the task used 2 GiB, the host had 15 GiB of 16 GiB left)"
    assert "limit" not in ending


STAGES = {"INIT": "START", "AVAILABLE": "START", "LOADING": "LOAD", "WAITING": "TRAIN", "TRAINING": "TRAIN"}


@pytest.mark.parametrize(("phase", "stage"), STAGES.items())
def test_a_silent_death_names_the_stage_and_the_signal(phase: str, stage: str) -> None:
    error = determine_ending(None, -11, None, TaskStatus[phase])["error"]
    assert (error.stage, "SIGSEGV" in error.message) == (stage, True)


def test_what_an_earlier_incarnation_left_is_told_as_recovered() -> None:
    assert recovered_ending(None) == {"end": AttemptEnd.LOST, "recovered": True}
    told = recovered_ending(FINISHED)
    assert told["recovered"] and told["result"] == {"x": 1} and "reports" not in told


def test_an_ending_is_read_as_it_was_written_and_garbage_is_none(tmp_path: Path) -> None:
    journal, entry = Journal(tmp_path), JournalEntry("s", "a", 1, 1, "i-1")
    assert journal.ending(entry) is None
    written = FINISHED._replace(reports=[StepReport(0, 0.5, 1_700)], final=0.5, requests=2)
    journal.ending_file(entry).write_bytes(encode(written))
    found = journal.ending(entry)
    assert found == written and found is not None and found.reports[0].step == 0
    for garbage in (b"", b"{", b"\xff", b"[]", b'{"type": "ending"}', encode(written).replace(b"1", b'"1"')):
        journal.ending_file(entry).write_bytes(garbage)
        assert journal.ending(entry) is None


class Number:
    """Looks as a number of numpy or torch does."""

    ndim = 0

    def item(self) -> float:
        return 0.5


def test_a_result_becomes_plain_json_with_its_texts_as_they_are() -> None:
    found = to_plain_json({"a": Number(), "b": (1, True, None), 3: {"c": "\ud800\x00"}, "d": math.nan})
    assert found == {"a": 0.5, "b": [1, True, None], "3": {"c": "?\\0"}, "d": None}
    assert to_plain_json(None) == {}
    assert to_plain_json([1, 2]) == {}
    result = {f"{name}, a sample": [text, "token: abc"] for name, text in PLAIN.items()}
    assert to_plain_json(result) == result
    line = "epoch 3: loss=0.12 tokens/s 1200 at a/b"
    assert keep_end(line, 1_000) == line
    assert printable("naïve") == "naïve"


def nested(depth: int) -> dict[str, Any]:
    return {} if depth == 0 else {"a": nested(depth - 1)}


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"a": [object()]}, r"\$\.a\[0\]: object is not JSON"),
        (nested(40), "nested deeper than 32"),
        ({"a": 2**70}, "2\\^63"),
        ({(1, 2): 3}, "a key is tuple"),
    ],
)
def test_a_result_that_cannot_be_kept_says_why(result: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnreportableError, match=reason):
        to_plain_json(result)


def test_a_traceback_is_cut_at_its_front_and_says_nothing_secret() -> None:
    error = error_fields("TRAIN", ValueError("password=hunter2 " + "é" * 60_000))
    assert len(error["traceback"].encode()) <= 65_536
    assert error["traceback"].startswith("[cut]") and error["traceback"].endswith("é\n")
    assert error["message"].startswith(f"password={REDACTED}")


@pytest.mark.parametrize("name", SECRETS)
def test_neither_an_error_nor_a_result_of_a_task_has_a_secret(name: str) -> None:
    for text in error_fields("TRAIN", ValueError(f"can't log in with {SECRETS[name]}")).values():
        assert not looks_secret(text)
    assert not looks_secret(str(to_plain_json({SECRETS[name]: [f"with {SECRETS[name]}"]})))
