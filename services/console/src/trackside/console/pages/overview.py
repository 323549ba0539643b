"""The page of one experiment: of its own kind where there is one, else facts and tables."""

from collections.abc import Awaitable, Callable, Mapping

from trackside.console.pages.rounds.datasets import dataset
from trackside.console.pages.rounds.models import model, model_version
from trackside.console.pages.rounds.rounds import rounds
from trackside.console.pages.runs.batches import batch
from trackside.console.pages.runs.pipelines import pipeline, pipeline_version
from trackside.console.pages.runs.run import run
from trackside.console.pages.searches.search import search
from trackside.console.pages.stream import found_stream, plain
from trackside.console.web.page import PageNotFound, PageRequest, Shown
from trackside.domain.rows.table import ViewRow

OverviewFunction = Callable[[PageRequest, ViewRow], Awaitable[Shown]]
_PAGES: Mapping[str, OverviewFunction] = {
    "search": search,
    "batch": batch,
    "run": run,
    "pipeline": pipeline,
    "rounds": rounds,
    "model": model,
    "dataset": dataset,
}
_VERSIONS: Mapping[str, OverviewFunction] = {
    "pipeline": pipeline_version,
    "model": model_version,
}


async def overview(request: PageRequest) -> Shown:
    """Shows the stream in the path."""
    view, row = await found_stream(request)
    own = _PAGES.get(view.kind)
    return await plain(request, view, row) if own is None else await own(request, row)


async def version(request: PageRequest) -> Shown:
    """Shows a version of what has some: a pipeline or a model."""
    view, row = await found_stream(request)
    own = _VERSIONS.get(view.kind)
    if own is None:
        raise PageNotFound(f"{request.parts['stream_id']} is a {view.kind}, which has no versions")
    return await own(request, row)
