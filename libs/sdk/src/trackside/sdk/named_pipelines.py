"""A pipeline that is defined under a name: its versions, its numbered runs and its schedules, from Python."""

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from trackside.aggregates.pipeline.messages import (
    CancelPipelineRuns,
    DefinePipeline,
    RetirePipeline,
    RunNumbered,
    RunPipeline,
)
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    CreateSchedule,
    DeleteSchedule,
    FireSchedule,
    PauseSchedule,
    ResumeSchedule,
    UpdateSchedule,
)
from trackside.aggregates.pipeline.state import DefinedPipeline, pipeline_of
from trackside.contracts.envelope.message import Command, Json
from trackside.contracts.envelope.standing import Standing
from trackside.sdk.blocking import BlockingClient
from trackside.sdk.connection.publication import PublishedCommand
from trackside.sdk.errors import ClientError
from trackside.sdk.pipeline_runs import PipelineRun, connected
from trackside.sdk.pipelines import PipelineInput, command_of, definition_of


class NamedPipeline:
    """A pipeline by its name. The platform is found as by the command line, unless `connect` is given.

    All calls block. Commands raise RefusedError if they are refused, UnsendableError if they are invalid.
    """

    def __init__(self, name: str, connect: Callable[[], BlockingClient] | None = None) -> None:
        self.name = name
        self._given = connect
        self._connect = connect or connected

    def define(self, pipeline: PipelineInput, max_runs: int | None = None) -> int:
        """Makes a definition the current one and returns its version; one that is known keeps its version."""
        definition = definition_of(pipeline).model_dump(mode="json")
        self._send(DefinePipeline, {"pipeline": definition, "max_runs": max_runs})
        return self.state().current

    def run(
        self, parameters: Mapping[str, Any] | None = None, version: int | None = None, **fields: Any
    ) -> PipelineRun:
        """Asks for the next run, and returns it; it begins when there is room, so `wait` for its beginning.

        `fields` are more of RunPipeline: overrides, seed, use_cache.
        """
        body = {"parameters": dict(parameters or {}), "version": version, **fields}
        with self._connect() as client:
            publication = client.send(command_of(RunPipeline, body), self.name)
            with closing(client.events(self.name, True, publication.events_from)) as records:
                for record in records:
                    message, applied = record.message, record.standing is Standing.APPLIED
                    if not applied or not isinstance(message, RunNumbered):
                        continue
                    if message.command_id == publication.command_id:
                        return PipelineRun(message.run, self._given)
        raise AssertionError("an accepted run has a number")

    def newest_run(self, version: int | None = None) -> PipelineRun:
        """Returns the newest run, or the newest of one version; raises ClientError if there is none."""
        with self._connect() as client, closing(client.events(self.name)) as records:
            applied = [each.message for each in records if each.standing is Standing.APPLIED]
        events = [message for message in applied if isinstance(message, RunNumbered)]
        runs = [event.run for event in events if version in (None, event.version)]
        if not runs:
            of_version = "" if version is None else f" of version {version}"
            raise ClientError(f"there is no run{of_version} of a pipeline {self.name}")
        return PipelineRun(runs[-1], self._given)

    def cancel(self, number: int | None = None, reason: str = "") -> None:
        """Ends a run, or all: those that wait don't begin, those that are open are aborted."""
        self._send(CancelPipelineRuns, {"number": number, "reason": reason})

    def retire(self, reason: str = "") -> None:
        """Allows no more runs until it is defined again."""
        self._send(RetirePipeline, {"reason": reason})

    def create_schedule(self, name: str, **fields: Any) -> None:
        """Begins runs by themselves, by the fields of a schedule: cron, timezone, overlap, parameters."""
        self._send(CreateSchedule, {"name": name, "schedule": fields})

    def update_schedule(self, name: str, **fields: Any) -> None:
        """Replaces a schedule."""
        self._send(UpdateSchedule, {"name": name, "schedule": fields})

    def pause_schedule(self, name: str, reason: str = "") -> None:
        """Begins no runs of a schedule until it is resumed."""
        self._send(PauseSchedule, {"name": name, "reason": reason})

    def resume_schedule(self, name: str) -> None:
        """Resumes a schedule."""
        self._send(ResumeSchedule, {"name": name})

    def fire_schedule(self, name: str) -> None:
        """Asks for a run of a schedule now."""
        self._send(FireSchedule, {"name": name})

    def delete_schedule(self, name: str) -> None:
        """Removes a schedule; its runs continue."""
        self._send(DeleteSchedule, {"name": name})

    def state(self) -> DefinedPipeline:
        """Returns its current state; raises ClientError if there is no such pipeline."""
        with self._connect() as client:
            stream = client.state(self.name)
        found = None if stream is None else pipeline_of(stream)
        if found is None:
            raise ClientError(f"there is no pipeline {self.name}; define it first")
        return found

    def _send(self, kind: type[Command], body: Json) -> PublishedCommand:
        with self._connect() as client:
            return client.send(command_of(kind, body), self.name)
