"""The definition of a pipeline, as publishers write it and as its runs keep it.

A *template* is JSON whose texts may hold references, such as `${prepare.result.rows}`. `compile_pipeline`
parses each once; a compiled definition has the parsed trees of `references` in the same fields.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import Json, is_absent
from trackside.contracts.tasks.resources import (
    KeepCheckpoints,
    Needs,
    Priority,
    Resources,
    RetryPolicy,
    Timeout,
)

STEP = "step"
"""The kind of part that the tasks of a run are for: its number is the index, its name that of the step."""
CACHE = "cache"
"""The kind of part of tasks that check the artifacts of a step in the cache; its name is the step's."""
MAX_STEPS = 10_000
MAX_ITEMS = 10_000
"""How many items a step may have with `each`, and how often one may be repeated."""
RESERVED = ("pipeline", "steps", "run", "item", "index")
"""Names that references and expressions use themselves, so no step can have them."""
KEEP_DAYS = 30
TASK, CHILD, GATE = "task", "child", "gate"
"""What a step can be."""
TEMPLATES = ("parameters", "inputs", "queue", "each", "spec")
"""The fields of a step in which references are filled in."""
Template = Any
"""JSON in which texts may hold references."""


def checked_step_name(text: str) -> str:
    """Returns the name of a step; raises bad_step_name for one with a dot, or with a meaning of its own."""
    if "." in text or text in RESERVED:
        raise PydanticCustomError(
            "bad_step_name",
            "{name} can't be the name of a step: expected one without a dot that is none of {reserved}",
            {"name": repr(text), "reserved": ", ".join(RESERVED)},
        )
    return text


StepName = Annotated[Identifier, AfterValidator(checked_step_name)]


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


_Absent = Field(default=None, exclude_if=is_absent)
_None = Field(default=None, exclude_if=lambda value: value is None)
_Empty = Field(default="", exclude_if=is_absent)
_Steps = Annotated[list[StepName], Field(max_length=MAX_STEPS, exclude_if=is_absent)]


class StepNeeds(_Spec):
    """The steps that a step waits for.

    All of `all` must have succeeded, at least one of `any_of`, and all of `all_ended` must have ended in
    any way. What is skipped, or ends in another way than the step needs, makes it omitted.
    """

    all: _Steps = Field(default_factory=list)
    any_of: _Steps = Field(default_factory=list)
    all_ended: _Steps = Field(default_factory=list)


def _from_list(given: object) -> object:
    if isinstance(given, str):
        # One name without brackets is a common slip, and "expected an object" would not help with it.
        raise PydanticCustomError(
            "wrong_type",
            "expected a list of steps, such as [{name}], or an object with all, any_of or all_ended",
            {"name": given},
        )
    return {"all": given} if isinstance(given, list) else given


def _checked_inputs(given: object) -> object:
    if isinstance(given, str | list):
        # Other systems call the steps that a step waits for its inputs.
        raise PydanticCustomError(
            "wrong_type",
            "did you mean 'needs'? inputs are artifacts: "
            "expected an object such as {data: ${STEP.artifacts.data}}",
        )
    return given


StepNeedsRule = Annotated[
    StepNeeds, BeforeValidator(_from_list, json_schema_input_type=list[str] | StepNeeds)
]
"""A list stands for `all`."""

_Inputs = Annotated[dict[Identifier, Template], Field(max_length=100)]
StepInputs = Annotated[_Inputs, BeforeValidator(_checked_inputs, json_schema_input_type=_Inputs)]

EndAction = Literal["continue", "skip", "fail"]
"""What follows when a step has not succeeded: the run continues as if it had; its descendants are omitted
and the run fails in the end; or the whole run is stopped and fails now.
"""


class OnEnd(_Spec):
    """What follows when a step ends without success."""

    failed: EndAction = "skip"
    aborted: EndAction = "skip"
    timed_out: EndAction = "skip"
    lost: EndAction = "skip"


def _for_all_ends(given: object) -> object:
    return dict.fromkeys(OnEnd.model_fields, given) if isinstance(given, str) else given


OnEndRule = Annotated[OnEnd, BeforeValidator(_for_all_ends, json_schema_input_type=EndAction | OnEnd)]
"""One word stands for all ends."""


class RecordedTask(_Spec):
    """The task that a step was copied from: type, parameters and needs as the log has them at `offset`."""

    stream: Identifier
    task: Identifier
    offset: int = Field(ge=0, le=2**63 - 1)


class GateSpec(_Spec):
    """A step that waits for a person: approved with the `form` filled in, rejected, or expired.

    `form` has a JSON Schema for each field, with `default` for one that may be left out.
    """

    message: str = Field(default="", max_length=10_000, exclude_if=is_absent)
    form: dict[Identifier, Json] = Field(default={}, max_length=100, exclude_if=is_absent)
    timeout_s: Timeout | None = _Absent


class StepRepeat(_Spec):
    """A step that runs again until an expression over its last `result` holds, at most `times` times."""

    until: str = Field(min_length=1)
    times: int = Field(ge=1, le=MAX_ITEMS)


class StepCache(_Spec):
    """A step that need not run if an earlier run has the same: not older than `max_age_s`.

    With `refresh` it runs in any case, and later runs find its result.
    """

    max_age_s: Timeout | None = _Absent
    refresh: bool = Field(default=False, exclude_if=lambda value: value is False)


def _from_flag(given: object) -> object:
    return ({} if given else None) if isinstance(given, bool) else given


StepCacheRule = Annotated[
    StepCache | None, BeforeValidator(_from_flag, json_schema_input_type=bool | StepCache | None)
]
_Names = Annotated[dict[str, Identifier], Field(max_length=100, exclude_if=is_absent)]


