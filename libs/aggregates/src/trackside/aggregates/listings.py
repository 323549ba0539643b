"""How the streams of each aggregate are found and listed, without importing what else there is of it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trackside.aggregates.batch.listing import BatchListing
from trackside.aggregates.dataset.listing import DatasetListing
from trackside.aggregates.model.listing import ModelListing
from trackside.aggregates.pipeline.listing import PipelineListing
from trackside.aggregates.rounds.listing import IncrementalJobListing
from trackside.aggregates.run.listing import RunListing
from trackside.aggregates.search.listing import SearchListing
from trackside.aggregates.summary.listing import SummaryListing
from trackside.domain.display.listing import StreamListing

if TYPE_CHECKING:
    from trackside.domain.display.view import View

LISTINGS: dict[str, StreamListing] = {
    listing.kind: listing
    for listing in (
        SearchListing(),
        BatchListing(),
        ModelListing(),
        RunListing(),
        PipelineListing(),
        SummaryListing(),
        DatasetListing(),
        IncrementalJobListing(),
    )
}
"""By kind, in the order of the registry."""


def view_of(kind: str) -> "View[Any]":
    """Returns the view of one kind of aggregate: only its modules are imported. KeyError for no kind."""
    folder = type(LISTINGS[kind]).__module__.removesuffix(".listing")
    view: View[Any] = import_module(f"{folder}.view").VIEW
    return view
