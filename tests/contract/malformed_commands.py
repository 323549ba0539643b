"""Draws malformed commands at random: wrong bytes, headers or JSON."""

import json
import string
from collections.abc import Callable
from random import Random
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.eventlog.log import Outgoing

TYPES = [kind.wire_type() for kind in AGGREGATES.commands]
INCREMENTAL_JOB: dict[str, Any] = {
    "dataset": {"name": "feed", "train_prob": 0.8},
    "model": "digits",
    "initial_model": {"model": "digits", "version": 1},
    "train": {
        "task_type": "noop",
        "trigger": {
            "type": "all_of",
            "triggers": [
                {"type": "condition", "metric": "num_of_samples", "operator": ">=", "threshold": 500},
                {"type": "daily", "start": "22:00", "end": "06:00", "timezone": "Europe/Berlin"},
            ],
        },
    },
    "eval": {"task_type": "noop", "initial_model": {"model": "digits", "version": 1}},
    "deploy": {
        "gate": {"timeout_s": 60},
        "services": [{"name": "api", "task_type": "noop", "hard_examples": {"miner": "threshold"}}],
    },
    "output": {"url": "/data/rounds"},
}
OF_INCREMENTAL_JOBS: dict[str, dict[str, Any]] = {
    "trackside.create-incremental-job.v1": INCREMENTAL_JOB,
    "trackside.update-incremental-job.v1": {"job": INCREMENTAL_JOB},
    "trackside.pause-incremental-job.v1": {"reason": "the labels are checked"},
    "trackside.resume-incremental-job.v1": {},
    "trackside.delete-incremental-job.v1": {"reason": "replaced"},
    "trackside.fire-train.v1": {},
    "trackside.fire-eval.v1": {},
    "trackside.fire-deploy.v1": {"force": True},
    "trackside.approve-deploy.v1": {"actor": "ada"},
    "trackside.reject-deploy.v1": {"reason": "worse", "actor": "ada"},
    "trackside.rollback-model.v1": {"version": 1, "model": "digits", "reason": "worse"},
    "trackside.report-hard-examples.v1": {"service": "edge-7", "inferences": 10, "hard": 1},
}
VALID_BODIES: dict[str, dict[str, Any]] = {
    "trackside.instruct-task.v1": {"task": "serve.1.digits", "body": {"model": "digits@4"}},
    "trackside.forget-artifacts.v1": {"artifacts": ["0" * 64], "reason": "not needed"},
    "trackside.drain-device.v1": {"device": "gpu-0", "reason": "new fan"},
    "trackside.skip-record.v1": {"partition": 3, "offset": 17, "reason": "an accident"},
    "trackside.forget-stream.v1": {"reason": "a person has asked for it"},
    "trackside.resume-device.v1": {"device": "gpu-0"},
    "trackside.annotate-stream.v1": {
        "add_tags": ["paper"],
        "remove_tags": ["draft"],
        "note": "for table 2",
        "archived": True,
    },
    "trackside.start-search.v1": {
        "name": "digits",
        "task_type": "noop",
        "space": {
            "x": {"type": "uniform", "low": 0, "high": 1},
            "n": {"type": "randint", "low": 1, "high": 9},
            "c": {"type": "choice", "values": ["a", 1, None]},
        },
        "tuner": {"name": "tpe", "options": {"n_startup_trials": 5}},
        "assessor": {"name": "median", "options": {}},
        "max_trials": 3,
        "concurrency": 2,
        "priority": 5,
        "resources": {"kind": "gpu", "devices": 1, "estimate_memory": "1.5GiB"},
        "retry": {"lost": 3, "failed": {"times": 2, "backoff_s": 1}},
        "run_timeout_s": 60,
    },
    "trackside.stop-search.v1": {"reason": "enough"},
    "trackside.request-trials.v1": {"count": 3},
    "trackside.update-search-space.v1": {"space": {"x": {"type": "uniform", "low": 0, "high": 2}}},
    "trackside.import-trials.v1": {"trials": [{"parameters": {"x": 0.5, "n": 2, "c": None}, "value": 1}]},
    "trackside.add-trial.v1": {"parameters": {"x": 0.5, "c": {"_name": "a"}}, "tell_tuner": True},
    "trackside.update-search.v1": {"concurrency": 3, "max_duration_s": 60, "remove": ["goal"]},
    "trackside.pause-search.v1": {"running": "return", "reason": "enough"},
    "trackside.resume-search.v1": {},
    "trackside.stop-trial.v1": {"trial": 0},
    "trackside.ping.v1": {},
    "trackside.start-pipeline-run.v1": {
        "pipeline": {
            "name": "p",
            "parameters": {"n": {"type": "integer", "default": 3}},
            "steps": [
                {"name": "a", "task_type": "noop", "each": [1, {"y": 2}], "parameters": {"x": "${item}"}},
                {"name": "b", "task_type": "noop", "needs": ["a"], "when": "pipeline.n > 2"},
                {"name": "c", "needs": {"all_ended": ["b"]}, "gate": {"form": {"m": {"type": "string"}}}},
                {"name": "d", "kind": "search", "spec": {"task_type": "${c.result.m}"}, "on_end": "continue"},
            ],
        },
        "parameters": {"n": 4},
        "overrides": {"a": {"parameters": {"x": 1}}},
        "seed": 7,
    },
    "trackside.pause-pipeline-run.v1": {"running": "return"},
    "trackside.resume-pipeline-run.v1": {},
    "trackside.abort-pipeline-run.v1": {"reason": "enough"},
    "trackside.retry-failed-steps.v1": {"steps": ["a"], "indexes": {"a": [1]}},
    "trackside.restart-from-step.v1": {"steps": ["a"], "patch": {"a": {"queue": "q"}}},
    "trackside.skip-step.v1": {"step": "a"},
    "trackside.abort-step.v1": {"step": "a", "index": 1},
    "trackside.approve-gate.v1": {"step": "c", "inputs": {"m": "x"}},
    "trackside.reject-gate.v1": {"step": "c"},
    "trackside.update-pipeline-run.v1": {"concurrency": 3},
    "trackside.archive-run.v1": {},
    "trackside.submit-tasks.v1": {
        "groups": [
            {"name": "g", "tasks": [{"name": "a", "task_type": "noop", "parameters": {"x": [1, {"y": 2}]}}]},
            {"tasks": [{"task_type": "noop", "priority": 9}], "estimate_memory": 100},
        ],
        "concurrency": 5,
    },
    "trackside.register-model.v1": {"description": "digits", "tags": ["images"], "labels": {"owner": "me"}},
    "trackside.add-model-version.v1": {
        "artifact": {
            "uri": "store:sha256/" + "0" * 64,
            "sha256": "0" * 64,
            "size_bytes": 3,
            "source": "s/s.1/weights@1",
        },
        "format": "safetensors",
        "task": {"stream": "s", "task": "s.1", "attempt": 1},
        "metrics": {"accuracy": 0.9},
        "config": {"layers": [1, 2]},
    },
    "trackside.tag-model.v1": {"version": 1, "add": ["a"], "remove": ["b"], "labels": {"x": None}},
    "trackside.set-model-stage.v1": {"version": 1, "stage": "production"},
    "trackside.archive-model.v1": {"reason": "replaced"},
    "trackside.restore-model.v1": {},
    "trackside.register-summary-directory.v1": {"base": "/data", "path": "runs/1"},
    "trackside.cache-train-job.v1": {"task": {"stream": "s-1", "task": "s-1.0"}},
    "trackside.retry-summary-file.v1": {"file": "events.out.tfevents.1.host"},
    "trackside.delete-summary-job.v1": {"task": {"stream": "s-1", "task": "s-1.0"}, "reason": "wrong data"},
    "trackside.restore-summary-job.v1": {},
    "trackside.annotate-summary-job.v1": {
        "task": {"stream": "s-1", "task": "s-1.0"},
        "tag": 3,
        "remark": "baseline",
    },
    "trackside.define-pipeline.v1": {
        "pipeline": {
            "parameters": {"n": {"type": "integer", "default": 7}},
            "steps": [
                {"name": "a", "task_type": "noop", "each": [1, 2], "parameters": {"n": "${pipeline.n}"}},
                {"name": "b", "task_type": "noop", "needs": {"all_ended": ["a"]}, "when": "pipeline.n > 3"},
                {"name": "c", "gate": {"form": {"ok": {"type": "boolean"}}}, "needs": ["b"]},
            ],
            "outputs": {"x": "${b.result.x:-none}"},
        },
        "max_runs": 2,
    },
    "trackside.retire-pipeline.v1": {"reason": "old"},
    "trackside.run-pipeline.v1": {"version": 1, "parameters": {"n": 2}, "overrides": {"b": {"queue": "q"}}},
    "trackside.register-dataset.v1": {
        "url": "/data/digits.csv",
        "format": "csv",
        "look_s": 0.5,
        "drift": {"detector": "ks", "parameters": {"combine": "max"}, "window": 50, "columns": ["x"]},
    },
    "trackside.pause-dataset.v1": {"reason": "the disk is replaced"},
    "trackside.resume-dataset.v1": {},
    "trackside.delete-dataset.v1": {"reason": "enough"},
    "trackside.create-schedule.v1": {
        "name": "nightly",
        "schedule": {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "parameters": {"n": 3}},
    },
    "trackside.update-schedule.v1": {"name": "nightly", "schedule": {"cron": "0 3 * * MON"}},
    "trackside.pause-schedule.v1": {"name": "nightly", "reason": "holidays"},
    "trackside.resume-schedule.v1": {"name": "nightly"},
    "trackside.delete-schedule.v1": {"name": "nightly"},
    "trackside.fire-schedule.v1": {"name": "nightly"},
    "trackside.cancel-pipeline-runs.v1": {"number": 1, "reason": "wrong"},
    **OF_INCREMENTAL_JOBS,
    "trackside.stop-tasks.v1": {"task": "a", "reason": "enough"},
}
ODD_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 1.5, -0.0, 1e308, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**40,
    float("nan"), float("inf"), "", " ", "a", "NaN", "1", "a\0b", "\ud800", "\U0001f600", "../..",
    "x" * 300, "x" * 70_000, "AKIA" + "A" * 16, "é" * 129, [], {}, [[]], [{}], {"": None}, {"a": {"b": []}},
    ["a"] * 50, [None] * 10_001, "1.5GB", "-1GiB", "cuda:0", "$ref", "__class__", {"type": "choice"},
    {"_type": "uniform", "_value": [1, 0]},
]  # fmt: skip
ODD_NAMES = [
    "name",
    "type",
    "task_type",
    "space",
    "groups",
    "low",
    "values",
    "_name",
    "",
    "a" * 300,
    "\0",
    "id",
]
NOT_JSON = [b"", None, b"[]", b"null", b"\xff\xfe", b"\xef\xbb\xbf{}", b"{}{}", b"1" * 5_000]
CONTENT_TYPES = [
    b"application/json", b"application/cloudevents+json", b"application/cloudevents+json; charset=utf-8",
    b"application/cloudevents-batch+json", b"APPLICATION/CLOUDEVENTS", b"", b"\xff", b"text/plain",
]  # fmt: skip


