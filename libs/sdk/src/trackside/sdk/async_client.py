"""Publishes commands and follows what became of them, in an event loop."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from trackside.contracts.envelope.ids import is_identifier, new_id
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.sdk.connection.log_client import ANSWER_S, LogClient
from trackside.sdk.connection.records import not_forged
from trackside.sdk.definitions.batches import BatchInput, to_command
from trackside.sdk.definitions.instruct import Acknowledgement, instruct
from trackside.sdk.definitions.recorded_steps import recorded_step, resolve_steps
from trackside.sdk.definitions.reference_from_log import reference
from trackside.sdk.pipelines import PipelineInput, start_command


class AsyncClient(LogClient):
    """A client with what batches, runs, models and tasks are asked for by name; made as a LogClient is."""

    async def submit_tasks(self, batch: BatchInput, batch_id: str = "", timeout_s: float = ANSWER_S) -> str:
        """Submits tasks in groups, waits until they are accepted, and returns the id of the batch.

        A mapping has the fields of SubmitTasks. Follow the batch with `wait` or `follow`. Raises
        UnsendableError for an invalid batch, RefusedError if the platform refuses it, and what `publish` and
        `answer` raise.
        """
        return (await self.send(to_command(batch), batch_id or new_id("tasks"), timeout_s)).stream_id

    async def start_run(
        self,
        pipeline: PipelineInput,
        parameters: Mapping[str, Any] | None = None,
        run_id: str = "",
        timeout_s: float = ANSWER_S,
        **fields: Any,
    ) -> str:
        """Starts a run of a pipeline, waits until it is accepted, and returns its id; `wait` for its end.

        A mapping has the fields of a definition, or is a spec file; `fields` are more of StartPipelineRun:
        overrides, seed, use_cache. Raises UnsendableError if either is invalid, and what `send` raises.
        """
        command = start_command(await resolve_steps(self, pipeline), parameters, **fields)
        name = command.pipeline.name if is_identifier(command.pipeline.name) else "run"
        return (await self.send(command, run_id or new_id(name[:32]), timeout_s)).stream_id

    async def instruct(
        self,
        stream_id: str,
        task_id: str,
        body: Mapping[str, Any],
        timeout_s: float = ANSWER_S,
        command_id: str | None = None,
    ) -> Acknowledgement:
        """Returns a task an instruction, and returns what it says of it; see `sdk.instruct`."""
        return await instruct(self, stream_id, task_id, body, timeout_s, command_id)

    async def reference(self, text: str) -> ArtifactReference:
        """Returns the whole reference of a short one, `STREAM/TASK/NAME` or `model:NAME`, as inputs need it.

        Either may have @VERSION, a model also @production or @staging. Raises UnsendableError.
        """
        return await reference(self, text)

    async def recorded_step(self, source: str) -> Json:
        """Returns the fields of a step that is a copy of a task, `STREAM/TASK`; raises UnsendableError."""
        return await recorded_step(lambda stream: aclosing(not_forged(self.events(stream))), source)
