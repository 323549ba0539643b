"""A pipeline that is defined and run by commands."""

from typing import Any

from tests.unit.aggregates.given import answered, published
from tests.unit.domain.given import Told
from trackside.aggregates.pipeline.messages import DefinePipeline, RunPipeline, run_id
from trackside.aggregates.pipeline.state import DefinedPipeline, NumberedRun
from trackside.contracts.envelope.message import Command, Event, Json
from trackside.contracts.streams.children import ChildEnded, ChildRequested
from trackside.contracts.streams.commands import CommandAccepted


def definition(**more: Any) -> Json:
    prepare = {"name": "prepare", "task_type": "digits", "parameters": {"seed": "${pipeline.seed}"}}
    train = {"name": "train", "task_type": "digits", "parameters": {"rows": "${prepare.result.rows}"}}
    parameters = {"seed": {"type": "integer", "default": 7}}
    return {"parameters": parameters, "steps": [prepare, train], **more}


def ask(told: Told, kind: type[Command], body: Json | None = None) -> list[Event]:
    number = told.next_offset + 1
    return answered(told, published(number, kind.wire_type(), {} if body is None else body))


def do(told: Told, kind: type[Command], body: Json | None = None) -> list[Event]:
    accepted, *events = ask(told, kind, body)
    assert isinstance(accepted, CommandAccepted), accepted
    return events


def define(told: Told | None = None, max_runs: int | None = None, **more: Any) -> Told:
    told = told or Told()
    do(told, DefinePipeline, {"pipeline": definition(**more), "max_runs": max_runs})
    return told


def run(told: Told, **body: Any) -> None:
    do(told, RunPipeline, body)


def begun(told: Told, events: list[Event]) -> list[int]:
    asked = [event.child_id for event in events if isinstance(event, ChildRequested)]
    return [number for number in range(1, 2_000) if run_id(told.stream.stream_id, number) in asked]


def end(told: Told, number: int, status: str = "SUCCEEDED") -> None:
    told.tell(ChildEnded(child_id=run_id(told.stream.stream_id, number), status=status, result={}))


def pipeline(told: Told) -> DefinedPipeline:
    assert isinstance(told.stream.root, DefinedPipeline)
    return told.stream.root


def run_of(told: Told, number: int) -> NumberedRun:
    return pipeline(told).runs[number]
