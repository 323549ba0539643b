"""What versions of models were made of: samples, code, base models and decisions, from the log."""

from functools import lru_cache, partial

from trackside.console.pages.rounds.rounds import job_row
from trackside.console.pages.stream import stream_values
from trackside.console.web.page import PageNotFound, PageRequest, Shown
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.topics import Topics
from trackside.domain.display.times import time_of_ms
from trackside.eventlog.log import Log
from trackside.replay.causality.bill_of_materials import BillReader
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import UnknownStreamError, UnknownSubjectError

SHOWN_VERSIONS = 50


async def live_bill(request: PageRequest) -> Shown:
    """Shows what the live model of a job was made of, back to the first version."""
    row = await job_row(request)
    job_id = request.parts["stream_id"]
    bill = await read_bill(request, row["live_model"], row["live_version"])
    values = {**stream_values(request, "rounds", row, "bill"), **bill_values(bill)}
    title = f"Live model of {row['name'] or job_id}"
    return Shown("bill.html", title, values, frozenset((job_id,)), section="experiments")


async def read_bill(request: PageRequest, model: str, version: int) -> Json:
    """Returns the bill of a version; raises PageNotFound if the log does not have it."""
    log, topics = request.log, request.topics
    try:
        reader = _reader(log, topics)  # type: ignore[arg-type]  # logs are compared by identity
        return await reader.bill(model, version)
    except (UnknownStreamError, UnknownSubjectError) as error:
        raise PageNotFound(str(error)) from None


@lru_cache(maxsize=1)
def _reader(log: Log, topics: Topics) -> BillReader:
    """Returns what was read of a log: an open page is rendered at each change, and reads only what is new."""
    return BillReader(log, topics, partial(find_stream, log, topics))


def bill_values(bill: Json) -> Json:
    """Returns the values of a template that shows a bill."""
    return {
        "model": bill["model"],
        "version": bill["version"],
        "versions": bill["versions"][:SHOWN_VERSIONS],
        "left_out": len(bill["versions"]) - SHOWN_VERSIONS,
        "is_cut": bool(bill.get("cut")),
        "at_time": time_of_ms,
    }
