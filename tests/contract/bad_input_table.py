"""The rows of docs/publishing.md (BI-1 to BI-57) that are about a published command: inputs and codes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trackside.aggregates.batch.messages import StopTasks, SubmitTasks
from trackside.aggregates.run.messages import AbortPipelineRun, StartPipelineRun
from trackside.aggregates.search.messages import StartSearch, StopSearch

START, STOP = StartSearch.wire_type(), StopSearch.wire_type()
SUBMIT, STOP_TASKS = SubmitTasks.wire_type(), StopTasks.wire_type()
RUN, ABORT = StartPipelineRun.wire_type(), AbortPipelineRun.wire_type()
SEARCH: dict[str, Any] = {
    "task_type": "digits",
    "space": {"lr": {"type": "loguniform", "low": 0.001, "high": 0.1}},
    "max_trials": 20,
}
BATCH: dict[str, Any] = {"groups": [{"tasks": [{"task_type": "digits"}]}]}
PIPELINE: dict[str, Any] = {"pipeline": {"steps": [{"name": "data", "task_type": "digits"}]}}


@dataclass(frozen=True)
class Input:
    """One record, as JSON or as bytes; `headers` replace those of a good command, None leaves one out."""

    value: Any
    path: str = "$"
    message: str = ""
    code: str = ""
    wire_type: str = START
    key: bytes | None = None
    headers: Mapping[str, bytes | None] = field(default_factory=dict)

    @property
    def octets(self) -> bytes | None:
        """The value as it is published."""
        return self.value if isinstance(self.value, bytes | None) else json.dumps(self.value).encode()


@dataclass(frozen=True)
class Row:
    """One row: its description, the resulting code (`accepted` for valid input), and its inputs."""

    number: int
    what: str
    code: str
    inputs: Sequence[Input]


def search(path: str = "$", message: str = "", code: str = "", **fields: Any) -> Input:
    """A search with other fields."""
    return Input({**SEARCH, **fields}, path, message, code)


def batch(path: str, message: str = "", code: str = "", **fields: Any) -> Input:
    """A batch with other fields."""
    return Input({**BATCH, **fields}, path, message, code, SUBMIT)


def step(path: str = "", message: str = "", code: str = "", **fields: Any) -> Input:
    """A run of two steps, the second one with other fields; the path is within that step."""
    steps = [*PIPELINE["pipeline"]["steps"], {"name": "train", "task_type": "digits", **fields}]
    return run(f".steps[1]{path}", message, code, steps=steps)


def run(path: str, message: str = "", code: str = "", **fields: Any) -> Input:
    """A run of a pipeline with other fields; the path is within the pipeline."""
    return Input({"pipeline": {**PIPELINE["pipeline"], **fields}}, f"$.pipeline{path}", message, code, RUN)


def parameter(message: str, **fields: Any) -> Input:
    """A search with another parameter."""
    return search("$.space.lr", message, space={"lr": fields})


def nested(levels: int) -> bytes:
    """An object within objects."""
    return b'{"a":' * levels + b"1" + b"}" * levels


SECRET = "AKIA" + "Q" * 16
DAYS_31_S = 31 * 86_400
COMMANDS: Sequence[Row] = (
    Row(1, "no value, or an empty one", "empty_payload", [Input(None), Input(b"")]),
    Row(2, "a value that is not UTF-8", "not_utf8", [Input(b'{"a":"\xff"}', message="byte 6")]),
    Row(3, "a value that is not JSON", "not_json", [Input(b'{"a":\n x}', message="line 2 column 2")]),
    Row(4, "a list instead of an object", "not_object", [Input(b"[1]", message="got list")]),
    Row(5, "a repeated key", "duplicate_key", [Input(b'{"a":1,"a":2}', message="'a'")]),
    Row(6, "NaN or infinity in a command", "not_finite", [
        Input(b'{"space":{"lr":{"low":NaN}}}', "$.space.lr.low"),
    ]),
    Row(7, "an unknown field", "unknown_field", [
        search("$.max_trails", "did you mean 'max_trials'?", max_trails=3),
        batch("$.groups[0].taks", "did you mean 'tasks'?", groups=[{**BATCH["groups"][0], "taks": []}]),
    ]),
    Row(8, "a missing field", "missing_field", [
        Input({"task_type": "digits", "space": SEARCH["space"]}, "$.max_trials"),
        batch("$.groups[0].tasks[0].task_type", groups=[{"tasks": [{}]}]),
    ]),
    Row(9, "a value of another type; nothing is converted", "wrong_type", [
        search("$.max_trials", "got str", max_trials="20"),
        search("$.exclusive", exclusive="yes"),
    ]),
    Row(10, "an unknown command", "unknown_command", [
        Input(SEARCH, "$type", START, wire_type="trackside.begin-search.v1")
    ]),
    Row(11, "a version that is too new", "unknown_version", [
        Input(SEARCH, "$type", "version 2", wire_type="trackside.start-search.v2")
    ]),
    Row(12, "a version that is too old and has no upcaster", "unknown_version", [
        Input(SEARCH, "$type", "version 0", wire_type="trackside.start-search.v0")
    ]),
    Row(15, "nesting of more than 32 levels", "too_deep", [
        Input(nested(33), "$" + ".a" * 33), Input(nested(20_000)),
    ]),
    Row(16, "a list, text or key that is too long", "too_long", [
        Input({"v": "x" * 65_537}, "$.v"), Input({"x" * 257: 1}),
    ]),
    Row(17, "an integer beyond 64 bits", "out_of_range", [Input({"v": 2**63}, "$.v")]),
    Row(18, "a text with NUL", "nul_character", [Input({"v": "a\0b"}, "$.v")]),
    Row(19, "a lone surrogate", "bad_unicode", [Input({"v": "\ud800"}, "$.v")]),
    Row(20, "an invalid id", "bad_identifier", [
        *(Input(SEARCH, "$partitionkey", "letters", headers={"ce_partitionkey": text}, key=None)
          for text in (b"a/b", b"a..b", "é".encode())),
        batch("$.groups[0].tasks[0].name", groups=[{"tasks": [{"name": "../a", "task_type": "digits"}]}]),
    ]),
    Row(23, "a key that is not the stream", "key_mismatch", [Input(SEARCH, "$key", key=b"other")]),
    Row(24, "a missing attribute", "missing_header", [
        Input(SEARCH, "$type", headers={"ce_type": None}),
        Input(SEARCH, "$id", headers={"ce_id": None, "ce_partitionkey": None}),
    ]),
    Row(25, "a time in the year 1900 or 3000, or none", "accepted", [
        Input(SEARCH, headers={"ce_time": text})
        for text in (b"1900-01-01T00:00:00Z", b"3000-01-01T00:00:00Z", b"yesterday", b"\xff")
    ]),
    Row(28, "a task type that is in no catalogue", "unknown_task_type", [
        search("$.task_type", "did you mean 'digits'?", task_type="digitz"),
        batch("$.groups[0].tasks[0].task_type", groups=[{"tasks": [{"task_type": "nope"}]}]),
    ]),
    Row(31, "zero or negative resources: `<field>_range`", "devices_range", [
        *(search("$.resources.devices", resources={"devices": count}) for count in (-1, 65)),
        *(search(f"$.resources.{name}", code=f"{name}_range", resources={name: amount})
          for name in ("estimate_memory", "estimate_cuda_memory") for amount in (-1, "0GiB")),
        search("$.resources.estimate_memory", code="bad_memory", resources={"estimate_memory": "-1GiB"}),
        search("$.resources", code="bad_resources", resources={"devices": 2, "device": "gpu-1"}),
    ]),
    Row(32, "an unknown device", "unknown_device", [
        search("$.resources.device", "w1/gpu-1", resources={"device": "gpu-7"}),
        batch("$.groups[0].device", groups=[{**BATCH["groups"][0], "device": "w9/gpu-1"}]),
    ]),
    Row(33, "a priority outside 0 to 9", "priority_range", [
        search("$.priority", priority=10), search("$.priority", priority=-1),
    ]),
    Row(34, "a time limit of 0, negative, or over 30 days: `<field>_range`", "run_timeout_s_range", [
        *(search("$.run_timeout_s", run_timeout_s=limit) for limit in (0, -1, DAYS_31_S)),
        batch("$.queue_timeout_s", code="queue_timeout_s_range", queue_timeout_s=0),
    ]),
    Row(35, "an invalid search space", "bad_search_space", [
        parameter("above", type="uniform", low=2, high=1),
        search("$.space", code="bad_length", space={}),
        search("$.space.lr", code="unknown_value", space={"lr": {"type": "gauss"}}),
    ]),
    Row(36, "a concurrency of 0, or over 10,000", "concurrency_range", [
        search("$.concurrency", concurrency=0), search("$.concurrency", concurrency=10_001),
        batch("$.concurrency", concurrency=0),
    ]),
    Row(37, "an unknown tuner or assessor", "unknown_tuner", [
        search("$.tuner.name", "tpe", tuner={"name": "tpee"}),
        search("$.assessor.name", "median", "unknown_assessor", assessor={"name": "mediam"}),
    ]),
    Row(41, "a cycle in a pipeline, or a step that waits for itself", "pipeline_cycle", [
        run(".steps[0].needs", "data needs train needs data", steps=[
            {"name": "data", "task_type": "digits", "needs": ["train"]},
            {"name": "train", "task_type": "digits", "parameters": {"rows": "${data.result.rows}"}},
        ]),
        step(".needs", "'train' needs itself", needs=["train"]),
        step(".parameters.x", "'train' refers to itself", parameters={"x": "${train.id}"}),
    ]),
    Row(42, "an unknown parent of a step", "unknown_step", [
        step(".needs", "did you mean 'data'?", needs=["dat"]),
        step(".needs", needs={"any_of": ["data", "nowhere"]}),
    ]),
    Row(43, "a reference that can't be resolved, or an expression that can't be read", "unknown_step", [
        step(".parameters.a.b[0]", "did you mean 'data'?", parameters={"a": {"b": ["${dat.id}"]}}),
        step(".parameters.x", "'sha256'?", "bad_reference",
             parameters={"x": "${data.models.output.-1.sha265}"}),
        step(".parameters.x", "no parameter", "unknown_parameter", parameters={"x": "${pipeline.rows}"}),
        step(".when", "open() is not available", "bad_expression", when="open('/etc/passwd')"),
        step(".when", "1,001 characters", "expression_too_long", when="1" * 1_001),
        step(".when", "more than 30 levels", "expression_too_deep", when="-" * 30 + "1"),
        step(".repeat.until", "not an expression", "bad_expression", repeat={"until": "1 +", "times": 2}),
    ]),
    Row(44, "two steps with one name, or a definition that is wrong in another way", "duplicate_step", [
        run(".steps[0].name", "2 steps are called 'data'", steps=PIPELINE["pipeline"]["steps"] * 2),
        step(".name", "without a dot", "bad_step_name", name="a.b"),
        step(".name", code="bad_identifier", name="a b"),
        run(".steps", code="bad_length", steps=[]),
        run("", "the limit is 524,288", "too_long", steps=[
            *PIPELINE["pipeline"]["steps"],
            *({"name": f"s{at}", "task_type": "digits", "parameters": {"x": "${data.id}" * 6_000}}
              for at in range(4)),
        ]),
        step("", "has task_type and gate", "bad_step", gate={}),
        run(".steps[0].kind", "did you mean 'search'?", "unknown_kind",
            steps=[{"name": "a", "kind": "serach", "each": [1], "spec": {"name": "${item}"}}]),
        step(".parameters.x", "beyond 9,007,199,254,740,991", "out_of_range", parameters={"x": 2**53}),
        Input({**PIPELINE, "parameters": {"rows": 1}}, "$.parameters.rows", code="unknown_parameter",
              wire_type=RUN),
        run(".parameters.rows", "JSON Schema", "bad_schema", parameters={"rows": {"type": "int"}}),
    ]),
    Row(46, "a stop of an unknown search, batch or run", "unknown_search", [
        Input({}, "$partitionkey", wire_type=STOP),
        Input({}, "$partitionkey", code="unknown_batch", wire_type=STOP_TASKS),
        Input({}, "$partitionkey", code="unknown_run", wire_type=ABORT),
        Input({"step": "data"}, "$partitionkey", code="unknown_run", wire_type="trackside.skip-step.v1"),
    ]),
    Row(47, "pausing or resuming an unknown search", "unknown_search", [
        Input({}, "$partitionkey", wire_type=f"trackside.{name}-search.v1") for name in ("pause", "resume")
    ]),
    Row(49, "text that looks like a secret; it is not repeated", "secret_suspected", [
        search("$.name", name=SECRET), Input({SECRET: 1}), Input(SEARCH, "$key", key=SECRET.encode()),
        Input(SEARCH, "$source", headers={"ce_source": b"sk-" + b"a" * 30}),
        Input(SEARCH, "$id", headers={"ce_id": SECRET.encode()}),
    ]),
    Row(57, "a command that would take too long to check", "too_costly", [
        run(".parameters.p", "101 patterns, 100 are allowed",
            parameters={"p": {"allOf": [{"pattern": f"x{at}"} for at in range(101)]}}),
        run(".parameters.p", "compared 2,003,001 times", parameters={
            "p": {"default": [0] * 1_000, "items": {"enum": list(range(997))}}}),
        Input({"pipeline": PIPELINE["pipeline"]
               | {"parameters": {"p": {"items": {"enum": list(range(997))}}}},
               "parameters": {"p": [0] * 1_000}}, "$.parameters.p", "are allowed", wire_type=RUN),
        search("$.space", "20,000 values together",
               space={name: {"type": "choice", "values": list(range(10_000))} for name in "ab"}),
    ]),
)  # fmt: skip
