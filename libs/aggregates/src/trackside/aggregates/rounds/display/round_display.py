"""Pages and tables of a job, from its rows. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trackside.aggregates.rounds.display.trigger_display import progress_text
from trackside.aggregates.rounds.stages.metrics import DELTA, name_of
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display.text import Column, TextTable, counted, duration, number, one_line
from trackside.domain.rows.table import ViewRow

WHY_WIDTH, DIGEST_WIDTH = 26, 12
"""How many characters of a reason, and of a digest, a table shows."""
LOST = AttemptEnd.LOST.value
ERROR_WIDTH = 200
"""How many characters of a service's error a page shows."""


def shortened(text: str, width: int) -> str:
    """Returns a text as a line of at most so many characters, and `...` if there are more."""
    line = one_line(text)
    return line if len(line) <= width else f"{line[: width - 3]}..."


def facts(job: ViewRow) -> list[tuple[str, object]]:
    """Returns what is said of a job as a whole: where it is, why it waits, its samples, what is live."""
    reason = f" ({job['reason']})" if job["reason"] else ""
    found: list[tuple[str, object]] = [
        ("job", job["job_id"]),
        ("name", job["name"]),
        ("status", f"{job['status']}{reason}"),
        ("rounds", _rounds_text(job)),
        ("stage", f"{job['stage']} {job['stage_state']}"),
        ("since", job["stage_since"]),
    ]
    if job["blocked"]:
        found.append(("blocked", job["blocked_message"] or job["blocked"]))
    found += [("trigger", line) for line in trigger_lines(job)]
    if job["waits_for_approval"]:
        found.append(("waits for", f"a person: trackside approve {job['job_id']}"))
        found.append(("until", job["approval_due"]))
    found += [("dataset", f"{job['dataset']}: {counted(job['samples'], 'sample')}"), *_sample_facts(job)]
    digest = job["live_sha256"][:DIGEST_WIDTH]
    found.append(("live", f"{job['live_model']}@{job['live_version']} {digest}"))
    if job.get("live_url"):
        found.append(("live at", job["live_url"]))
    if job["update_open"]:
        waits = ", ".join(job["update_open"])
        found.append(("update", f"to version {job['update_version']}: waits for {waits}"))
    if job["trained_version"] is not None:
        found.append(("trained last", f"{job['model']}@{job['trained_version']}"))
        if job.get("trained_url") not in (None, job.get("live_url")):
            found.append(("trained at", job["trained_url"]))
    if job["inferences"]:
        found.append(("inferences", _counts_text(job["inferences"], job["hard_examples"])))
    return [*found, ("started", job["started_at"]), ("ended", job["ended_at"])]


def _rounds_text(job: ViewRow) -> str:
    text = f"{job['ended_rounds']} ended"
    if job["round"] > job["ended_rounds"]:
        text += f", round {job['round']} continues"
    if job["failed_rounds"]:
        text += (
            ", the last failed" if job["failed_rounds"] == 1 else f", the last {job['failed_rounds']} failed"
        )
    return text


def _sample_facts(job: ViewRow) -> list[tuple[str, object]]:
    held = f"{job['round_samples']:,} in the round" if job["round_samples"] else ""
    train = ", ".join(text for text in (f"{job['waiting_samples']:,} wait", held) if text)
    versions = len(job["evaluation_ranges"])
    evaluation = f"{job['evaluation_samples']:,} in {counted(versions, 'version')}"
    if job["new_evaluation_samples"]:
        evaluation += f", {job['new_evaluation_samples']:,} since the last round"
    return [("to train with", train), ("to evaluate with", evaluation)]


def _counts_text(inferences: int, hard: int) -> str:
    return f"{inferences:,}, of them {hard:,} hard ({hard / inferences:.1%})"


def trigger_lines(job: ViewRow) -> list[str]:
    """Returns the trigger of each stage, with how far its numbers are if the stage waits for it."""
    return [trigger_line(each) for each in job["triggers"]]


def trigger_line(trigger: Mapping[str, Any]) -> str:
    """Returns a trigger of a stage: `train: num_of_samples >= 500 (num_of_samples 340 of 500)`."""
    progress = "; ".join(progress_text(seen) for seen in trigger["seen"])
    line = f"{trigger['stage']}: {trigger['trigger']}"
    return f"{line} ({progress})" if progress else line


def shown_metric(rounds: Iterable[ViewRow]) -> str:
    """Returns the metric that tables and pictures of rounds show: the one that was decided by, else any."""
    named = ""
    for each in rounds:
        for condition in each["conditions"] or ():
            name = name_of(condition["metric"]).removesuffix(DELTA)
            if name in (each["trained"] or {}):
                return name
        named = named or next(iter(sorted(each["trained"] or {})), "")
    return named


def as_number(value: object) -> float | None:
    """Returns a metric as one number: the mean of a list; None if it is none."""
    values = value if isinstance(value, list) else [value]
    known = [each for each in values if isinstance(each, int | float) and not isinstance(each, bool)]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def metric_values(row: ViewRow, metric: str) -> tuple[float | None, float | None]:
    """Returns a metric of the trained and of the deployed model of a round."""
    return as_number((row["trained"] or {}).get(metric)), as_number(
        (row["deployed_metrics"] or {}).get(metric)
    )


