"""Which commands begin and stop a stream, by the registry."""

from typing import Any

import pytest

from tests.aggregates.registered import repeats_registered
from tests.aggregates.repeat.messages import StartRepeat, StopRepeat
from trackside.aggregates.batch.aggregate import BATCH, BatchType
from trackside.aggregates.batch.messages import BatchEnded, StopTasks
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.aggregate import SEARCH
from trackside.aggregates.search.messages import StopSearch
from trackside.cli.commands.submit import new_stream_id
from trackside.domain.folding.aggregate import Aggregates, AggregateType
from trackside.sdk.definitions.specs import parse_spec
from trackside.sdk.errors import SpecError


@pytest.mark.parametrize("aggregate", AGGREGATES.types, ids=lambda aggregate: aggregate.kind)
def test_a_spec_file_becomes_a_command_of_its_aggregate(aggregate: AggregateType[Any]) -> None:
    assert {spec.command for spec in aggregate.specs} <= aggregate.commands.keys()
    stop = aggregate.stop_command("", "")
    assert stop is None or type(stop) in aggregate.commands


def test_a_stream_is_stopped_by_the_command_of_its_aggregate() -> None:
    for kind, task, command in (
        ("search", "", StopSearch(reason="enough")),
        ("batch", "", StopTasks(reason="enough")),
        ("batch", "small", StopTasks(task="small", reason="enough")),
    ):
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


def test_an_aggregate_that_is_added_has_spec_files_and_is_stopped_by_its_command() -> None:
    text = b"kind: repeat\ntask_type: digits\ntimes: 3\nkeep_s: 30m\n"
    with pytest.raises(SpecError, match="expected one of: search, tasks, task"):
        parse_spec(text, "spec.yaml")
    with repeats_registered():
        command = parse_spec(text, "spec.yaml")
        assert command == StartRepeat(task_type="digits", times=3, keep_s=1_800)
        assert new_stream_id(command).startswith("digits-")
        assert AGGREGATES.stop_command("repeat", "", "enough") == StopRepeat(reason="enough")
        with pytest.raises(SpecError, match=r"spec.yaml:3: .*did you mean 'times'"):
            parse_spec(text.replace(b"times", b"tims"), "spec.yaml")
