"""The page of workers and devices: what runs where, and why tasks wait."""

from trackside.console.commands.actions import device_action, worker_actions
from trackside.console.commands.forms import Form
from trackside.console.pages.thinning import thinned_note
from trackside.console.web.page import ChartValues, PageNotFound, PageRequest, Shown
from trackside.contracts.envelope.memory import shown as memory
from trackside.domain.display.text import as_text
from trackside.domain.rows.table import ViewRow
from trackside.eventlog.clock import now_ms
from trackside.projections.pages.timeline_columns import timeline_columns

HOUR_MS = 3_600_000
QUEUE, DEVICES, WORKERS = 100, 50, 100
"""How many queued tasks, devices of a page, and workers are shown."""
SPANS = (("0.25", "15 minutes"), ("1", "hour"), ("6", "6 hours"), ("24", "day"), ("168", "week"))


async def fleet(request: PageRequest) -> Shown:
    """Shows devices, queue and workers."""
    models = request.models
    offset = request.number("offset", 0)
    values = {
        "devices": await models.rows("devices_page", offset, DEVICES),
        "device_count": (await models.rows("device_count"))[0]["devices"],
        "offset": offset,
        "limit": DEVICES,
        "workers": await models.rows("newest_workers", WORKERS),
        "worker_count": (await models.rows("worker_count"))[0]["workers"],
        "queue": await models.rows("some_tasks", None, "queued", QUEUE),
        "queued": sum(each["tasks"] for each in await models.rows("queue")),
        "spans": SPANS,
        "hours": request.one_of("hours", tuple(value for value, _ in SPANS), "1"),
        "needs": needs,
        "why_waiting": why_waiting,
    }
    return Shown("fleet.html", "Fleet", values, section="fleet")


async def task_types(request: PageRequest) -> Shown:
    """Shows what the tasks of each type have used; a page of its own, since it reads all attempts."""
    values = {"task_types": await request.models.rows("task_types")}
    return Shown("task_types.html", "What task types use", values, section="fleet")


async def device_forms(request: PageRequest) -> list[Form]:
    """Returns the forms for the device of the query, or for all of its worker's, as they are now.

    Raises PageNotFound.
    """
    worker, device = request.query.get("worker", ""), request.query.get("device", "")
    if not device:
        devices = await request.models.rows("devices_of_worker", worker)
        if not devices:
            raise PageNotFound(f"there is no worker {worker[:100]} with devices")
        return worker_actions(worker, devices)
    found = await request.models.row("device", worker, device)
    if found is None:
        raise PageNotFound(f"there is no device {worker[:100]}/{device[:100]}")
    return [device_action(found)]


def needs(task: ViewRow) -> str:
    """Returns what a task needs of a device, as text."""
    parts = [f"{task['devices']} x {task['kind']}" if task["devices"] > 1 else str(task["kind"])]
    parts += [f"device {task['fixed_device']}"] if task["fixed_device"] else []
    parts += ["alone on it"] if task["exclusive"] or task["whole_device"] else []
    for name, words in (("estimate_memory_bytes", "memory"), ("estimate_cuda_memory_bytes", "CUDA memory")):
        parts += [f"{memory(task[name])} {words}"] if task[name] else []
    return ", ".join(parts)


def why_waiting(task: ViewRow) -> str:
    """Returns why a queued task is not placed, as far as the rows say it."""
    if task["unschedulable"]:
        return as_text(task["unschedulable"])
    if task["not_before"] is not None and task["not_before"].timestamp() * 1000 > now_ms():
        return f"tried again at {task['not_before']:%H:%M:%S} UTC"
    return "no free device that fits"


async def timeline(request: PageRequest) -> ChartValues:
    """What each device ran in the last `hours`, or from `from` to `to`, ms since 1970."""
    now = now_ms()
    hours = min(max(request.finite("hours", 1), 0.01), 24 * 366)
    from_ms = int(request.finite("from", now - hours * HOUR_MS))
    to_ms = int(request.finite("to", now))
    found = await timeline_columns(request.models, from_ms, to_ms)
    arrays = {
        "row": found.arrays["device"],
        "start": found.arrays["began_ms"],
        "end": found.arrays["ended_ms"],
        "state": found.arrays["ending"],
        "label": found.arrays["task"],
        "stream": found.arrays["stream"],
    }
    labels = found.labels
    shown = {
        "row": labels["device"],
        "state": labels["ending"],
        "label": labels["task"],
        "stream": labels["stream"],
    }
    return ChartValues(arrays, shown, {"now": now, "note": thinned_note(found)})
