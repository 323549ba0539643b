"""The commands that change a search, typed on a terminal, against services that run."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration import command_line
from tests.integration.installed import changes, installation, variables_of
from tests.integration.projections.harness import query
from tests.polling import poll_until
from tests.stack import Servers
from trackside.aggregates.search.messages import (
    SearchPaused,
    SearchResumed,
    SearchSpaceUpdated,
    SearchUpdated,
    TrialAdded,
    TrialEnded,
    TrialsImported,
    TrialsRequested,
    TrialStatus,
    TrialSuggested,
)
from trackside.contracts.message import Event, Record
from trackside.contracts.tasks import TaskAccepted
from trackside.domain.stream import Stream
from trackside.eventlog.settings import StackSettings

SPEC = """
kind: search
task_type: noop
max_trials: 9
seed: 3
tuner: {name: random}
space:
  value: {type: uniform, low: 0, high: 1}
  seconds: {type: constant, value: SECONDS}
"""
Tried = Callable[..., Awaitable[tuple[int, str, str]]]
Typed = Callable[..., Awaitable[str]]


@pytest.fixture(scope="module")
def settings(
    stack: Servers, module_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StackSettings]:
    with installation(stack, module_database, tmp_path_factory.mktemp("services")) as settings:
        yield settings


@pytest.fixture(autouse=True)
def folder(settings: StackSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "waits.yaml").write_text(SPEC.replace("SECONDS", "3600"))
    (tmp_path / "ends.yaml").write_text(SPEC.replace("SECONDS", "0").replace("9", "3"))
    for name, value in variables_of(settings).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def tried(capsys: pytest.CaptureFixture[str]) -> Tried:
    """Gives a function that runs `trackside`: its exit code, stdout and stderr."""
    return partial(asyncio.to_thread, command_line.tried, capsys)


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    """Gives a function that runs a command, which must end with 0, and gives what it printed."""
    return partial(asyncio.to_thread, command_line.said, capsys)


async def seen(settings: StackSettings, search: str, what: Callable[[Record, Stream], bool]) -> Record:
    """Waits for the first event of a search that is so, and gives it."""
    async with aclosing(changes(settings, search)) as followed:
        async for record, stream in followed:
            if what(record, stream):
                return record
    raise AssertionError("the search is over")


def wrote(name: str, text: str) -> None:
    Path(name).write_text(text)


async def begun(settings: StackSettings, search: str, trial: int) -> None:
    task = f"{search}.{trial}"
    await seen(
        settings, search, lambda r, _: isinstance(r.message, TaskAccepted) and r.message.task_id == task
    )


def is_a(kind: type[Event]) -> Callable[[Record, Stream], bool]:
    return lambda record, _: isinstance(record.message, kind)


OTHER_SPACE = {
    "value": {"_type": "uniform", "_value": [2, 3]},
    "seconds": {"_type": "choice", "_value": [3600]},
}


async def test_a_search_is_changed_by_every_command_while_it_goes_on(
    settings: StackSettings, tried: Tried, typed: Typed
) -> None:
    """D10, D12, D13, D14, D25, D26: and a trial that a user stops is USER_CANCELED (D22)."""
    search = f"life-{secrets.token_hex(3)}"
    await typed("submit", "waits.yaml", "--id", search)
    await begun(settings, search, 0)

    assert f"{search} accepted" in await typed("pause", search, "--reason", "lunch")
    paused = await seen(settings, search, is_a(SearchPaused))
    assert paused.message.reason == "lunch"  # type: ignore[attr-defined]
    await typed("stop-trial", search, "0")
    ended = (await seen(settings, search, is_a(TrialEnded))).message
    assert isinstance(ended, TrialEnded) and ended.status is TrialStatus.USER_CANCELED
    await typed("resume", search)
    resumed = await seen(settings, search, is_a(SearchResumed))
    await begun(settings, search, 1)

    await typed("update", search, "--max-trials", "20", "--goal", "0.99", "--max-duration", "2h")
    updated = (await seen(settings, search, is_a(SearchUpdated))).message
    assert isinstance(updated, SearchUpdated)
    assert (updated.max_trials, updated.goal, updated.max_duration_s) == (20, 0.99, 7200.0)

    wrote("space.json", json.dumps(OTHER_SPACE))
    await typed("update-space", search, "space.json")
    spaced = (await seen(settings, search, is_a(SearchSpaceUpdated))).message
    assert isinstance(spaced, SearchSpaceUpdated) and spaced.space_version == 2

    wrote("past.csv", "value,parameters.value,parameters.seconds\n0.5,2.5,3600\n")
    await typed("import-trials", search, "past.csv")
    imported = (await seen(settings, search, is_a(TrialsImported))).message
    assert isinstance(imported, TrialsImported)
    assert imported.trials[0].parameters == {"value": 2.5, "seconds": 3600}

    code, _, err = await tried("add-trial", search, "value=7", "sceonds=3600")
    assert code == 2 and "did you mean 'seconds'?" in err and "7 is not a number from 2.0 to 3.0" in err
    await typed("add-trial", search, "value=7", "--outside")
    await seen(settings, search, is_a(TrialAdded))
    await typed("request-trials", search, "1")
    await seen(settings, search, is_a(TrialsRequested))
    await begun(settings, search, 2)  # beside trial 1, which still runs: the concurrency is 1
    second = (await seen(settings, search, lambda r, s: _suggests(r, 2))).message
    assert isinstance(second, TrialSuggested)
    assert (second.source, second.outside) == ("customized", ["value"])
    assert second.parameters == {"value": 7, "seconds": 3600}
    assert resumed.offset < (await seen(settings, search, lambda r, _: _suggests(r, 1))).offset

    await typed("stop", search, "--wait")
    shown = await typed("show", search)
    assert all(word in shown for word in ("STOPPED", "USER_CANCELED", "customized"))
    assert "20 trials, 1 at once, 2 h 00 min of running, until 0.99 is reached" in shown
    for rows in (
        json.loads(await typed("show", search, "--json"))["trials"],
        json.loads(await typed("export-trials", search, "--all")),
    ):
        assert origins(rows) == [("algorithm", 1), ("algorithm", 1), ("customized", 2)]
    for verb in ("pause", "resume", "request-trials"):
        code, _, err = await tried(verb, search, *(["1"] if verb == "request-trials" else []))
        assert code == 2 and "already_terminal" in err, verb


def origins(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Gives who suggested the first three trials, and of which version of the space they are."""
    return [(row["source"], row["space_version"]) for row in rows[:3]]


