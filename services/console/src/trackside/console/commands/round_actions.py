"""Which commands users may publish for an incremental job: its stages, its deployments, what is live."""

from collections.abc import Sequence

from trackside.aggregates.rounds.messages import (
    ApproveDeploy,
    DeleteIncrementalJob,
    FireDeploy,
    FireEval,
    FireTrain,
    JobStatus,
    PauseIncrementalJob,
    RejectDeploy,
    ResumeIncrementalJob,
    RollbackModel,
)
from trackside.console.commands.forms import Form
from trackside.console.commands.schema_inputs import inputs_of
from trackside.domain.rows.table import ViewRow

DECISIONS = frozenset(each.wire_type() for each in (ApproveDeploy, RejectDeploy))
"""The types of the commands that say who has decided."""
_FIRED = {"train": ("Train now", FireTrain), "eval": ("Evaluate now", FireEval)}


def job_actions(job_id: str, row: ViewRow) -> list[Form]:
    """Returns the commands that make sense for a job in the stage that its row says."""
    if row["ended_at"] is not None:
        return []
    is_paused = row["status"] == JobStatus.PAUSED.value
    pause = Form("Pause", job_id, PauseIncrementalJob, inputs_of(PauseIncrementalJob, ("reason",)))
    found = [Form("Resume", job_id, ResumeIncrementalJob) if is_paused else pause]
    if row["stage_state"] == "Waiting" and not row["waits_for_approval"]:
        stage = str(row["stage"])
        if stage in _FIRED:
            label, command = _FIRED[stage]
            found.append(
                Form(label, job_id, command, confirm="Begin now, also if the trigger does not hold?")
            )
        else:
            found.append(Form("Deploy now", job_id, FireDeploy, inputs_of(FireDeploy, ("force",))))
    back = inputs_of(RollbackModel, ("version", "reason"))
    found.append(Form("Roll back", job_id, RollbackModel, back, confirm="Which version is live again?"))
    delete = Form(
        "Delete",
        job_id,
        DeleteIncrementalJob,
        inputs_of(DeleteIncrementalJob, ("reason",)),
        confirm="Delete this job? What runs is stopped, its services too.",
        is_danger=True,
    )
    return [*found, delete]


def approval_actions(job_id: str, row: ViewRow) -> list[Form]:
    """Returns the forms that approve and reject a deployment that waits for a person."""
    if not row["waits_for_approval"]:
        return []
    confirm = "Deploy the model of this round?"
    reject = inputs_of(RejectDeploy, ("reason",))
    return [
        Form("Approve", job_id, ApproveDeploy, confirm=confirm),
        Form("Reject", job_id, RejectDeploy, reject, is_danger=True),
    ]


def rollback_actions(job_id: str, row: ViewRow, deployments: Sequence[ViewRow]) -> dict[int, list[Form]]:
    """Returns the forms that make a version live again that was live before, by the number of the update.

    Each version is offered once, at the newest of its updates; not the one that is live.
    """
    if row["ended_at"] is not None:
        return {}
    seen = {(row["live_model"], row["live_version"])}
    found: dict[int, list[Form]] = {}
    for each in deployments:
        model = (each["model"], each["version"])
        if each["deployed_at"] is None or model in seen:
            continue
        seen.add(model)
        fixed = {"model": each["model"], "version": each["version"]}
        confirm = f"Make {each['model']}@{each['version']} live again?"
        reason = inputs_of(RollbackModel, ("reason",))
        found[each["update_number"]] = [
            Form("Roll back to this", job_id, RollbackModel, reason, fixed, confirm, is_danger=True)
        ]
    return found
