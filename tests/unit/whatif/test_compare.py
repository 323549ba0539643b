"""What-if: a recorded search in virtual time, under other assessors, fleets and orders."""

import json
import random
from typing import Any

import pytest

from tests.unit.domain.given import finish, search_running, submitted, suggested
from tests.unit.projections.given import search_decisions
from tests.unit.replay.given import TOPICS, empty, tell, write
from tests.unit.whatif.given import BAD, GOOD, MEDIAN, recorded, trace
from trackside.aggregates.search.messages import TrialStatus
from trackside.cli.commands.replay.whatif import show
from trackside.cli.render import screen
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import BadScenarioError, NotRecordedError
from trackside.replay.history.point_in_time import PointInTime
from trackside.whatif.charts.bar_chart import page, png
from trackside.whatif.compare import ScenarioGrid, compare, parse_assessor, parse_placement_order
from trackside.whatif.recording import read_recording
from trackside.whatif.resimulate import Scenario, resimulate


def test_as_recorded_the_model_makes_what_was_recorded() -> None:
    recording = recorded(trace(0, GOOD), trace(1, GOOD), trace(2, BAD))
    for freed in (False, True):
        search = resimulate(recording, Scenario("as recorded", 1, 1, freed))
        assert search.makespan_ms == recording.makespan_ms
        assert search.device_ms == sum(one.busy_ms for one in recording.traces)
        assert [trial.trace.number for trial in search.trials] == [0, 1, 2]


def test_a_hopeless_trial_is_stopped_and_its_slot_is_used_only_where_freed_slots_are() -> None:
    recording = recorded(trace(0, GOOD), trace(1, GOOD), trace(2, BAD), trace(3, GOOD))
    frozen = resimulate(recording, Scenario("median", 1, 1, False, MEDIAN))
    freed = resimulate(recording, Scenario("median", 1, 1, True, MEDIAN))
    for search in (frozen, freed):
        assert [trial.trace.number for trial in search.trials if trial.stopped] == [2]
        assert search.device_ms == 20_000 - 3_900  # at its first report, and 100 ms more
    assert (frozen.makespan_ms, freed.makespan_ms) == (recording.makespan_ms, recording.makespan_ms - 3_900)
    late = trace(2, [0.9, 0.9, 0.9, 0.01], busy_ms=4_050)  # it ends before its stop takes effect
    threshold = Scenario("threshold", 1, 1, False, parse_assessor("threshold:lower=0.05"))
    search = resimulate(recorded(trace(0, GOOD), trace(1, GOOD), late), threshold)
    assert not any(trial.stopped for trial in search.trials)


def test_regret_says_that_the_best_trial_was_stopped_and_what_that_lost() -> None:
    slow = trace(2, [0.1, 0.2, 0.9, 0.95])
    found = compare(recorded(trace(0, GOOD), trace(1, GOOD), slow), ScenarioGrid(assessors=[MEDIAN]))
    row = found.results[1]
    assert (row.mode, row.best_trial_stopped, row.stopped_trials) == ("frozen", True, (2,))
    assert row.best is not None and row.best.number == 0
    assert row.rank_of_best == 2
    assert row.value_lost == pytest.approx(0.15)
    recording = recorded(trace(0, BAD), trace(1, BAD), trace(2, GOOD), direction="minimize")
    found = compare(recording, ScenarioGrid(assessors=[MEDIAN]))
    assert found.best is not None and found.best.number == 0, "smaller values are better"
    assert (found.results[1].stopped_trials, found.results[1].value_lost) == ((2,), 0.0)


def test_what_the_record_stopped_early_is_counted_as_unknown_where_it_goes_on() -> None:
    stopped = trace(2, [0.9], status=TrialStatus.EARLY_STOPPED)
    recording = recorded(trace(0, GOOD), trace(1, GOOD), stopped, stops_recorded=1)
    found = compare(recording, ScenarioGrid(assessors=[MEDIAN]))
    assert [row.unknown_trials for row in found.results] == [0, 1, 1]
    assert any("1 trials were stopped early in the record" in line for line in found.assumptions)


def test_more_devices_and_another_order_matter_only_where_trials_wait() -> None:
    recording = recorded(*(trace(number, GOOD) for number in range(4)))
    found = compare(recording, ScenarioGrid(workers=[2]))
    assert [row.makespan_saved for row in found.results] == [0, 0]
    assert any("--concurrency" in line for line in found.assumptions)
    found = compare(recording, ScenarioGrid(workers=[2, 4], concurrency=4))
    assert [row.search.makespan_ms for row in found.results] == [20_000, 10_000, 5_000]
    assert [row.device_saved for row in found.results] == [0, 0, 0]
    lengths = [1, 1, 1, 5]
    recording = recorded(*(trace(number, GOOD[:n]) for number, n in enumerate(lengths)))
    grid = ScenarioGrid(workers=[2], orders=["first-come", "longest-first"], concurrency=4)
    rows = {row.search.scenario.order: row.search for row in compare(recording, grid).results[1:]}
    assert rows["longest-first"].makespan_ms < rows["first-come"].makespan_ms
    assert rows["longest-first"].trials[0].began_ms == 0


def test_a_trial_of_several_devices_needs_all_of_them_at_once() -> None:
    recording = recorded(trace(0, GOOD, devices=2), trace(1, GOOD, devices=2), concurrency=2, devices=2)
    found = compare(recording, ScenarioGrid(workers=[3]))
    assert (found.results[1].search.makespan_ms, found.results[0].search.device_ms) == (10_000, 20_000)
    with pytest.raises(BadScenarioError, match="needs 2 devices"):
        compare(recording, ScenarioGrid(workers=[1]))


