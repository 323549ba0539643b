"""The client for code without an event loop: the same calls, run by an event loop in a thread."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from types import TracebackType
from typing import Any, TypeVar

from trackside.aggregates.model.messages import AddModelVersion
from trackside.contracts.envelope.message import Command, Json, Record
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.streams.stream import Stream
from trackside.sdk.async_client import AsyncClient
from trackside.sdk.connection.publication import Accepted, Pong, PublishedCommand, Refused
from trackside.sdk.definitions.batches import BatchInput
from trackside.sdk.definitions.instruct import Acknowledgement
from trackside.sdk.pipelines import PipelineInput

T = TypeVar("T")


class BlockingClient:
    """A Client whose calls block; may be used from several threads, and inside a notebook."""

    def __init__(self, make: Callable[[], AsyncClient]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="trackside-client", daemon=True)
        self._thread.start()
        self._client = make()

    def __enter__(self) -> "BlockingClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections and ends the thread; may be called again."""
        if self._loop.is_closed():
            return
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def publish(
        self,
        command: Command | Mapping[str, object],
        stream_id: str,
        command_id: str | None = None,
        traceparent: str | None = None,
    ) -> PublishedCommand:
        """Publishes a command, as Client.publish does."""
        return self._run(self._client.publish(command, stream_id, command_id, traceparent))

    def answer(self, publication: PublishedCommand, timeout_s: float = 30.0) -> Accepted | Refused:
        """Waits for the answer to a published command, as Client.answer does."""
        return self._run(self._client.answer(publication, timeout_s))

    def submit_tasks(self, batch: BatchInput, batch_id: str = "", timeout_s: float = 30.0) -> str:
        """Submits tasks in groups and returns the id of the batch, as Client.submit_tasks does."""
        return self._run(self._client.submit_tasks(batch, batch_id, timeout_s))

    def start_run(
        self,
        pipeline: PipelineInput,
        parameters: Mapping[str, Any] | None = None,
        run_id: str = "",
        timeout_s: float = 30.0,
        **fields: Any,
    ) -> str:
        """Starts a run of a pipeline and returns its id, as Client.start_run does."""
        return self._run(self._client.start_run(pipeline, parameters, run_id, timeout_s, **fields))

    def send(
        self, command: Command | Mapping[str, object], stream_id: str, timeout_s: float = 30.0
    ) -> PublishedCommand:
        """Publishes a command and waits until it is accepted, as Client.send does."""
        return self._run(self._client.send(command, stream_id, timeout_s))

    def instruct(
        self, stream_id: str, task_id: str, body: Mapping[str, Any], timeout_s: float = 30.0
    ) -> Acknowledgement:
        """Returns a task an instruction and waits for its answer, as Client.instruct does."""
        return self._run(self._client.instruct(stream_id, task_id, body, timeout_s))

    def model_version(self, source: str, **facts: Any) -> AddModelVersion:
        """Returns the command that adds an artifact to a model, as Client.model_version does."""
        return self._run(self._client.model_version(source, **facts))

    def reference(self, text: str) -> ArtifactReference:
        """Returns the whole reference of a short one, as Client.reference does."""
        return self._run(self._client.reference(text))

    def recorded_step(self, source: str) -> Json:
        """Returns the fields of a step that is a copy of a task, as Client.recorded_step does."""
        return self._run(self._client.recorded_step(source))

    def ping(self, stream_id: str = "ping", timeout_s: float = 30.0) -> Pong:
        """Measures how long an answer takes, as Client.ping does."""
        return self._run(self._client.ping(stream_id, timeout_s))

    def events(
        self, stream_id: str, follow: bool = False, from_offset: int = 0
    ) -> Generator[Record, None, None]:
        """Yields the records of a stream, as Client.events does; close it before the client."""
        return self._iterate(self._client.events(stream_id, follow, from_offset))

    def follow(self, stream_id: str) -> Generator[tuple[Record, Stream], None, None]:
        """Yields the events of a stream that count, as Client.follow does; close it before the client."""
        return self._iterate(self._client.follow(stream_id))

    def wait(self, stream_id: str, timeout_s: float | None = None) -> Stream:
        """Waits until a stream is over, as Client.wait does."""
        return self._run(self._client.wait(stream_id, timeout_s))

    def state(self, stream_id: str) -> Stream | None:
        """Returns the state of a stream, as Client.state does."""
        return self._run(self._client.state(stream_id))

    def fleet(self) -> Fleet:
        """Returns the workers and devices, as Client.fleet does."""
        return self._run(self._client.fleet())

    def _iterate(self, records: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        try:
            while True:
                try:
                    yield self._run(_next(records))
                except StopAsyncIteration:
                    return
        finally:
            self._run(records.aclose())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise


async def _next(records: AsyncGenerator[T, None]) -> T:
    return await anext(records)
