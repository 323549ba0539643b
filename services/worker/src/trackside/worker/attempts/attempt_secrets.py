"""The secrets of one attempt: resolved before its process gets its task, and masked in what comes back."""

import asyncio
from collections.abc import Collection

from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.secret_references import references_in, resolve
from trackside.worker.attempts.outcome import Ending, start_error
from trackside.worker.attempts.secret_source import SecretMissingError, SecretSource
from trackside.worker.attempts.spec import AttemptSpec
from trackside.worker.messages.assignment import Assignment
from trackside.worker.messages.process_messages import ParametersAnswer
from trackside.worker.secret_mask import SecretMask


class AttemptSecrets:
    """What the parameters and the environment of an attempt refer to; `mask` masks the values."""

    def __init__(self, source: SecretSource, spec: AttemptSpec) -> None:
        self.mask = SecretMask()
        self._source = source
        self._parameters = spec.parameters
        self._variables = spec.task_type.secret_environment
        self._values: dict[str, str] = {}
        self._resolving: asyncio.Task[Ending | None] | None = None
        self._is_cancelled = False

    async def resolve(self) -> Ending | None:
        """Resolves all of them; returns how the attempt ends if one is missing, None also after `cancel`."""
        names = {name for _, name in (*references_in(self._parameters), *self._variables)}
        if not names:
            return None
        self._resolving = asyncio.create_task(self._resolve(names))
        try:
            return await self._resolving
        except asyncio.CancelledError:
            if not self._is_cancelled:
                raise
            return None

    def cancel(self) -> None:
        """Resolves no more: the attempt ends."""
        self._is_cancelled = True
        if self._resolving is not None:
            self._resolving.cancel()

    async def _resolve(self, names: Collection[str]) -> Ending | None:
        try:
            for name in sorted(names):
                self._values[name] = await self._source.value(name)
        except SecretMissingError as error:
            return start_error("secret_missing", str(error))
        self.mask = await asyncio.to_thread(SecretMask, self._values.values())
        return None

    def given(self, assignment: Assignment) -> Assignment:
        """Returns the assignment with the values; the process ends with its task."""
        if not self._values:
            return assignment
        variables = {variable: self._values[name] for variable, name in self._variables}
        return assignment._replace(
            parameters=resolve(assignment.parameters, self._values.__getitem__),
            environment=assignment.environment | variables,
            secrets=list(self._values.values()),
            max_tasks=None,
        )

    def answer(self, request: int, parameters: Json | None, problem: str) -> ParametersAnswer:
        """Returns the answer with another trial's parameters; they may refer to what the first ones did."""
        unknown = {name for _, name in references_in(parameters)} - set(self._values)
        if unknown and not problem:
            problem = f"secret_missing: {min(unknown)}: the task did not begin with this secret"
        return ParametersAnswer(
            request, resolve(parameters, lambda name: self._values.get(name, "")), problem
        )
