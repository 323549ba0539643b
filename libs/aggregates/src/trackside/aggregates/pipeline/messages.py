"""Pipelines that are defined: versions by their content, and numbered runs of them."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from trackside.contracts.envelope.message import DISPATCHER, Command, Event, Json, is_absent
from trackside.domain.pipelines.definition import MAX_STEPS, PipelineSpec, StepName

RUN = "run"
"""The kind of aggregate that a run is."""
START_RUN = "StartPipelineRun"
MAX_PIPELINE_VERSIONS = 1_000
"""How many versions a pipeline may have."""
MAX_DEFINITION_BYTES = 4 * 2**20
"""How long all versions of a pipeline may be as JSON together: each may be run again, so all are kept."""
MAX_QUEUED_RUNS = 1_000
"""How many runs of a pipeline may wait for their turn."""
MAX_QUEUED_BYTES = 4 * 2**20
"""How long the parameters of the runs that wait may be as JSON together."""
DEFAULT_MAX_RUNS = 16
MOST_RUN_DIGITS = 9

_Reason = Annotated[str, Field(max_length=1_000)]
RunNumber = Annotated[int, Field(ge=1, le=2**53)]
Overrides = Annotated[dict[StepName, Json], Field(max_length=MAX_STEPS)]
"""Patches of single steps, as the command that starts a run has them."""


class PipelineStatus(StrEnum):
    """The states of a pipeline; one that is retired has no more runs until it is defined again."""

    ACTIVE = "ACTIVE"
    RETIRED = "RETIRED"


class DefinePipeline(Command):
    """Asks for a definition to be the current one, of the pipeline named by the stream id of the command.

    One that was never given is a new version. The current one changes nothing; that of an earlier version
    makes this version current again. At most `max_runs` runs are open, 16 if none ever said otherwise.
    """

    pipeline: PipelineSpec
    max_runs: int | None = Field(default=None, ge=1, le=1_000)


class RetirePipeline(Command):
    """Asks that a pipeline has no more runs, until it is defined again; those that wait are cancelled."""

    reason: _Reason = ""


class RunPipeline(Command):
    """Asks for the next run of a pipeline, of its current version or another one.

    `overrides` patch single steps of this run. It begins when there is room for one more run.
    """

    version: int | None = Field(default=None, ge=1, le=MAX_PIPELINE_VERSIONS)
    parameters: Json = Field(default={})
    overrides: Overrides = Field(default={})
    seed: int = Field(default=0, ge=0, le=2**53)
    use_cache: bool = Field(default=True)


class CancelPipelineRuns(Command):
    """Asks for the end of one run of a pipeline, or of all: those that wait, and those that are open."""

    number: RunNumber | None = None
    reason: _Reason = ""


class PipelineDefined(Event):
    """This definition is the current one of a pipeline, and this is its version, counted from 1.

    `pipeline` is as it was given, `sha256` the digest of it as canonical JSON (RFC 8785). `change` counts
    what was changed of a pipeline from 1, in all events but those of runs.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    version: int
    sha256: str
    pipeline: PipelineSpec
    max_runs: int


class PipelineRetired(Event):
    """A pipeline has no more runs until it is defined again; those that waited are cancelled."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    reason: str = ""


class RunNumbered(Event):
    """A pipeline is to have one more run: `number` counts its runs from 1, `run` is the id of its stream.

    It begins as a child of this stream, in the order of the numbers, when there is room. It is of a
    `schedule`, with `alone` it waits until no other run of that is open. `schedules` are all that led to it.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str = Field(default="", exclude_if=is_absent)
    number: int
    run: str
    version: int
    parameters: Json = Field(default={}, exclude_if=is_absent)
    overrides: dict[str, Json] = Field(default={}, exclude_if=is_absent)
    seed: int = 0
    use_cache: bool = True
    schedule: str = Field(default="", exclude_if=is_absent)
    alone: bool = Field(default=False, exclude_if=lambda value: value is False)
    schedules: list[str] = Field(default=[], exclude_if=is_absent)


class RunCancelled(Event):
    """A run that waited for its turn doesn't begin."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    number: int
    reason: str = ""


def run_id(pipeline_id: str, number: int) -> str:
    """Returns the id of the stream of a run: the pipeline, a dot and the number of the run."""
    return f"{pipeline_id}.{number}"


def run_number(pipeline_id: str, child_id: str) -> int | None:
    """Returns the number of the run that a stream id is of; None if it is of no run of the pipeline."""
    digits = child_id.removeprefix(f"{pipeline_id}.")
    is_number = digits != child_id and digits.isascii() and digits.isdecimal() and not digits.startswith("0")
    return int(digits) if is_number and len(digits) <= MOST_RUN_DIGITS else None
