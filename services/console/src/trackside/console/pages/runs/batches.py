"""The page of a batch: its groups with how far each is, and its tasks."""

from trackside.aggregates.batch.view import GROUPS, BatchView
from trackside.console.pages.stream import stream_values
from trackside.console.web.page import PageRequest, Shown
from trackside.domain.rows.table import ViewRow
from trackside.projections.pages.stream_tasks import (
    TASK_SORTS,
    StreamTaskFilter,
    count_stream_tasks,
    count_task_states,
    read_children,
    read_stream_tasks,
)

LIMIT = 50
CHILDREN = 100


async def batch(request: PageRequest, row: ViewRow) -> Shown:
    """Shows a batch: its groups, and its tasks as the query filters and sorts them."""
    batch_id, models = request.parts["stream_id"], request.models
    states = await count_task_states(models, batch_id)
    wanted = StreamTaskFilter(
        batch_id,
        group=request.number("group", 0) or None,
        text=request.query.get("text", "")[:200],
        state=request.one_of("state", tuple(states), ""),
        sort=request.one_of("sort", tuple(TASK_SORTS), "place"),
        descending=request.query.get("order", "asc") == "desc",
        limit=LIMIT,
        offset=request.number("offset", 0, highest=10_000_000),
    )
    groups = await models.rows(f"batch.{GROUPS}", batch_id)
    facts = BatchView().facts(row, {})
    values = {
        **stream_values(request, "batch", row),
        "facts": [(name, value) for name, value in facts if name not in ("batch", "name", "status", "tasks")],
        "groups": groups,
        "group_names": {each["group_number"]: each["name"] for each in groups},
        "states": states,
        "tasks": await read_stream_tasks(models, wanted),
        "total": await count_stream_tasks(models, wanted),
        "filter": wanted,
        "children": await read_children(models, batch_id, batch_id, CHILDREN),
    }
    title = str(row["name"] or batch_id)
    return Shown("batch.html", title, values, frozenset((batch_id,)), section="experiments")