class StepMirror(_Spec):
    """What of a step the run shows as its own, each under a name: metrics, artifacts and models.

    The last character of a name may be `*`: the run has what matches under its own names.
    """

    metrics: _Names = Field(default_factory=dict)
    artifacts: _Names = Field(default_factory=dict)
    models: _Names = Field(default_factory=dict)


OWN_NEEDS = (
    "priority",
    "preempt",
    "exclusive",
    "resources",
    "retry",
    "queue_timeout_s",
    "run_timeout_s",
    "resume",
    "keep_checkpoints",
    "preemptible",
)
"""What of its needs a step may say itself, besides its queue; the rest is the pipeline's."""


def _is_empty(fields: _Spec) -> bool:
    """Returns whether all fields are empty; to compare with a model that is takes ten times as long."""
    return not any(vars(fields).values())


class StepSpec(_Spec):
    """A step: a task (`task_type`), a stream of another kind (`kind` and `spec`), or a gate.

    Templates are `parameters`, `inputs`, `queue`, `each` and `spec`, except the `pipeline` in the spec of a
    run; expressions are `when`, `collect` and `repeat.until`. With `each` it has one task or child for each
    item, `at_once` at the same time. It counts for the progress of its run with its `weight`.
    """

    # Factories: pydantic copies a default that has no hash deeply, which takes longer than all the rest.
    name: StepName
    task_type: str | None = Field(default=None, min_length=1, max_length=200, exclude_if=is_absent)
    recorded: RecordedTask | None = _Absent
    kind: str | None = Field(default=None, min_length=1, max_length=200, exclude_if=is_absent)
    spec: Template = _None
    gate: GateSpec | None = _Absent
    needs: StepNeedsRule = Field(default_factory=StepNeeds, exclude_if=_is_empty)
    parameters: Json = Field(default_factory=dict, exclude_if=is_absent)
    inputs: StepInputs = Field(default_factory=dict, exclude_if=is_absent)
    queue: Annotated[str, Field(min_length=1, max_length=1_000)] | dict[str, Any] | None = _None
    priority: Priority | None = _Absent
    preempt: bool | None = _Absent
    exclusive: bool | None = _Absent
    resources: Resources | None = _Absent
    retry: RetryPolicy | None = _Absent
    queue_timeout_s: Timeout | None = _Absent
    run_timeout_s: Timeout | None = _Absent
    resume: bool | None = _Absent
    keep_checkpoints: KeepCheckpoints | None = _Absent
    preemptible: bool | None = _Absent
    when: str = _Empty
    on_end: OnEndRule | None = _Absent
    each: Template = _None
    at_once: int | None = Field(default=None, ge=1, le=MAX_ITEMS, exclude_if=is_absent)
    collect: str = _Empty
    repeat: StepRepeat | None = _Absent
    cache: StepCacheRule = _Absent
    mirror: StepMirror = Field(default_factory=StepMirror, exclude_if=_is_empty)
    stage: str = Field(default="", max_length=200, exclude_if=is_absent)
    weight: float = Field(default=1.0, gt=0, le=1e6, allow_inf_nan=False, exclude_if=(1.0).__eq__)


class PipelineSpec(_Spec):
    """Everything that defines a pipeline. `parameters` has a JSON Schema for each, with `default`.

    `defaults` are the needs of tasks whose steps don't give their own. At most `concurrency` tasks and
    children are open. A run is stopped after `timeout_s`, and can be continued for `keep_days` after its end.
    `outputs` are templates: what a run has found, for those who started it.
    """

    name: str = Field(default="", max_length=200, exclude_if=is_absent)
    description: str = Field(default="", max_length=10_000, exclude_if=is_absent)
    parameters: dict[Identifier, Json] = Field(default={}, max_length=1_000, exclude_if=is_absent)
    steps: Annotated[list[StepSpec], Field(min_length=1, max_length=MAX_STEPS)]
    defaults: Needs = Field(default=Needs(), exclude_if=Needs().__eq__)
    concurrency: int = Field(default=MAX_ITEMS, ge=1, le=MAX_ITEMS, exclude_if=MAX_ITEMS.__eq__)
    timeout_s: Timeout | None = _Absent
    on_end: OnEndRule = Field(default=OnEnd(), exclude_if=OnEnd().__eq__)
    keep_days: float = Field(
        default=KEEP_DAYS, ge=0, le=3_650, allow_inf_nan=False, exclude_if=float(KEEP_DAYS).__eq__
    )
    outputs: dict[Identifier, Template] = Field(default={}, max_length=1_000, exclude_if=is_absent)


def kind_of(step: StepSpec) -> str:
    """Returns what a step is: task, child or gate."""
    return GATE if step.gate is not None else CHILD if step.kind is not None else TASK


def templates_of(step: StepSpec) -> Iterator[tuple[str, Template]]:
    """Yields the templates that a step has, with their names."""
    for name in TEMPLATES:
        if (tree := getattr(step, name)) is not None:
            yield name, tree


def needs_of(pipeline: PipelineSpec, step: StepSpec, queue: str | None) -> Needs:
    """Returns what the tasks of a step ask for; `queue` is its own, with references resolved."""
    own: dict[str, Any] = {name: value for name in OWN_NEEDS if (value := getattr(step, name)) is not None}
    if queue is not None:
        own["queue"] = queue
    return Needs(**{name: getattr(pipeline.defaults, name) for name in Needs.model_fields} | own)


def action_after(pipeline: PipelineSpec, step: StepSpec, state: str) -> EndAction:
    """Returns what follows when a step ends in a state that is no success."""
    rule = step.on_end or pipeline.on_end
    found: Mapping[str, EndAction] = {name: getattr(rule, name) for name in OnEnd.model_fields}
    return found.get(state, "skip")
