"""Rows of runs are a function of folded state: whatever is forgotten, continued or archived."""

from random import Random

import pytest

from tests.unit.aggregates.run.given import RunLog, step
from tests.unit.projections.test_settled_tasks import Reader, readers
from trackside.aggregates.run.messages import ApproveGate, ArchiveRun, RetryFailedSteps, StepPatch
from trackside.aggregates.run.rows import StepRows
from trackside.contracts.tasks.tasks import AttemptEnd

STEPS = StepRows()


@pytest.fixture
def log() -> RunLog:
    """Returns the log of a run with a fan-out, a gate, a failure, a continuation, and its archiving."""
    log = RunLog()
    spec = {
        "parameters": {"rows": {"type": "integer"}},
        "steps": [
            step("data", parameters={"rows": "${pipeline.rows}", "kept": "rows: ${pipeline.rows}"}),
            step("train", each="${data.result.items}", parameters={"x": "${item}"}, weight=2),
            step("ok", "train", gate={"form": {"by": {"type": "string", "default": "me"}}}),
            step("late", "ok", parameters={"first": "${train.result.0.n}"}),
            step("skipped", "data", when="data.result.items[0] > 5"),
        ],
        "outputs": {"end": "${late.status}"},
    }
    log.command("trackside.start-pipeline-run.v1", {"pipeline": spec, "parameters": {"rows": 3}})
    log.finish("data", {"items": [1, 2]})
    log.finish("train.0", {"n": 5})
    log.finish("train.1", end=AttemptEnd.TIMED_OUT_RUN)
    log.command(RetryFailedSteps(patch={"late": StepPatch(parameters={"extra": 1})}))
    log.finish("train.1.g1", {"n": 6})
    log.command(ApproveGate(step="ok", actor="ada"))
    log.finish("late.g1", {})
    log.command(ArchiveRun())
    assert log.run.archived
    return log


def test_readers_have_the_same_rows_whether_they_forget_early_late_or_never(log: RunLog) -> None:
    found = readers(Random(7))
    for reader in found:
        for record in log.records:
            reader.read(record)
        reader.write()
    never, early, late = (reader.rows for reader in found)
    assert (early, late) == (never, never)
    assert {name for name, _ in never} >= {"runs", "steps", "gates"}


def test_parameters_are_those_that_the_step_was_given(log: RunLog) -> None:
    """P28: what is resolved stands in the table of the steps, after the run was archived too."""
    reader = Reader(lambda: True, lambda: False)
    for record in log.records:
        reader.read(record)
    reader.write()
    at = STEPS.table.columns.index("parameters")
    found = {key[1]: row[at] for (name, key), row in reader.rows.items() if name == "steps"}
    assert (found["data"], found["train"]) == ('{"rows":3,"kept":"rows: 3"}', '{"x":"${item}"}')
    assert found["late"] == '{"first":5,"extra":1}'
    assert found["ok"] is None