def draw_malformed(random: Random, stream: Callable[[], str]) -> Outgoing:
    """Draws a record for the commands topic: mostly almost valid, sometimes entirely invalid."""
    wire = random.choice(TYPES)
    body = json.loads(json.dumps(VALID_BODIES[wire]))
    for _ in range(random.choice([0, 1, 1, 1, 2, 5])):
        body = _mutated(random, body)
    attributes: dict[str, Any] = {
        "specversion": "1.0",
        "id": _id(random),
        "type": wire,
        "source": "fuzz",
        "partitionkey": stream(),
    }
    if random.random() < 0.3:
        name = random.choice([*attributes, "traceparent", "time", "datacontenttype"])
        attributes[name] = random.choice(ODD_VALUES)
    key = attributes["partitionkey"] if random.random() < 0.9 else random.choice(["", "other", "a/b", "\0"])
    octets = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else None
    if random.random() < 0.4:
        value, headers = {**attributes, "data": body}, [("content-type", random.choice(CONTENT_TYPES))]
    else:
        value, headers = body, [(f"ce_{name}", _bytes(text)) for name, text in attributes.items()]
        headers.append(("content-type", b"application/json"))
    if random.random() < 0.2:
        headers = _mutated_headers(random, headers)
    return Outgoing(octets, _encoded(random, value), headers)


