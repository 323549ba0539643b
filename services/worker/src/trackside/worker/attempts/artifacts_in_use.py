"""What an attempt uses of the cache of the host: its inputs, and what its task fetches while it runs."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trackside.artifacts.cache import CacheLease
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.worker.artifacts.inputs import InputCache, release
from trackside.worker.artifacts.store_client import StoreError
from trackside.worker.attempts.conversation import Conversation
from trackside.worker.messages.process_messages import ArtifactReleased, FetchAnswer, FetchRequest, encode
from trackside.worker.reporting.reporter import Reporter

_Key = tuple[str, int, str]


class ArtifactsInUse:
    """Fetches artifacts, and holds them in the cache until the task releases them, or the attempt ends.

    `write` sends octets to its process. A service that waits for one need give no sign of life.
    """

    def __init__(
        self,
        cache: InputCache,
        reporter: Reporter,
        conversation: Conversation,
        write: Callable[[bytes], None],
    ) -> None:
        self._cache = cache
        self._reporter = reporter
        self._conversation = conversation
        self._write = write
        self._inputs: asyncio.Task[Any] | None = None
        self._leases: list[CacheLease] = []
        self._fetched: dict[_Key, CacheLease] = {}
        self._answering: set[asyncio.Task[None]] = set()

    async def fetch_inputs(self, inputs: Mapping[str, ArtifactReference], folder: Path) -> None:
        """Fetches inputs into a new folder; StoreError, an OSError; CancelledError after `cancel_inputs`."""
        fetching = self._inputs = asyncio.create_task(self._cache.lease_all(inputs, folder, self._tell))
        self._leases += await fetching

    async def missing(self, wanted: Json) -> Json:
        """Returns which artifacts the store lacks; errors as those of `fetch_inputs`."""
        looking: asyncio.Task[Json]
        looking = self._inputs = asyncio.create_task(self._cache.store.request("missing", wanted))
        return await looking

    def cancel_inputs(self) -> None:
        """Fetches no further inputs, and looks for none."""
        if self._inputs is not None:
            self._inputs.cancel()

    def handle(self, message: FetchRequest | ArtifactReleased) -> None:
        """Answers a request of the task, or releases what it no longer uses."""
        self._begin(self._answer(message) if isinstance(message, FetchRequest) else self._release(message))

    def hold_inputs(self, inputs: Mapping[str, ArtifactReference]) -> None:
        """Holds inputs that an earlier worker has fetched."""
        for reference in inputs.values():
            self._begin(self._hold(reference))

    def hold_again(self, message: FetchRequest) -> None:
        """Holds what an earlier worker has fetched for the task."""
        with suppress(ValidationError):  # then it was refused
            self._begin(self._hold(ArtifactReference.model_validate(message.reference)))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        answering = asyncio.create_task(work)
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)

    async def _hold(self, reference: ArtifactReference) -> None:
        with suppress(StoreError):  # the task may have read all of it already
            await self._path(reference)

    async def close(self) -> None:
        """Ends what is under way, and lets the cache remove what was held: the process is gone."""
        for answering in self._answering:
            answering.cancel()
        await release([*self._leases, *self._fetched.values()])

    async def _answer(self, message: FetchRequest) -> None:
        with self._conversation.waiting():
            try:
                path = await self._path(ArtifactReference.model_validate(message.reference))
                answer = FetchAnswer(message.request, str(path))
            except ValidationError as error:
                answer = FetchAnswer(message.request, code="bad_artifact", problem=_wrong(error))
            except StoreError as error:
                answer = FetchAnswer(message.request, code=error.code, problem=str(error))
        self._write(encode(answer))

    async def _path(self, reference: ArtifactReference) -> Path:
        key = _key_of(reference)
        if key not in self._fetched:
            lease = await self._cache.lease(reference.source or "the artifact", reference, self._tell)
            if key in self._fetched:  # by another thread of the task meanwhile
                await release([lease])
            else:
                self._fetched[key] = lease
        return self._fetched[key].path

    async def _release(self, message: ArtifactReleased) -> None:
        with suppress(ValidationError):  # nothing was fetched by such a reference
            lease = self._fetched.pop(_key_of(ArtifactReference.model_validate(message.reference)), None)
            if lease is not None:
                await release([lease])

    def _tell(self, sentence: str) -> None:
        self._reporter.output("stderr", [sentence])


def _key_of(reference: ArtifactReference) -> _Key:
    return reference.sha256, reference.size_bytes, reference.media_type


def _wrong(error: ValidationError) -> str:
    """Returns what is wrong with a reference, without repeating what it has."""
    fields = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    return f"expected the reference of an artifact, with uri, sha256 and size_bytes: {fields}"
