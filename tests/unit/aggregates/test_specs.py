"""Which commands begin and stop a stream, by the registry."""

from typing import Any

import pytest

from trackside.aggregates.batch.aggregate import BATCH, BatchType
from trackside.aggregates.batch.messages import BatchEnded, StopTasks
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.aggregate import SEARCH
from trackside.aggregates.search.messages import StopSearch
from trackside.contracts.message import Command
from trackside.domain.aggregate import Aggregates, AggregateType


@pytest.mark.parametrize("aggregate", AGGREGATES.types, ids=lambda aggregate: aggregate.kind)
def test_a_spec_file_becomes_a_command_of_its_aggregate(aggregate: AggregateType[Any]) -> None:
    assert {spec.command for spec in aggregate.specs} <= aggregate.commands.keys()
    assert type(aggregate.stop_command("", "")) in aggregate.commands


@pytest.mark.parametrize(
    ("kind", "task", "command"),
    [
        ("search", "", StopSearch(reason="enough")),
        ("batch", "", StopTasks(reason="enough")),
        ("batch", "small", StopTasks(task="small", reason="enough")),
    ],
)
def test_a_stream_is_stopped_by_the_command_of_its_aggregate(kind: str, task: str, command: Command) -> None:
    assert AGGREGATES.stop_command(kind, task, "enough") == command


def test_what_an_aggregate_cannot_stop_is_left_to_the_refusal_of_another_one() -> None:
    assert AGGREGATES.stop_command("search", "small", "") == StopTasks(task="small")
    assert AGGREGATES.stop_command("", "", "") == StopSearch()
    assert Aggregates((SEARCH,)).stop_command("search", "small", "") is None


def test_each_kind_of_spec_file_belongs_to_one_aggregate() -> None:
    class Twin(BatchType):
        kind = "twin"
        begins_with = BatchEnded  # type: ignore[assignment]  # any event that is not taken

    with pytest.raises(ValueError, match="two kinds of spec files called tasks, task"):
        Aggregates((BATCH, Twin()))
