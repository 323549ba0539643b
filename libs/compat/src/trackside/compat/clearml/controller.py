"""ClearML's PipelineController: the log is the state of its run, and no process waits for steps."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from trackside.aggregates.run.messages import AbortPipelineRun, RunStatus
from trackside.aggregates.run.state import Run, run_of
from trackside.aggregates.run.step_messages import FAILURES
from trackside.compat.clearml.arguments import refused, with_arguments_of
from trackside.compat.clearml.conversion import (
    PipelineNode,
    convert_monitors,
    convert_parameters,
    convert_references,
    convert_retries,
    end_rules,
    guard,
    identifier,
    parameter_schema,
)
from trackside.compat.clearml.nodes import STATUS_OF_STEP, current_node, recorded_node
from trackside.compat.clearml.task_table import key_of, look_up, read_table
from trackside.contracts.envelope.message import Json
from trackside.domain.pipelines.compiling import source_of
from trackside.domain.pipelines.references import PIPELINE
from trackside.eventlog.clock import now_ms
from trackside.sdk.blocking import BlockingClient
from trackside.sdk.errors import ClientError, NotOverError, RefusedError, UnsendableError
from trackside.sdk.named_pipelines import NamedPipeline
from trackside.sdk.pipeline_runs import connected
from trackside.sdk.pipelines import Pipeline, start_command

T = TypeVar("T")
_SUCCESSES = {
    "all": {"completed"},
    "failed": {"completed", "aborted"},
    "aborted": {"completed", "failed"},
}
"""What counts as a success, by `fail_condition`."""
_STATUS_OF_RUN = {
    RunStatus.SUCCEEDED: "completed",
    RunStatus.ABORTED: "aborted",
    RunStatus.FAILED: "failed",
    RunStatus.TIMED_OUT: "failed",
}
_OTHER_STEPS = {"task_type", "kind", "gate"}
"""The fields of a step that needs no base task."""
_SECONDS = 60.0


class PipelineController:
    """A pipeline of steps that are copies of base tasks; `task_types` says which task type each one is here.

    It has the methods, arguments and units of ClearML's class: limits of a pipeline and of waiting are in
    minutes, those of steps in seconds. What there is not raises NotSupportedError, a ValueError, with what to
    use. Values of a run come from the log, so they are right in any process, also after a restart.
    """

    Node = PipelineNode

    @with_arguments_of("__init__")
    def __init__(self, given: Json) -> None:
        """Makes a pipeline; nothing is sent before `start`."""
        self._given = given
        self._table = read_table(given["task_types"])
        self._connect: Callable[[], BlockingClient] = given["connect"] or connected
        self._nodes: dict[str, PipelineNode] = {}
        self._parameters: dict[str, Json] = {}
        self._values: Json = {}
        self._tags: list[str] = []
        self._run_id = ""
        self.set_default_execution_queue(given["default_execution_queue"])
        self.set_pipeline_execution_time_limit(given["pipeline_time_limit"])
        self._retry = convert_retries(given["retry_on_failure"], "PipelineController")

    @classmethod
    @with_arguments_of("get")
    def get(cls, given: Json) -> "PipelineController":
        """Returns a controller of a run that was started before; raises ValueError if there is none.

        It is known by its id, or is the newest of a defined pipeline, or of one version of that.
        """
        found: PipelineController = cls(connect=given["connect"])
        found._run_id = given["pipeline_id"] or _newest_run(given)
        run = found._run()
        if run is None:
            raise ValueError(f"expected the id of a run that has begun, got {found._run_id!r}")
        found._values, found._given["name"] = run.parameters, run.spec.name
        return found

    @with_arguments_of("add_step")
    def add_step(self, given: Json) -> bool:
        """Adds a step and returns True. Raises ValueError for a name that is taken, or an unknown base task.

        A base task id that the table does not have may be a recorded task, STREAM/TASK.
        `step` has further fields of a step of ours, such as inputs, when, each, or retry. With a task_type, a
        kind and spec, or a gate it has no base task.
        """
        name = given["name"]
        if self._run_id:
            raise ValueError(f"the pipeline has been started, as {self._run_id}: no steps can be added")
        if name in self._nodes:
            raise ValueError(f"there is a step {name!r} already; each needs a name of its own")
        if name == PIPELINE:
            raise ValueError(f"{name!r} can't be the name of a step: references use it for the pipeline")
        more = dict(given["step"] or {})
        base = {} if _OTHER_STEPS & more.keys() else self._base_task(given)
        rule, guarded = end_rules(given, bool(self._given["abort_on_failure"]))
        own = {
            "parameters": {
                **base.get("parameters", {}),
                **convert_parameters(name, given["parameter_override"] or {}),
                **more.pop("parameters", {}),
            }
            or None,
            "run_timeout_s": given["time_limit"] or None,
            "retry": convert_retries(given["retry_on_failure"], f"step {name!r}") or self._retry,
            "on_end": None if set(rule.values()) == {"skip"} else rule,
            "cache": True if given["cache_executed_step"] else None,
            "mirror": convert_monitors(name, given) or None,
            "stage": given["stage"] or None,
            "queue": convert_references(given["execution_queue"]) or base.get("queue"),
        }
        fields = {key: value for key, value in {**own, **more}.items() if value is not None}
        self._nodes[name] = PipelineNode(
            name=name,
            base_task_id=key_of(given) if base else None,
            queue=given["execution_queue"],
            parents=list(given["parents"] or ()),
            timeout=given["time_limit"],
            parameters=copy.deepcopy(dict(given["parameter_override"] or {})),
            cache_executed_step=bool(given["cache_executed_step"]),
            monitor_metrics=list(given["monitor_metrics"] or ()),
            monitor_artifacts=list(given["monitor_artifacts"] or ()),
            monitor_models=list(given["monitor_models"] or ()),
            stage=given["stage"],
            step=copy.deepcopy({**base, **fields}),
            guarded=guarded,
        )
        return True

    add_function_step = refused("add_function_step")
    get_logger = classmethod(refused("get_logger"))
    upload_model = classmethod(refused("upload_model"))
    upload_artifact = classmethod(refused("upload_artifact"))
    create = classmethod(refused("create"))
    clone = classmethod(refused("clone"))

    def add_parameter(
        self, name: str, default: Any = None, description: str | None = None, param_type: Any = None
    ) -> None:
        """Adds a parameter of the pipeline; its values are of `param_type`, and stay so."""
        self._parameters[str(name)] = parameter_schema(default, description, param_type)

    def get_parameters(self) -> Json:
        """Returns the parameters of the pipeline: those of its run, or defaults before it is started."""
        defaults = {name: schema.get("default") for name, schema in self._parameters.items()}
        return defaults | self._values

    def connect_configuration(
        self, configuration: T, name: str | None = None, description: str | None = None
    ) -> T:
        """Returns the configuration as it is: the definition is what this program makes of it."""
        return configuration

    def set_default_execution_queue(self, default_execution_queue: str | None) -> None:
        """Sets the queue of steps that have none."""
        self._queue = str(default_execution_queue) if default_execution_queue else ""

    def set_pipeline_execution_time_limit(self, max_execution_minutes: float | None) -> None:
        """Sets how long a run may take, in minutes; None or 0 for no limit."""
        self._timeout_s = max_execution_minutes * _SECONDS if max_execution_minutes else None

    def get_pipeline(self) -> Pipeline:
        """Returns the pipeline as the builder has it: `spec()` and `yaml()` are its definition."""
        project, version = self._given["project"], self._given["version"]
        words = {"project": project, "version": version, "tags": ", ".join(self._tags)}
        fields: Json = {
            "description": "; ".join(f"{name}: {value}" for name, value in words.items() if value)
        }
        if self._timeout_s:
            fields["timeout_s"] = self._timeout_s
        pipeline = Pipeline(self._given["name"], parameters=self._parameters, **fields)
        for node in self._nodes.values():
            step = dict(node.step)
            if "task_type" in step and not step.setdefault("queue", self._queue):
                raise ValueError(f"step {node.name!r} has no queue, and the pipeline has no default queue")
            if when := guard(node, self._nodes):
                step["when"] = when
            pipeline.step(node.name, needs=node.parents, **step)
        return pipeline

    @with_arguments_of("start")
    def start(self, given: Json) -> bool:
        """Starts a run and returns True, once it is over if `wait` is set; a second call changes nothing.

        With the queue None nothing runs: it is only defined, as by `create_draft`. Raises ValueError with all
        problems of the definition.
        """
        if given["queue"] is None:
            self.create_draft()
            return True
        self._start(given["parameters"])
        if given["wait"]:
            self.wait()
        return True

    @with_arguments_of("start_locally")
    def start_locally(self, given: Json) -> None:
        """Starts a run and waits until it is over."""
        self._start(given["parameters"])
        self.wait()

    def create_draft(self) -> None:
        """Defines the pipeline under its name, to be run later: by `enqueue`, or by a schedule."""
        try:
            NamedPipeline(identifier(self._given["name"]), self._connect).define(self.get_pipeline())
        except (UnsendableError, RefusedError) as error:
            raise ValueError(str(error)) from error

    @classmethod
    @with_arguments_of("enqueue")
    def enqueue(cls, given: Json) -> "PipelineController":
        """Runs the pipeline of a controller, or a defined one by its name; returns its controller."""
        source = given["pipeline_controller"]
        if isinstance(source, PipelineController):
            source._start(None)
            return source
        found: PipelineController = cls(name=source, connect=given["connect"])
        try:
            found._run_id = NamedPipeline(source, found._connect).run().id
        except RefusedError as error:
            raise ValueError(str(error)) from error
        return found

    def stop(
        self, timeout: float | None = None, mark_failed: bool = False, mark_aborted: bool = False
    ) -> None:
        """Aborts the run, and waits up to `timeout` minutes until all of its steps have ended.

        It ends as ABORTED, whatever is to be marked; one that is over stays as it is.
        """
        if not self.is_running():
            return
        reason = "marked as failed" if mark_failed else "marked as aborted" if mark_aborted else "stopped"
        with self._connect() as client:
            try:
                client.send(AbortPipelineRun(reason=reason), self._run_id)
            except RefusedError as error:
                if error.problem.code != "already_terminal":
                    raise
        if timeout is not None:
            self.wait(timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits up to `timeout` minutes until the run is over; returns whether it is."""
        if not self._run_id:
            return True
        with self._connect() as client:
            try:
                client.wait(self._run_id, None if timeout is None else timeout * _SECONDS)
            except NotOverError:
                return False
        return True

    def is_running(self) -> bool:
        """Returns whether a run was started and is not over."""
        run = self._run()
        return run is not None and not run.over

    def is_successful(self, fail_on_step_fail: bool = True, fail_condition: str = "all") -> bool:
        """Returns whether the run, and with `fail_on_step_fail` each of its steps, was successful.

        A cached or skipped step is no failure. `fail_condition` is all, failed or aborted: what counts as a
        failure.
        """
        if fail_condition not in _SUCCESSES:
            known = ", ".join(_SUCCESSES)
            raise ValueError(f"fail_condition: expected one of {known}, got {fail_condition!r}")
        run = self._run()
        if run is None or _STATUS_OF_RUN.get(run.status) not in _SUCCESSES[fail_condition]:
            return False
        failed = {STATUS_OF_STEP[step.state] for step in run.steps.values() if step.state in FAILURES}
        return not fail_on_step_fail or failed <= _SUCCESSES[fail_condition]

    def elapsed(self) -> float:
        """Returns the minutes since the run was started, up to its end; -1 before it is started."""
        run = self._run()
        if run is None:
            return -1.0
        return ((run.ended_ms or now_ms()) - run.started_ms) / 1000 / _SECONDS

    def get_pipeline_dag(self) -> dict[str, PipelineNode]:
        """Returns all steps by their names, each with what the log has of it now."""
        run = self._run()
        nodes = self._nodes
        if run is not None and not nodes:  # it was started by another controller, or under a name
            nodes = {step.name: recorded_node(step) for step in source_of(run.spec).steps}
        return {name: current_node(node, run) for name, node in nodes.items()}

    def get_processed_nodes(self) -> dict[str, PipelineNode]:
        """Returns the steps that have ended, also those that failed."""
        nodes = self.get_pipeline_dag().items()
        return {name: node for name, node in nodes if node.status not in ("pending", "queued", "running")}

    def get_running_nodes(self) -> dict[str, PipelineNode]:
        """Returns the steps that are queued or run."""
        nodes = self.get_pipeline_dag().items()
        return {name: node for name, node in nodes if node.status in ("queued", "running")}

    def update_execution_plot(self) -> None:
        """Does nothing: pictures are drawn from the log whenever they are asked for."""

    def add_tags(self, tags: str | list[str]) -> None:
        """Adds tags to the description of the pipeline."""
        self._tags += [tags] if isinstance(tags, str) else tags

    @property
    def tags(self) -> list[str]:
        """The tags that were added."""
        return list(self._tags)

    @property
    def id(self) -> str:
        """The id of the run; empty before it is started."""
        return self._run_id

    @property
    def version(self) -> str | None:
        """The version that was given; the log knows a definition by its digest."""
        found: str | None = self._given["version"]
        return found

    @property
    def task(self) -> NoReturn:
        """Raises NotSupportedError: a run has no task of its own."""
        refused("task")()

    def _base_task(self, given: Json) -> Json:
        key = key_of(given)
        if key in self._table or "/" not in str(given["base_task_id"]):
            return look_up(self._table, key)
        try:
            with self._connect() as client:
                return client.recorded_step(key)
        except UnsendableError as error:
            raise ValueError(f"base_task_id: {error}") from error

    def _start(self, parameters: Mapping[str, Any] | None) -> None:
        if self._run_id:
            return
        values, pipeline = dict(parameters or {}), self.get_pipeline()
        try:
            start_command(pipeline, values)  # its problems come before those of the connection
            with self._connect() as client:
                self._run_id = client.start_run(pipeline, values)
        except (UnsendableError, RefusedError) as error:
            raise ValueError(str(error)) from error
        self._values = values

    def _run(self) -> Run | None:
        if not self._run_id:
            return None
        with self._connect() as client:
            stream = client.state(self._run_id)
        return None if stream is None else run_of(stream)


def _newest_run(given: Json) -> str:
    """Returns the id of the newest run of a defined pipeline, or of its version; raises ValueError."""
    if not given["pipeline_name"]:
        raise ValueError("expected pipeline_id, the id of a run, or pipeline_name, of a defined pipeline")
    version = given["pipeline_version"]
    if version is not None and not str(version).isdecimal():
        raise ValueError(f"pipeline_version: expected a version of the pipeline, such as 2, got {version!r}")
    try:
        pipeline = NamedPipeline(identifier(given["pipeline_name"]), given["connect"])
        return pipeline.newest_run(None if version is None else int(version)).id
    except ClientError as error:
        raise ValueError(str(error)) from error
