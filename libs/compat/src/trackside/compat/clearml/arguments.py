"""The methods and arguments of ClearML's PipelineController: which are kept, and why others are not."""

import functools
import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn, TypeVar

from trackside.contracts.envelope.message import Json

T = TypeVar("T")
REQUIRED = inspect.Parameter.empty


class NotSupportedError(ValueError):
    """A method or an argument of ClearML's controller that is missing here; the message says what to use."""


class ArgumentSupport(StrEnum):
    """What becomes of a method or an argument. NO_EFFECT: it is accepted, since there is nothing to do."""

    KEPT = "kept"
    CONVERTED = "converted"
    NO_EFFECT = "no effect"
    REFUSED = "refused"


class Argument(NamedTuple):
    """An argument: its default, what becomes of it, and what it is here or why it is refused.

    One that is refused may be given with its default.
    """

    default: Any
    support: ArgumentSupport
    note: str


KEPT, CONVERTED, NO_EFFECT, REFUSED = (
    ArgumentSupport.KEPT,
    ArgumentSupport.CONVERTED,
    ArgumentSupport.NO_EFFECT,
    ArgumentSupport.REFUSED,
)
_CATALOGUE = "workers run what their catalogue.yaml names, and a command never has code"
_NO_CONTROLLER = "no process of its own runs the pipeline"
_NO_PROJECTS = "there are no projects: tasks belong to their run"
_FOLLOW = "follow the events of the run: `client.events(run_id, follow=True)`"
_BEFORE = "use `when` in `step`, or a step that is a gate"
_STORE = "all artifacts are in the store of the installation"
_FUNCTIONS = "there are no function steps"
_RETRY = "`retry.failed` of the steps; a callable is refused: rules and pauses are in `retry`"