def _suggests(record: Record, trial: int) -> bool:
    return isinstance(record.message, TrialSuggested) and record.message.trial == trial


REFUSED = (
    (("pause", "nobody"), "nobody refused: unknown_search"),
    (("stop-trial", "SEARCH", "99"), "unknown_trial at $.trial"),
    (("update-space", "SEARCH", "grid.json"), "bad_search_space at $.value"),
    (("import-trials", "SEARCH", "odd.json"), "bad_parameters at $.trials[0].parameters"),
    (("update", "SEARCH", "--goal", "1", "--remove", "goal"), "unknown_value at $.remove"),
    (("update", "SEARCH", "--max-duration", "soon"), "expected seconds, or a number with s, m, h or d"),
)


async def test_what_is_refused_is_said_in_one_line_and_exits_with_2(tried: Tried, typed: Typed) -> None:
    search = f"refused-{secrets.token_hex(3)}"
    await typed("submit", "waits.yaml", "--id", search)
    wrote("grid.json", '{"value": {"type": "uniform", "low": 2, "high": 1}}')
    wrote("odd.json", '[{"parameters": {"lr": 1, "value": 0.5, "seconds": 3600}, "value": 1}]')
    for arguments, said in REFUSED:
        asked = [search if word == "SEARCH" else word for word in arguments]
        code, out, err = await tried(*asked)
        assert (code, out) == (2, "")
        assert said in err and err.startswith("trackside: ") and err.count("\n") == 1
        assert (await tried(*asked, "--json"))[0] == 2
    await typed("stop", search, "--wait")


