"""The list of all experiments: filtered, sorted and paged by the address."""

from trackside.aggregates.registry import AGGREGATES
from trackside.console.web.page import PageRequest, Shown
from trackside.projections.pages.experiments import (
    SORT_KEYS,
    ExperimentFilter,
    read_experiments_page,
    read_statuses,
)

LIMIT = 50


async def experiments(request: PageRequest) -> Shown:
    """Shows the experiments that the filter in the query admits."""
    query = request.query
    wanted = filter_of(request)
    found = await read_experiments_page(request.models, wanted)
    values = {
        "filter": wanted,
        "rows": found.rows,
        "total": found.total,
        "kinds": [aggregate.kind for aggregate in AGGREGATES.types],
        "statuses": await read_statuses(request.models),
        "is_filtered": any(
            query.get(name) for name in ("text", "kind", "status", "tag", "archived", "offset")
        ),
    }
    return Shown("experiments.html", "Experiments", values, section="experiments")


def filter_of(request: PageRequest) -> ExperimentFilter:
    """Returns the filter in the query of an address; what is no filter is ignored."""
    query = request.query
    return ExperimentFilter(
        text=query.get("text", "")[:200],
        kinds=tuple(each for each in query.getlist("kind") if each in AGGREGATES.by_kind),
        statuses=tuple(each for each in query.getlist("status") if each),
        tags=tuple(each for each in query.getlist("tag") if each),
        archived=query.get("archived") == "true",
        sort=request.one_of("sort", SORT_KEYS, "started"),
        descending=query.get("order", "desc") != "asc",
        limit=LIMIT,
        offset=request.number("offset", 0, highest=10_000_000),
    )
