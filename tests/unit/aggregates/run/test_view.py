"""What people see of a run while it goes on and at its end."""

from tests.unit.aggregates.run.given import RunLog, started, step
from trackside.aggregates.run.aggregate import RUN
from trackside.aggregates.run.messages import AbortPipelineRun, ApproveGate, PausePipelineRun
from trackside.aggregates.run.steps.page import short_values
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display.text import as_text
from trackside.domain.display.view import Progress, StreamEnd


def progress(log: RunLog) -> Progress:
    return RUN.view.progress(log.stream)


def end(log: RunLog, *accepted: AttemptEnd) -> StreamEnd:
    return RUN.view.end(log.stream, accepted)


def test_progress_counts_each_step_with_its_weight_and_the_items_of_a_fan_out() -> None:
    """P39: progress is the weighted mean of the steps."""
    log = started(step("a"), step("b", "a", each=[1, 2, 3, 4], weight=3))
    assert progress(log).share == 0
    log.finish("a")
    assert progress(log).share == 0.25
    log.finish("b.0")
    log.finish("b.1")
    found = progress(log)
    assert found.share == 0.25 + 0.75 / 2
    assert (found.ended, found.total, found.line) == (1, 2, "1/2 steps ended (62%): 1 succeeded")
    log.finish("b.2")
    log.finish("b.3")
    assert progress(log).share == 1


def test_the_board_shows_the_steps_around_the_first_that_is_open() -> None:
    log = started(step("s0"), *(step(f"s{number}", f"s{number - 1}") for number in range(1, 30)))
    for number in range(20):
        log.finish(f"s{number}")
    found = progress(log)
    shown = {row[0]: row[1] for row in found.rows}
    assert (len(found.rows), next(iter(shown)), found.more) == (12, "s16", "and 18 more steps")
    assert [shown[name] for name in ("s19", "s20", "s21")] == ["succeeded", "queued", "pending"]


def test_a_run_that_waits_for_a_person_says_which_command_decides_an_open_gate() -> None:
    log = started(step("a"), step("ok", "a", gate={}), step("b", "ok"))
    assert not progress(log).waits
    log.finish("a")
    assert progress(log).waits
    assert progress(log).lines == [f"gate ok waits: trackside approve {log.run.run_id} ok"]
    log.command(ApproveGate(step="ok"))
    assert progress(log).lines == []
    log.command(PausePipelineRun())
    assert progress(log).waits


def test_the_end_names_each_step_that_failed_and_why_and_an_abort_may_be_accepted() -> None:
    log = started(step("a"), step("b"), step("c", "a", "b"), step("d", when="1 < 2"))
    log.finish("a", end=AttemptEnd.TIMED_OUT_RUN)
    log.finish("b")
    log.finish("d")
    found = end(log)
    assert found.failure == f"{log.run.run_id} FAILED"
    assert found.lines[0].endswith("2 succeeded, 1 timed_out, 1 omitted")
    assert found.lines[1].startswith("  a timed_out: timed_out_run")
    assert found.summary["causes"] == ["a"]
    log = started(step("a"))
    log.command(AbortPipelineRun(reason="enough"))
    assert (end(log).failure, end(log, AttemptEnd.CANCELLED).failure) == (f"{log.run.run_id} ABORTED", "")


def test_outputs_are_part_of_the_end_and_their_control_characters_do_not_reach_a_terminal() -> None:
    text = "a\x1b[31mb\nc\td"
    log = started(step("a"), outputs={"x": "${a.result.x}", "y": ["${a.result.x}"]})
    log.finish("a", {"x": text})
    shown = "a\\x1b[31mb\\nc\\td"
    assert end(log).lines[1:] == [f"x: {shown}", f"y: {shown}"]
    assert end(log).summary["outputs"] == {"x": text, "y": [text]}
    assert short_values({"x": text, "y": {"z": text}}).startswith(f"x={shown} y=z=a\\x1b")
    assert (as_text("first\nsecond\x07"), as_text({"größe": "値"})) == ("first\nsecond\\x07", "größe=値")
