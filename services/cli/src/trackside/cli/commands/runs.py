"""Commands that change a run of a pipeline or an incremental job: `retry-failed`, `approve` and the like."""

import getpass
from collections.abc import Sequence
from typing import Any

from trackside.aggregates.rounds.messages import ApproveDeploy, RejectDeploy
from trackside.aggregates.run.aggregate import RUN
from trackside.aggregates.run.messages import (
    AbortStep,
    ApproveGate,
    ArchiveRun,
    RejectGate,
    RestartFromStep,
    RetryFailedSteps,
    SkipStep,
    StartPipelineRun,
)
from trackside.cli.commands.change import assigned_texts, assignments, send_by_kind, value_of
from trackside.cli.commands.publishing import Publishing
from trackside.cli.commands.submit import send
from trackside.cli.runtime.failures import BadUsage
from trackside.contracts.envelope.message import Command


def with_parameters(pairs: Sequence[str], command: Command) -> Command:
    """Returns parameters, each NAME=VALUE, to a run that is started.

    A value is JSON, else text; that of a parameter of type string is always text. Raises BadUsage.
    """
    if not isinstance(command, StartPipelineRun):
        raise BadUsage("--set is for the parameters of a pipeline; the spec is of another kind")
    schemas = command.pipeline.parameters
    given = {
        name: text if schemas.get(name, {}).get("type") == "string" else value_of(text)
        for name, text in assigned_texts(pairs).items()
    }
    return command.model_copy(update={"parameters": {**command.parameters, **given}})


def without_cache(command: Command) -> Command:
    """Lets a run that is started take no results of earlier ones; raises BadUsage for another command."""
    if not isinstance(command, StartPipelineRun):
        raise BadUsage("--no-cache is for a pipeline; the spec is of another kind")
    return command.model_copy(update={"use_cache": False})


def retry_failed(
    run_id: str, steps: Sequence[str], items: Sequence[str], pairs: Sequence[str], publishing: Publishing
) -> None:
    """Runs the failed steps of a run that is over again: all, those named, or single items of some."""
    body: dict[str, Any] = {"patch": patches(pairs)}
    if steps:
        body["steps"] = list(steps)
    if items:
        body["indexes"] = _indexes(items)
    send(run_id, RetryFailedSteps, body, publishing)


def restart_from(run_id: str, steps: Sequence[str], pairs: Sequence[str], publishing: Publishing) -> None:
    """Runs steps of a run that is over again, and all that come after them."""
    send(run_id, RestartFromStep, {"steps": list(steps), "patch": patches(pairs)}, publishing)


def skip(run_id: str, step: str, reason: str, publishing: Publishing) -> None:
    """Skips a step that has not begun."""
    send(run_id, SkipStep, {"step": step, "reason": reason}, publishing)


def abort_item(run_id: str, step: str, index: int, reason: str, publishing: Publishing) -> None:
    """Aborts one item of a step; raises BadUsage without one."""
    if not step:
        raise BadUsage(f"--index is of a step: expected trackside stop {run_id} STEP --index {index}")
    send(run_id, AbortStep, {"step": step, "index": index, "reason": reason}, publishing)


def approve(stream_id: str, gate: str, pairs: Sequence[str], actor: str, publishing: Publishing) -> None:
    """Approves a gate with its form filled in, or without a gate the deployment of an incremental job."""
    actor = actor or _login_name()
    if gate:
        body = {"step": gate, "inputs": assignments(pairs), "actor": actor}
        send(stream_id, ApproveGate, body, publishing)
        return
    if pairs:
        raise BadUsage(f"--set is for the form of a gate: expected trackside approve {stream_id} GATE")
    send_by_kind(stream_id, lambda kind: _of_job(stream_id, kind, ApproveDeploy(actor=actor)), publishing)


def reject(stream_id: str, gate: str, reason: str, actor: str, publishing: Publishing) -> None:
    """Rejects a gate, or without a gate the deployment of an incremental job."""
    actor = actor or _login_name()
    if gate:
        send(stream_id, RejectGate, {"step": gate, "reason": reason, "actor": actor}, publishing)
        return
    wanted = RejectDeploy(reason=reason, actor=actor)
    send_by_kind(stream_id, lambda kind: _of_job(stream_id, kind, wanted), publishing)


def _of_job(stream_id: str, kind: str | None, command: Command) -> Command:
    """Returns the command for a job; raises BadUsage for a run, which needs the name of a gate."""
    if kind == RUN.kind:
        raise BadUsage(f"{stream_id} is a run: name its gate; `trackside show {stream_id}` lists them")
    return command


def archive(run_id: str, publishing: Publishing) -> None:
    """Archives a run that is over."""
    send(run_id, ArchiveRun, {}, publishing)


def patches(pairs: Sequence[str]) -> dict[str, Any]:
    """Reads STEP.NAME=VALUE pairs as patches of the parameters of steps; raises BadUsage."""
    found: dict[str, Any] = {}
    for where, text in assigned_texts(pairs).items():
        step, dot, name = where.partition(".")  # the name of a step has no dot
        if not step or not dot or not name:
            raise BadUsage(f"--set {where}={text}: expected STEP.NAME=VALUE, such as train.lr=0.1")
        found.setdefault(step, {"parameters": {}})["parameters"][name] = value_of(text)
    return found


def _indexes(items: Sequence[str]) -> dict[str, list[int]]:
    """Reads items as STEP.INDEX, as they are in the ids of their tasks; raises BadUsage."""
    found: dict[str, list[int]] = {}
    for item in items:
        step, _, index = item.rpartition(".")
        if not step or not index.isascii() or not index.isdecimal():
            raise BadUsage(f"--index {item}: expected STEP.INDEX with an index from 0, such as train.7")
        found.setdefault(step, []).append(int(index))
    return found


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # what it raises differs between versions of Python
        return ""