CONSTRUCTOR: Mapping[str, Argument] = {
    "name": Argument("", KEPT, "`name`"),
    "project": Argument("", CONVERTED, "`description`"),
    "version": Argument(None, CONVERTED, "`description`"),
    "pool_frequency": Argument(0.2, NO_EFFECT, "nothing polls"),
    "add_pipeline_tags": Argument(False, NO_EFFECT, "the id of a task begins with that of its run"),
    "target_project": Argument(True, NO_EFFECT, _NO_PROJECTS),
    "auto_version_bump": Argument(None, NO_EFFECT, "versions are known by the digest of the definition"),
    "abort_on_failure": Argument(False, CONVERTED, "`on_end`"),
    "add_run_number": Argument(True, NO_EFFECT, "the runs of a defined pipeline are numbered"),
    "retry_on_failure": Argument(None, CONVERTED, _RETRY),
    "docker": Argument(None, NO_EFFECT, _NO_CONTROLLER),
    "docker_args": Argument(None, NO_EFFECT, _NO_CONTROLLER),
    "docker_bash_setup_script": Argument(None, NO_EFFECT, _NO_CONTROLLER),
    "packages": Argument(None, NO_EFFECT, _NO_CONTROLLER),
    "repo": Argument(None, NO_EFFECT, _NO_CONTROLLER),
    "repo_branch": Argument(None, NO_EFFECT, _NO_CONTROLLER),
    "repo_commit": Argument(None, NO_EFFECT, _NO_CONTROLLER),
    "always_create_from_code": Argument(True, REFUSED, "a definition is never read back from a task"),
    "artifact_serialization_function": Argument(None, REFUSED, _FUNCTIONS),
    "artifact_deserialization_function": Argument(None, REFUSED, _FUNCTIONS),
    "output_uri": Argument(None, REFUSED, _STORE),
    "skip_global_imports": Argument(False, NO_EFFECT, _FUNCTIONS),
    "working_dir": Argument(None, NO_EFFECT, _NO_CONTROLLER),
    "enable_local_imports": Argument(True, NO_EFFECT, _FUNCTIONS),
}
ADD_STEP: Mapping[str, Argument] = {
    "name": Argument(REQUIRED, KEPT, "`name`"),
    "base_task_id": Argument(
        None, CONVERTED, "`task_type`, by the table `task_types`; or a recorded task, STREAM/TASK"
    ),
    "parents": Argument(None, CONVERTED, "`needs`"),
    "parameter_override": Argument(None, CONVERTED, "`parameters`, without the name of the section"),
    "configuration_overrides": Argument(None, REFUSED, "there are no configuration objects: use parameters"),
    "task_overrides": Argument(None, REFUSED, _CATALOGUE),
    "execution_queue": Argument(None, KEPT, "`queue`"),
    "monitor_metrics": Argument(None, CONVERTED, "`mirror.metrics`"),
    "monitor_artifacts": Argument(None, CONVERTED, "`mirror.artifacts`"),
    "monitor_models": Argument(None, CONVERTED, "`mirror.models`"),
    "time_limit": Argument(None, KEPT, "`run_timeout_s`: seconds"),
    "base_task_project": Argument(None, CONVERTED, "`task_type`, by the table `task_types`"),
    "base_task_name": Argument(None, CONVERTED, "`task_type`, by the table `task_types`"),
    "clone_base_task": Argument(True, REFUSED, "each run of a step is a task of its own"),
    "continue_on_fail": Argument(False, CONVERTED, "`on_end`"),
    "pre_execute_callback": Argument(None, REFUSED, _BEFORE),
    "post_execute_callback": Argument(None, REFUSED, _FOLLOW),
    "cache_executed_step": Argument(False, KEPT, "`cache`"),
    "base_task_factory": Argument(None, REFUSED, _CATALOGUE),
    "retry_on_failure": Argument(None, CONVERTED, _RETRY),
    "status_change_callback": Argument(None, REFUSED, _FOLLOW),
    "recursively_parse_parameters": Argument(False, NO_EFFECT, "references are found at any depth"),
    "output_uri": Argument(None, REFUSED, _STORE),
    "continue_behaviour": Argument(None, CONVERTED, "`on_end`"),
    "stage": Argument(None, KEPT, "`stage`"),
}
START: Mapping[str, Argument] = {
    "queue": Argument("services", NO_EFFECT, _NO_CONTROLLER),
    "step_task_created_callback": Argument(None, REFUSED, _BEFORE),
    "step_task_completed_callback": Argument(None, REFUSED, _FOLLOW),
    "wait": Argument(True, KEPT, "waits for the end of the run"),
}
START_LOCALLY: Mapping[str, Argument] = {
    "run_pipeline_steps_locally": Argument(
        False, NO_EFFECT, "steps run on workers; `trackside up` starts one here"
    ),
}
GET: Mapping[str, Argument] = {
    "pipeline_id": Argument(None, KEPT, "the id of a run"),
    "pipeline_project": Argument(None, NO_EFFECT, "there are no projects: names are unique"),
    "pipeline_name": Argument(None, KEPT, "the name of a defined pipeline: its newest run is taken"),
    "pipeline_version": Argument(None, CONVERTED, "one of ours, 1, 2 and so on: its newest run is taken"),
    "pipeline_tags": Argument(None, REFUSED, "`trackside ls` lists runs; take the id of one"),
    "shallow_search": Argument(False, NO_EFFECT, "nothing is searched"),
}
ENQUEUE: Mapping[str, Argument] = {
    "pipeline_controller": Argument(REQUIRED, KEPT, "a controller, or the name of a defined pipeline"),
    "queue_name": Argument(None, NO_EFFECT, _NO_CONTROLLER),
    "queue_id": Argument(None, NO_EFFECT, _NO_CONTROLLER),
    "force": Argument(False, NO_EFFECT, "each run is a new one"),
}
FIRST_RELEASE: Mapping[str, Argument] = {
    "default_execution_queue": Argument(None, KEPT, "`queue` of steps that have none"),
    "pipeline_time_limit": Argument(None, CONVERTED, "`timeout_s`: minutes there, seconds here"),
    "auto_connect_task": Argument(True, NO_EFFECT, _NO_CONTROLLER),
    "always_create_task": Argument(False, NO_EFFECT, _NO_CONTROLLER),
}
"""Arguments that only the constructor of the first releases had, by name."""
_START_FIRST = {"run_remotely": Argument(False, NO_EFFECT, _NO_CONTROLLER)}
_OWN_CONSTRUCTOR = {
    "task_types": Argument(None, KEPT, "the table of base tasks: a mapping, or a YAML file with one"),
    "connect": Argument(None, KEPT, "makes the client; by default it is found as by the command line"),
}
_OWN_START = {"parameters": Argument(None, KEPT, "values of the parameters of the pipeline")}
REFUSED_METHODS: Mapping[str, str] = {
    "add_function_step": "nothing is pickled: make the function a task class, name it in a worker's "
    "catalogue.yaml, and add a step of that task type",
    "get_logger": "metrics belong to tasks: use `trial.metric` in the task, and `monitor_metrics`",
    "upload_model": "models are saved by tasks: `trial.save(name, path, kind='model')`",
    "upload_artifact": "artifacts are saved by tasks: `trial.save(name, path)`, or `trackside artifacts put`",
    "task": "a run has no task: `id` is its id, and the events of its stream are its record",
    "create": f"{_CATALOGUE}; build a pipeline with this class, in Python or in YAML",
    "clone": "a definition is a file: start it again, or copy a run with `trackside replay fork`",
}
"""Methods that raise NotSupportedError, each with what to use."""
METHODS: Mapping[str, tuple[Mapping[str, Argument], Mapping[str, Argument]]] = {
    "__init__": (CONSTRUCTOR, {**FIRST_RELEASE, **_OWN_CONSTRUCTOR}),
    "add_step": (ADD_STEP, {"step": Argument(None, KEPT, "further fields of a step of ours")}),
    "start": (START, {**_START_FIRST, **_OWN_START}),
    "start_locally": (START_LOCALLY, _OWN_START),
    "enqueue": (ENQUEUE, {"connect": _OWN_CONSTRUCTOR["connect"]}),
    "get": (GET, {"connect": _OWN_CONSTRUCTOR["connect"]}),
}
"""The arguments of the original, in its order, and those that are only given by name."""


