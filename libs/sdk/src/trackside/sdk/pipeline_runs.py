"""A run of a pipeline, started, followed and changed from Python."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.run.messages import (
    AbortPipelineRun,
    AbortStep,
    ApproveGate,
    ArchiveRun,
    PausePipelineRun,
    RejectGate,
    RestartFromStep,
    ResumePipelineRun,
    RetryFailedSteps,
    RunStatus,
    SkipStep,
    UpdatePipelineRun,
)
from trackside.aggregates.run.state import Run, run_of
from trackside.aggregates.run.step_messages import StepState
from trackside.contracts.envelope.message import Command, Json
from trackside.contracts.envelope.refusals import nearest
from trackside.domain.pipelines.definition import kind_of
from trackside.sdk.blocking import BlockingClient
from trackside.sdk.client import Client
from trackside.sdk.definitions import discovery
from trackside.sdk.errors import ClientError
from trackside.sdk.pipelines import PipelineInput, command_of

Patches = Mapping[str, Mapping[str, Any]]
"""Patches by the names of steps: each has parameters, inputs, queue, priority, or time limits."""


@dataclass(frozen=True, slots=True)
class StepSummary:
    """A step as recorded in the log: its state, and what it has found.

    `kind` is task, child or gate; `ends` counts its items by the state of their end, for a step with several.
    `results` are those of its items by index, as far as a later step or an output refers to the step.
    `reason` says why it failed, was skipped or aborted, if no task of it does; times are in ms since 1970, 0
    before them.
    """

    name: str
    kind: str
    state: StepState
    items: int
    ends: dict[str, int]
    results: dict[int, Any]
    reason: str
    ready_ms: int
    ended_ms: int


class PipelineRun:
    """A run by its id. The platform is found as by the command line, unless `connect` is given.

    All calls block; use Client in code with an event loop. Commands raise RefusedError if they are refused.
    """

    def __init__(self, run_id: str, connect: Callable[[], BlockingClient] | None = None) -> None:
        self.id = run_id
        self._connect = connect or connected

    @classmethod
    def start(
        cls,
        pipeline: PipelineInput,
        parameters: Mapping[str, Any] | None = None,
        run_id: str = "",
        connect: Callable[[], BlockingClient] | None = None,
        **fields: Any,
    ) -> "PipelineRun":
        """Starts a run, waits until it is accepted, and returns it; raises what Client.start_run raises."""
        with (connect or connected)() as client:
            return cls(client.start_run(pipeline, parameters, run_id, **fields), connect)

    def wait(self, timeout_s: float | None = None) -> RunStatus:
        """Waits until the run is over and returns its status; raises NotOverError."""
        with self._connect() as client:
            stream = client.wait(self.id, timeout_s)
        run = run_of(stream)
        assert run is not None, f"{self.id} is no run"
        return run.status

    def status(self) -> RunStatus:
        """Returns the current status."""
        return self.state().status

    def outputs(self) -> Json:
        """Returns what the run has found; empty before its end."""
        return self.state().outputs

    def steps(self) -> dict[str, StepSummary]:
        """Returns the steps by name, in the order of the definition."""
        run = self.state()
        return {name: _summary(run, name) for name in run.steps}

    def step(self, name: str) -> StepSummary:
        """Returns one step; raises ClientError if there is none of this name."""
        steps = self.steps()
        if name not in steps:
            raise ClientError(f"run {self.id} has no step {name!r}{nearest(name, steps)}")
        return steps[name]

    def state(self) -> Run:
        """Returns the current state of the run; raises ClientError if there is no such run."""
        with self._connect() as client:
            stream = client.state(self.id)
        run = None if stream is None else run_of(stream)
        if run is None:
            raise ClientError(f"there is no run {self.id}; start it first")
        return run

    def pause(self, reason: str = "", *, give_back: bool = False) -> None:
        """Begins no steps until it is resumed; with `give_back` running tasks release their devices."""
        self._send(PausePipelineRun, running="return" if give_back else "finish", reason=reason)

    def resume(self) -> None:
        """Continues after a pause."""
        self._send(ResumePipelineRun)

    def abort(self, reason: str = "") -> None:
        """Ends the run: its open steps are ended first."""
        self._send(AbortPipelineRun, reason=reason)

    def retry_failed(
        self, *steps: str, indexes: Mapping[str, list[int]] | None = None, patch: Patches | None = None
    ) -> None:
        """Runs failed steps of a run that is over again: all, those named, or single indexes of some."""
        named = {"steps": list(steps)} if steps else {}
        self._send(RetryFailedSteps, **named, indexes=dict(indexes or {}), patch=dict(patch or {}))

    def restart_from(self, *steps: str, patch: Patches | None = None) -> None:
        """Runs these steps of a run that is over again, and all that come after them."""
        self._send(RestartFromStep, steps=list(steps), patch=dict(patch or {}))

    def skip_step(self, step: str, reason: str = "") -> None:
        """Skips a step that has not begun; those that need it are omitted."""
        self._send(SkipStep, step=step, reason=reason)

    def abort_step(self, step: str, index: int | None = None, reason: str = "") -> None:
        """Ends a step, or one of its items."""
        self._send(AbortStep, step=step, index=index, reason=reason)

    def approve(self, step: str, *, actor: str = "", **inputs: Any) -> None:
        """Approves a gate; `inputs` are the fields of its form."""
        self._send(ApproveGate, step=step, inputs=inputs, actor=actor)

    def reject(self, step: str, reason: str = "", *, actor: str = "") -> None:
        """Rejects a gate."""
        self._send(RejectGate, step=step, reason=reason, actor=actor)

    def update(self, **limits: Any) -> None:
        """Changes limits, by the fields of UpdatePipelineRun: timeout_s, concurrency, priority."""
        self._send(UpdatePipelineRun, **limits)

    def archive(self) -> None:
        """Closes a run that is over: it can't be continued any more."""
        self._send(ArchiveRun)

    def _send(self, kind: type[Command], **body: Any) -> None:
        with self._connect() as client:
            client.send(command_of(kind, body), self.id)


def _summary(run: Run, name: str) -> StepSummary:
    step = run.steps[name]
    return StepSummary(
        name=name,
        kind=kind_of(run.spec_of(name)),
        state=step.state,
        items=step.count,
        ends=step.ends if run.has_items(name) else {},
        results={index: output.result for index, output in step.outputs.items()},
        reason=step.reason if step.error is None else f"{step.error.code}: {step.error.message}",
        ready_ms=step.ready_ms,
        ended_ms=step.ended_ms,
    )


def connected() -> BlockingClient:
    """Returns a client of the platform as the command line finds it."""
    return Client.blocking(discovery.bootstrap(), discovery.prefix())