async def test_all_problems_of_a_spec_are_printed_with_their_lines(tried: Tried) -> None:
    search = f"refused-{secrets.token_hex(3)}"
    space = "space:\n  x: {type: uniform, low: 0, high: 1}\n"
    wrote("fields.yaml", "kind: search\ntask_type: nope\nmax_trials: 0\nconcurrency: 0\n" + space)
    code, _, err = await tried("submit", "fields.yaml", "--id", search)
    assert code == 2 and "fields.yaml:3: $.max_trials: " in err and "fields.yaml:4: $.concurrency: " in err
    wrote("asks.yaml", "kind: search\ntask_type: nope\nmax_trials: 1\ntuner:\n  name: tpee\n" + space)
    code, _, err = await tried("submit", "asks.yaml", "--id", search)
    assert code == 2 and f"{search} refused: asks.yaml:2: unknown_task_type at $.task_type: " in err
    assert "asks.yaml:5: unknown_tuner at $.tuner.name: " in err
    code, out, _ = await tried("submit", "asks.yaml", "--id", search, "--json")
    found = [(problem["code"], problem["line"]) for problem in json.loads(out)["problems"]]
    assert (code, found) == (2, [("unknown_task_type", 2), ("unknown_tuner", 5)])


async def test_a_ping_is_answered_with_times(typed: Typed) -> None:
    """D21: nothing but an answer."""
    text = await typed("ping")
    assert text.startswith("trackside/dispatcher/") and " answered in " in text
    found = json.loads(await typed("ping", "any-stream", "--json"))
    assert found["stream"] == "any-stream"
    assert 0 < found["published_ms"] <= found["whole_ms"] < 60_000 and found["answered_ms"] >= 0


async def test_trials_that_were_exported_are_known_to_the_tuner_of_another_search(
    settings: StackSettings, tried: Tried, typed: Typed
) -> None:
    """D38: what one search exports another one imports, as JSON and as CSV, and as NNI writes it."""
    search = f"old-{secrets.token_hex(3)}"
    await typed("submit", "ends.yaml", "--id", search, "--wait")
    rows = json.loads(await typed("export-trials", search))
    assert [row["status"] for row in rows] == ["SUCCEEDED"] * 3
    await typed("export-trials", search, "--out", "trials.csv")
    code, _, err = await tried("export-trials", "no-such")
    assert code == 1 and "there is no stream 'no-such'" in err
    code, out, _ = await tried("importances", search)
    assert code == 0 and f"{search} has 3 trials with a value; importances need 10" in out
    shares = json.loads(await typed("importances", search, "--json"))
    assert (shares["objectives"], "importances need 10" in shares["message"]) == ([], True)
    for name, text in (("a.json", await typed("export-trials", search)), ("c.csv", "")):
        new = f"new-{secrets.token_hex(3)}"
        file = name if text else "trials.csv"
        if text:
            wrote(name, text)
        await typed("submit", "waits.yaml", "--id", new)
        space = {
            "value": {"type": "uniform", "low": 0, "high": 1},
            "seconds": {"type": "choice", "values": [0, 3600]},
        }
        wrote("both.json", json.dumps(space))
        await typed("update-space", new, "both.json")
        await typed("import-trials", new, file)
        imported = (await seen(settings, new, is_a(TrialsImported))).message
        assert isinstance(imported, TrialsImported)
        told = [(past.parameters, past.value) for past in imported.trials]
        assert told == [(row["parameters"], row["value"]) for row in rows]
        await typed("stop", new, "--wait")
    knows = f"knows-{secrets.token_hex(3)}"
    await typed("submit", "ends.yaml", "--id", knows, "--past", "trials.csv", "--wait")
    known = (await seen(settings, knows, is_a(TrialsImported))).message
    assert isinstance(known, TrialsImported) and len(known.trials) == 3


