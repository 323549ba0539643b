"""The first page: what runs, what ended and failed lately, the devices."""

from trackside.console.web.page import PageRequest, Shown
from trackside.projections.pages.experiments import (
    ExperimentFilter,
    newest_failures,
    read_experiments,
    running_now,
)

SHOWN, DEVICES = 12, 60
"""How many experiments, failures and dead letters, and how many devices are shown."""


async def home(request: PageRequest) -> Shown:
    """Shows what runs now and what has ended lately."""
    models = request.models
    running = await running_now(models, SHOWN)
    newest = await read_experiments(models, ExperimentFilter(sort="ended", limit=SHOWN))
    ended = [each for each in newest if each["ended_at"] is not None]
    states = {each["state"]: each["devices"] for each in await models.rows("device_states")}
    queue = await models.rows("queue")
    values = {
        "running": running,
        "ended": ended,
        "failures": await newest_failures(models, SHOWN),
        "devices": await models.rows("present_devices", DEVICES),
        "device_count": sum(states.values()),
        "busy": states.get("busy", 0),
        "queued": sum(each["tasks"] for each in queue),
        "letters": await models.rows("dead_letters", SHOWN),
        "shown": SHOWN,
        "is_new": not running and not newest,
    }
    return Shown("home.html", "Home", values, section="home")
