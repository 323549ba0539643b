"""The page of a dataset: how far it was observed, what is wrong with it, and the jobs that train with it."""

from trackside.aggregates.dataset.view import DatasetView
from trackside.console.pages.stream import stream_values
from trackside.console.web.page import PageRequest, Shown
from trackside.domain.rows.table import ViewRow
from trackside.projections.pages.job_rounds import read_jobs_of_dataset
from trackside.projections.pages.stream_tasks import StreamTaskFilter, count_stream_tasks, read_stream_tasks

LIMIT = 50
JOBS = 50
_ELSEWHERE = ("dataset", "status", "since", "reason", "samples", "size", "observed")
"""Facts that other parts of the page show."""


async def dataset(request: PageRequest, row: ViewRow) -> Shown:
    """Shows a dataset: its samples, its state, the jobs that train with it, and the tasks that watch it."""
    dataset_id, models = request.parts["stream_id"], request.models
    wanted = StreamTaskFilter(
        dataset_id, sort="queued", descending=True, limit=LIMIT, offset=request.number("offset", 0)
    )
    facts = DatasetView().facts(row, {})
    values = {
        **stream_values(request, "dataset", row),
        "facts": [
            (name, value)
            for name, value in facts
            if name not in _ELSEWHERE and value not in (None, "", {}, [])
        ],
        "jobs": await read_jobs_of_dataset(models, dataset_id, JOBS),
        "tasks": await read_stream_tasks(models, wanted),
        "total": await count_stream_tasks(models, wanted),
        "filter": wanted,
    }
    return Shown("dataset.html", dataset_id, values, frozenset((dataset_id,)), section="experiments")