async def test_tags_a_note_and_archiving_change_what_is_listed(
    settings: StackSettings, tried: Tried, typed: Typed
) -> None:
    kept, old = (f"{name}-{secrets.token_hex(3)}" for name in ("kept", "old"))
    for search in (kept, old):
        await typed("submit", "ends.yaml", "--id", search, "--wait")
    assert f"{old} accepted" in await typed("annotate", old, "--tag", "paper", "--tag", "draft", "--archive")
    await typed("annotate", kept, "--tag", "paper", "--note", "For table 2")
    await typed("annotate", old, "--untag", "draft")
    await poll_until(partial(_has_labels, settings, [(kept, ["paper"], False), (old, ["paper"], True)]))

    async def listed(*options: str) -> set[str]:
        return {row["id"] for row in json.loads(await typed("ls", "--json", *options))} & {kept, old}

    assert await listed() == {kept}
    assert await listed("--archived") == {kept, old}
    assert await listed("--tag", "paper") == {kept}
    assert await listed("--tag", "paper", "--tag", "draft", "--archived") == set()
    assert await listed("--tag", "paper", "--archived", "--limit", "1") == {old}, "the newest of both"
    assert "paper" in await typed("ls")
    shown = await typed("show", kept)
    assert "For table 2" in shown and "paper" in shown
    labels = json.loads(await typed("show", old, "--json"))["stream_labels"]
    assert (labels["tags"], labels["note"], labels["archived"]) == (["paper"], "", True)
    past = json.loads(await typed("replay", "show", old, "--json"))
    assert past["state"]["stream_labels"] == {"tags": ["paper"], "note": "", "archived": True}

    await typed("annotate", old, "--unarchive")
    await poll_until(partial(_has_labels, settings, [(kept, ["paper"], False), (old, ["paper"], False)]))
    assert await listed() == {kept, old}
    code, _, err = await tried("annotate", old)
    assert code == 2 and "nothing to change" in err
    code, _, err = await tried("annotate", old, "--tag", "two words")
    assert code == 2 and "add_tags[0]" in err
    code, _, err = await tried("annotate", "nothing-here", "--archive")
    assert code == 2 and "nothing has begun" in err


async def _has_labels(settings: StackSettings, rows: list[tuple[object, ...]]) -> bool:
    names = [row[0] for row in rows]
    select = (
        "SELECT stream_id, tags, archived FROM dashboards.stream_labels WHERE stream_id = ANY($1) ORDER BY 1"
    )
    return await query(settings.postgres_dsn, select, names) == rows


async def test_a_drained_device_gets_no_task_until_it_is_resumed(
    settings: StackSettings, tried: Tried, typed: Typed
) -> None:
    await poll_until(partial(_is_draining, settings, [("cpu-0", False, None), ("cpu-1", False, None)]))
    assert "w1 accepted" in await typed("drain", "w1/cpu-0", "--reason", "new fan")
    await poll_until(partial(_is_draining, settings, [("cpu-0", True, "new fan"), ("cpu-1", False, None)]))
    search = f"drained-{secrets.token_hex(3)}"
    await typed("submit", "ends.yaml", "--id", search, "--wait")
    placed = "SELECT DISTINCT device_ids FROM placements WHERE stream_id = $1"
    assert await query(settings.postgres_dsn, placed, search) == [(["cpu-1"],)]
    listed = {row["device_id"]: row["state"] for row in json.loads(await typed("devices", "--json"))}
    assert listed["cpu-0"] == "drained"

    await typed("resume-device", "w1/cpu-0")
    await poll_until(partial(_is_draining, settings, [("cpu-0", False, None), ("cpu-1", False, None)]))
    code, _, err = await tried("drain", "w1/cpu-9")
    assert code == 2 and "there are: w1/cpu-0, w1/cpu-1" in err
    code, _, err = await tried("drain", "cpu-0")
    assert code == 2 and "no worker 'cpu-0' has joined; newest: w1; expected WORKER/DEVICE" in err


async def test_a_worker_is_drained_with_all_of_its_devices(settings: StackSettings, typed: Typed) -> None:
    await poll_until(partial(_is_draining, settings, [("cpu-0", False, None), ("cpu-1", False, None)]))
    printed = await typed("drain", "w1", "--reason", "moved", "--command-id", f"moved-{secrets.token_hex(3)}")
    assert printed.count("w1 accepted") == 2
    await poll_until(partial(_is_draining, settings, [("cpu-0", True, "moved"), ("cpu-1", True, "moved")]))
    await typed("resume-device", "w1")
    await poll_until(partial(_is_draining, settings, [("cpu-0", False, None), ("cpu-1", False, None)]))


async def _is_draining(settings: StackSettings, rows: list[tuple[object, ...]]) -> bool:
    select = "SELECT device_id, draining, drain_reason FROM dashboards.devices ORDER BY 1"
    return await query(settings.postgres_dsn, select) == rows