def _id(random: Random) -> str:
    return "c-" + "".join(random.choices(string.hexdigits, k=12))


def _bytes(value: Any) -> bytes:
    return str(value).encode("utf-8", "surrogatepass")


def _mutated_headers(random: Random, headers: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Drops, repeats, reorders and corrupts headers, and adds others."""
    found = [header for header in headers if random.random() < 0.9]
    found += [random.choice(headers) for _ in range(random.randrange(3))]
    found += [(f"ce_{random.randrange(9)}", random.randbytes(5)), ("traceparent", random.randbytes(20))]
    if found:
        at = random.randrange(len(found))
        found[at] = (found[at][0], random.randbytes(random.randrange(30)))
    random.shuffle(found)
    return found


def _mutated(random: Random, value: Any, depth: int = 0) -> Any:
    """Replaces, adds or drops a value anywhere in a body."""
    if depth == 0 and random.random() < 0.02:
        return random.choice(ODD_VALUES)
    if isinstance(value, dict) and value and random.random() < 0.8:
        name = random.choice(list(value))
        draw = random.random()
        if draw < 0.15:
            return {other: inner for other, inner in value.items() if other != name}
        if draw < 0.3:
            return {**value, random.choice(ODD_NAMES): random.choice(ODD_VALUES)}
        return {**value, name: _mutated(random, value[name], depth + 1)}
    if isinstance(value, list) and value and random.random() < 0.7:
        at = random.randrange(len(value))
        return [*value[:at], _mutated(random, value[at], depth + 1), *value[at + random.randrange(2) :]]
    return random.choice(ODD_VALUES)


def _encoded(random: Random, value: Any) -> bytes | None:
    """Encodes JSON, and sometimes corrupts the text."""
    octets = json.dumps(value).encode()
    draw = random.random()
    if draw < 0.85:
        return octets
    at = random.randrange(len(octets))
    if draw < 0.88:
        return octets[:at]
    if draw < 0.91:
        return octets[:at] + random.randbytes(random.randrange(1, 5)) + octets[at + 1 :]
    if draw < 0.93:
        return (
            octets.replace(b'"', b'"a":1,"', 1) if random.random() < 0.5 else octets[:-1] + b',"a":1,"a":2}'
        )
    if draw < 0.95:
        deep = random.choice([33, 500, 5_000])
        return b'{"a":' * deep + b"1" + b"}" * deep
    if draw < 0.97:
        return random.choice(
            [b"", None, b"[]", b"null", b"\xff\xfe", b"\xef\xbb\xbf{}", b"{}" * 2, b"1" * 5_000]
        )
    return random.randbytes(random.randrange(200))