def test_every_trial_ends_once_whatever_is_asked() -> None:
    chance = random.Random(3)
    for _ in range(40):
        traces = [
            trace(number, [chance.random() for _ in range(chance.randrange(6))])
            for number in range(chance.randrange(1, 12))
        ]
        recording = recorded(*traces, devices=3, concurrency=chance.randrange(1, 6))
        grid = ScenarioGrid([MEDIAN, parse_assessor("asha")], [1, 2], 1, ["newest-first"])
        for row in compare(recording, grid).results:
            assert sorted(trial.trace.number for trial in row.search.trials) == list(range(len(traces)))
            assert 0 <= row.search.device_ms <= sum(one.busy_ms for one in traces)


def test_an_assessor_is_read_as_it_is_typed() -> None:
    for text, expected in (
        ("median", {}),
        ("median:n_warmup_steps=5,interval_steps=2", {"n_warmup_steps": 5, "interval_steps": 2}),
        ("percentile:percentile=25.0", {"percentile": 25.0}),
        ('patient:patience=3,wrapped={"name": "median"}', {"patience": 3, "wrapped": {"name": "median"}}),
    ):
        assert parse_assessor(text) == {"name": text.partition(":")[0], "options": expected}


def test_an_assessor_that_is_none_is_said_with_what_is_expected() -> None:
    for text, said in (
        ("medium", "assessor.name: unknown assessor 'medium'"),
        ("median:warmup=5", "assessor.options.warmup: unknown option"),
        ("median:n_warmup_steps", "'n_warmup_steps' of 'median:n_warmup_steps' is not an option"),
    ):
        with pytest.raises(BadScenarioError, match=said):
            parse_assessor(text)
    with pytest.raises(BadScenarioError, match="expected first-come, newest-first"):
        parse_placement_order("random")


@pytest.mark.thorough
def test_a_comparison_is_json_and_two_pictures() -> None:
    slow = trace(2, [0.1, 0.2, 0.9, 0.95])
    recording = recorded(trace(0, GOOD), trace(1, GOOD), slow, stream_id="<b>")
    found = compare(recording, ScenarioGrid([MEDIAN, parse_assessor("asha")], concurrency=2, workers=[2]))
    written = json.loads(json.dumps(found.as_json()))
    assert [row["mode"] for row in written["scenarios"]] == ["freed"] * 3
    html = page(found)
    assert "<svg" in html and "&lt;b&gt;" in html and "<b>" not in html and "http" not in html
    assert png(found).startswith(b"\x89PNG")


def test_the_table_fits_the_screen_and_a_narrow_one_leaves_columns_out(capsys: Any, monkeypatch: Any) -> None:
    many = [parse_assessor("median:n_startup_trials=3,n_warmup_steps=5,interval_steps=2"), MEDIAN]
    show(compare(recorded(trace(0, GOOD), trace(1, GOOD), trace(2, BAD)), ScenarioGrid(many)))
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= screen.WIDTH
    assert "frozen" in said and "freed" in said and "assumed:" in said
    heading = next(line for line in said.splitlines() if line.startswith("scenario"))
    assert heading.split()[-3:] == ["best", "lost", "rank"]  # none of them is cut off
    monkeypatch.setattr(screen, "WIDTH", 60)
    found = compare(recorded(trace(0, GOOD), trace(1, GOOD), trace(2, BAD)), ScenarioGrid([MEDIAN]))
    show(found)
    table = capsys.readouterr().out.partition("assumed:")[0]
    assert "as recorded" in table and "median" in table and "…" not in table
    assert "makespan" in table and "lost" in table and "rank" not in table


async def test_what_a_trial_said_is_recorded_with_when_it_had_its_device() -> None:
    log = await empty()
    await write(log, "one", search_decisions("one", trials=3, reports=4, lost=1))
    recording = await read_recording(await find_stream(log, TOPICS, "one"))
    assert (recording.concurrency, recording.devices, recording.omitted_trials) == (1, 1, 0)
    assert [one.number for one in recording.traces] == [0, 1, 2]
    first, again, _ = recording.traces
    assert [step for _, step, _ in first.points] == [0, 1, 2, 3]
    assert [step for _, step, _ in again.points] == [0, 1, None, 0, 1, 2, 3]
    assert [after for after, _, _ in first.points] == [40, 50, 60, 70]  # accepted, then 3 phases; 10 ms each
    assert first.busy_ms == 100
    assert again.busy_ms > first.busy_ms
    assert recording.min_placement_delay_ms == 20
    found = compare(recording, ScenarioGrid([MEDIAN]))
    assert found.results[0].search.makespan_ms <= recording.makespan_ms


async def test_trials_that_have_not_ended_are_left_out_and_a_stream_without_any_is_said() -> None:
    log = await empty()
    told = search_running(max_trials=4)
    for trial in (0, 1):
        told.tell(suggested(trial), submitted(trial))
    finish(told, 0, 0.5)
    await tell(log, "digits-1", told)
    history = await find_stream(log, TOPICS, "digits-1")
    recording = await read_recording(history)
    assert ([one.number for one in recording.traces], recording.omitted_trials) == ([0], 1)
    assert any(
        "1 trials that had not ended" in line for line in compare(recording, ScenarioGrid()).assumptions
    )
    with pytest.raises(NotRecordedError, match="no trial of digits-1 has ended"):
        await read_recording(history, PointInTime(offset=4))