def with_arguments_of(method: str) -> Callable[[Callable[[Any, Json], T]], Callable[..., T]]:
    """Makes a method take the arguments of one of the original, and hands them on as one mapping."""
    signature = _signature(method)

    def decorate(function: Callable[[Any, Json], T]) -> Callable[..., T]:
        @functools.wraps(function)
        def taking(self: Any, *given: Any, **named: Any) -> T:
            return function(self, _bound(method, signature, given, named))

        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        shown = signature.replace(parameters=[own, *signature.parameters.values()])
        taking.__signature__ = shown  # type: ignore[attr-defined]  # what help() and editors show
        return taking

    return decorate


def _signature(method: str) -> inspect.Signature:
    ordered, named = METHODS[method]
    kinds = ((ordered, inspect.Parameter.POSITIONAL_OR_KEYWORD), (named, inspect.Parameter.KEYWORD_ONLY))
    return inspect.Signature(
        [
            inspect.Parameter(name, kind, default=argument.default)
            for arguments, kind in kinds
            for name, argument in arguments.items()
        ]
    )


def _bound(method: str, signature: inspect.Signature, given: tuple[Any, ...], named: Json) -> Json:
    bound = signature.bind(*given, **named)
    bound.apply_defaults()
    ordered, by_name = METHODS[method]
    for name, argument in (*ordered.items(), *by_name.items()):
        value = bound.arguments[name]
        # None and False leave a feature out, whatever its default is
        if argument.support is REFUSED and value != argument.default and (argument.default or value):
            raise NotSupportedError(f"{method}: {name} is not supported: {argument.note}")
    return dict(bound.arguments)


def refused(method: str) -> Callable[..., NoReturn]:
    """Returns a method that says why there is no such method, and what to use."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotSupportedError(f"{method} is not supported: {REFUSED_METHODS[method]}")

    refuse.__name__ = method
    refuse.__doc__ = f"Raises NotSupportedError: {REFUSED_METHODS[method]}."
    return refuse
