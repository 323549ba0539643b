"""The aggregates that there are: the one place that lists them."""

from trackside.aggregates.batch.aggregate import BATCH
from trackside.aggregates.dataset.aggregate import DATASET
from trackside.aggregates.model.aggregate import MODEL
from trackside.aggregates.pipeline.aggregate import PIPELINE
from trackside.aggregates.rounds.aggregate import ROUNDS
from trackside.aggregates.run.aggregate import RUN
from trackside.aggregates.search.aggregate import SEARCH
from trackside.aggregates.summary.aggregate import SUMMARY
from trackside.domain.folding.aggregate import Aggregates

AGGREGATES = Aggregates((SEARCH, BATCH, MODEL, RUN, PIPELINE, SUMMARY, DATASET, ROUNDS))
CODEC = AGGREGATES.codec
"""Reads every message that there is: those of the aggregates, and those of none."""