def result_of(row: ViewRow) -> str:
    """Returns what became of a round in one word: deployed, kept, rejected, failed, or what it does."""
    if row["status"] == "failed":
        return "failed"
    if row["deployed"]:
        return "deployed"
    if row["approval"] in ("rejected", "expired", "waiting"):
        return str(row["approval"])
    return "kept" if row["status"] == "completed" else str(row["stage"])


def round_table(rounds: Sequence[ViewRow], metric: str = "") -> TextTable:
    """Returns the table of rounds; `kept` says that the model that was live stays so."""
    metric = metric or shown_metric(reversed(rounds))
    numbers = ["round", "train", "eval", "base", "new", *([metric, "live", "delta"] if metric else [])]
    columns = [Column(name, right=True, keep=True) for name in numbers]
    columns += [
        Column("result", keep=True),
        Column("took", right=True, keep=True),
        Column("why", optional=True),
    ]
    return TextTable(columns, [_round_cells(row, metric) for row in rounds])


def _round_cells(row: ViewRow, metric: str) -> list[object]:
    trained, live = metric_values(row, metric)
    delta = f"{trained - live:+.4g}" if trained is not None and live is not None else None
    values: list[object] = [trained, live, delta] if metric else []
    return [
        row["round"],
        *(row["train_samples"], row["eval_samples"], row["base_version"], row["version"]),
        *values,
        result_of(row),
        duration(row["duration_s"]),
        shortened(why_of(row), WHY_WIDTH),
    ]


def why_of(row: ViewRow) -> str:
    """Returns why a round ended as it did, as far as its numbers don't say it: `needs > 0.02`."""
    if row["status"] == "running":
        return ""
    conditions, result = row["conditions"] or (), result_of(row)
    unmet = [each for each in conditions if not each["holds"]]
    if result == "kept" and unmet:
        first = unmet[0]
        return str(first.get("reason") or f"needs {first['operator']} {number(first['threshold'])}")
    if result == "deployed" and conditions and not unmet:
        return ""
    return str(row["reason"] or row["decision_reason"] or "")


def service_table(services: Sequence[ViewRow]) -> TextTable:
    """Returns the table of inference services."""
    columns = [
        Column("service", keep=True),
        Column("state"),
        Column("version", right=True),
        Column("digest"),
        Column("live"),
        Column("inferences", right=True),
        Column("hard", right=True),
        Column("address", optional=True),
        Column("worker", optional=True),
    ]
    return TextTable(columns, [_service_cells(row) for row in services])


def _service_cells(row: ViewRow) -> list[object]:
    hard = f"{row['hard_examples']:,}" + (f" ({row['hard_share']:.1%})" if row["inferences"] else "")
    name = f"{row['name']}.{row['replica']}"
    digest = row["sha256"][:DIGEST_WIDTH]
    counts = [f"{row['inferences']:,}", hard]
    return [
        name,
        row["state"],
        row["version"],
        digest,
        row["is_live"],
        *counts,
        row["address"],
        row["worker_id"],
    ]


def service_problems(services: Sequence[ViewRow]) -> list[tuple[str, object]]:
    """Returns why services are not ready: no device that fits them, or the error of the newest attempt."""
    return [(f"{row['name']}.{row['replica']}", text) for row in services if (text := _service_problem(row))]


def _service_problem(row: ViewRow) -> str:
    if row["unschedulable"]:
        return f"waits for a device: {one_line(row['unschedulable'])}"
    if row["failed_attempts"] is None:
        return ""
    if row["ending"] == LOST:
        return f"attempt {row['failed_attempts']}: its worker was lost; a round waits until it runs again"
    error = ": ".join(one_line(row[name]) for name in ("error_type", "error_message") if row[name])
    code = "" if row["exit_code"] is None else f" with exit code {row['exit_code']}"
    end = shortened(error, ERROR_WIDTH) if error else f"{row['ending']}{code}"
    return f"attempt {row['failed_attempts']}: {end}; see trackside logs {row['task_id']}"


def deployment_table(deployments: Sequence[ViewRow]) -> TextTable:
    """Returns the table of what was brought to the targets of a job."""
    columns = [
        Column("update", right=True),
        Column("version", right=True),
        Column("of"),
        Column("state"),
        Column("waits for", keep=True),
        Column("took", right=True),
        Column("deployed", optional=True),
        Column("why", optional=True),
    ]
    return TextTable(columns, [_deployment_cells(row) for row in deployments])


def _deployment_cells(row: ViewRow) -> list[object]:
    of = row["cause"] if row["round"] is None else f"round {row['round']}"
    waits = ", ".join(row["open"]) if row["state"] != "deployed" else ""
    took = None if row["took_s"] is None else duration(row["took_s"])
    why = shortened(row["message"], WHY_WIDTH)
    return [
        row["update_number"],
        row["version"],
        of,
        row["state"],
        waits,
        took,
        row["deployed_at"],
        why,
    ]
