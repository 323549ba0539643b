from dataclasses import replace

import pytest

from tests.unit.domain.given import STREAM, Told, finish, report, search_running, submitted, suggested
from tests.unit.replay.given import TOPICS, after, log_of
from tests.unit.replay.test_why import asked_of
from trackside.aggregates.search.messages import SearchStopRequested
from trackside.cli.commands.replay.show import change_lines, show_past
from trackside.cli.commands.replay.why import drawn, note_on
from trackside.cli.render import screen
from trackside.cli.render.progress import progress_of, rate
from trackside.replay.find_stream import find_stream
from trackside.replay.history.recorded_stream import state_at
from trackside.replay.history.state_view import changes, state_view


def long_search(trials: int) -> Told:
    told = search_running(max_trials=trials, concurrency=1)
    for trial in range(trials):
        told.tell(suggested(trial), submitted(trial))
        finish(told, trial, trial / 8)
    told.tell(report(9, 0.5, trials - 1))
    return told


async def shown(told: Told, capsys: pytest.CaptureFixture[str]) -> str:
    history = await find_stream(await log_of(told), TOPICS, STREAM)
    show_past(history, await state_at(history))
    return capsys.readouterr().out


async def test_the_timeline_of_a_late_trial_fits_a_screen_and_counts_what_it_leaves_out() -> None:
    lines = [line.plain for line in drawn(await asked_of(long_search(30), "29"))]
    assert len(lines) < 30
    assert any(" tasks" in line for line in lines)
    assert sum("│" in line for line in lines) < 12
    assert sum("●" in line for line in lines) == 7
    void = next(line for line in lines if "✗" in line)
    assert void.split("✗")[1].split()[1:3] == ["MetricReported", "[overtaken:"]


async def test_guessed_causes_are_said_to_be_guessed() -> None:
    found = await asked_of(long_search(1), "0")
    assert note_on(found) == "this log names no causes: they were inferred from the state"
    named = replace(found.own[1], cause=f"{STREAM}@2", guessed=False)
    some = note_on(replace(found, own=[found.own[0], named]))
    assert some == "the first events of this log name no causes: these were inferred from the state"
    assert note_on(replace(found, causes=[], own=[named], then=[])) == ""


async def test_a_search_is_shown_with_its_trials_and_why_it_was_stopped_and_a_narrow_screen_cuts_no_value(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = (await shown(long_search(3), capsys)).splitlines()
    assert said[0].startswith(f"{STREAM}  search NO_MORE_TRIAL, after offset 24, 2023-")
    assert said[1].strip() == "25 records by then, 1 without effect"
    assert "best: 0.25 of trial 2" in said[3]
    assert max(map(len, said)) <= screen.WIDTH
    told = after(search_running(), SearchStopRequested(command_id="c-2", reason="enough"))
    assert "  stopped: enough\n" in await shown(told, capsys)
    monkeypatch.setattr(screen, "WIDTH", 60)
    text = await shown(long_search(1), capsys)
    assert "parameters" in text and "where" not in text and "…" not in text


def test_a_change_is_written_field_by_field() -> None:
    told = long_search(1)
    before = state_view(told.stream)
    assert [line for change in changes(before, before) for line in change_lines(change)] == []
    first = [line for change in changes(None, before) for line in change_lines(change)]
    assert f"+ task {STREAM}.0" in first
    assert "    status: SUCCEEDED" in first


def test_a_rate_has_few_digits_and_only_a_terminal_has_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    assert [rate(12.4), rate(9_999), rate(42_387)] == ["12/s", "9999/s", "42k/s"]
    with progress_of("reading") as told:
        told(1, 2)
    assert capsys.readouterr().err == ""
