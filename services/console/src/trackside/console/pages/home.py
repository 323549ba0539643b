"""The first page: what runs, what ended and failed lately, the devices."""

from trackside.console.web.page import PageRequest, Shown
from trackside.projections.experiments import ExperimentFilter, newest_failures, read_experiments, running_now

SHOWN = 12


async def home(request: PageRequest) -> Shown:
    """Shows what runs now and what has ended lately."""
    models = request.models
    running = await running_now(models, SHOWN)
    newest = await read_experiments(models, ExperimentFilter(sort="ended", limit=SHOWN))
    ended = [each for each in newest if each["ended_at"] is not None]
    devices = [each for each in await models.rows("devices") if each["state"] != "gone"]
    queue = await models.rows("queue")
    values = {
        "running": running,
        "ended": ended,
        "failures": await newest_failures(models, SHOWN),
        "devices": devices,
        "busy": sum(each["state"] == "busy" for each in devices),
        "queued": sum(each["tasks"] for each in queue),
        "letters": await models.rows("dead_letters", SHOWN),
        "shown": SHOWN,
        "is_new": not running and not newest,
    }
    return Shown("home.html", "Home", values, section="home")
