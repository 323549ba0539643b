"""The commands that change a search, typed on a terminal, against services that run."""

import json
import secrets
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.conftest import NOOP_SEARCH, Tried, Typed
from tests.integration.installed import event_of
from tests.integration.projections.harness import query
from tests.polling import poll_until
from trackside.aggregates.search.messages import (
    SearchPaused,
    SearchResumed,
    SearchSpaceUpdated,
    SearchUpdated,
    TrialEnded,
    TrialsImported,
    TrialsRequested,
    TrialStatus,
    TrialSuggested,
)
from trackside.contracts.tasks.tasks import TaskAccepted
from trackside.eventlog.settings.settings import StackSettings


@pytest.fixture(autouse=True)
def specs(settings: StackSettings, tmp_path: Path) -> None:
    (tmp_path / "waits.yaml").write_text(NOOP_SEARCH.format(trials=9, at_once=1, seconds=3600))
    (tmp_path / "ends.yaml").write_text(NOOP_SEARCH.format(trials=3, at_once=1, seconds=0))


async def begun(settings: StackSettings, search: str, trial: int) -> None:
    await event_of(settings, search, TaskAccepted, lambda event: event.task_id == f"{search}.{trial}")


def wrote(name: str, text: str) -> None:
    Path(name).write_text(text)


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
    assert (await event_of(settings, search, SearchPaused)).reason == "lunch"
    await typed("stop-trial", search, "0")
    assert (await event_of(settings, search, TrialEnded)).status is TrialStatus.USER_CANCELED
    await typed("resume", search)
    await event_of(settings, search, SearchResumed)
    await begun(settings, search, 1)

    await typed("update", search, "--max-trials", "20", "--goal", "0.99", "--max-duration", "2h")
    updated = await event_of(settings, search, SearchUpdated)
    assert (updated.max_trials, updated.goal, updated.max_duration_s) == (20, 0.99, 7200.0)
    wrote("space.json", json.dumps(OTHER_SPACE))
    await typed("update-space", search, "space.json")
    assert (await event_of(settings, search, SearchSpaceUpdated)).space_version == 2
    wrote("past.csv", "value,parameters.value,parameters.seconds\n0.5,2.5,3600\n")
    await typed("import-trials", search, "past.csv")
    imported = await event_of(settings, search, TrialsImported)
    assert imported.trials[0].parameters == {"value": 2.5, "seconds": 3600}

    code, _, err = await tried("add-trial", search, "value=7", "sceonds=3600")
    assert code == 2 and "did you mean 'seconds'?" in err and "7 is not a number from 2.0 to 3.0" in err
    await typed("add-trial", search, "value=7", "--outside")
    await typed("request-trials", search, "1")
    await event_of(settings, search, TrialsRequested)
    await begun(settings, search, 2)  # beside trial 1, which still runs: the concurrency is 1
    second = await event_of(settings, search, TrialSuggested, lambda event: event.trial == 2)
    assert (second.source, second.outside) == ("customized", ["value"])
    assert second.parameters == {"value": 7, "seconds": 3600}

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
    """Returns who suggested the first three trials, and of which version of the space they are."""
    return [(row["source"], row["space_version"]) for row in rows[:3]]


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
    wrote("trials.json", json.dumps(rows))
    both = {
        "value": {"type": "uniform", "low": 0, "high": 1},
        "seconds": {"type": "choice", "values": [0, 3600]},
    }
    wrote("both.json", json.dumps(both))
    for file in ("trials.json", "trials.csv"):
        new = f"new-{secrets.token_hex(3)}"
        await typed("submit", "waits.yaml", "--id", new)
        await typed("update-space", new, "both.json")
        await typed("import-trials", new, file)
        told = [
            (past.parameters, past.value) for past in (await event_of(settings, new, TrialsImported)).trials
        ]
        assert told == [(row["parameters"], row["value"]) for row in rows]
        await typed("stop", new, "--wait")
    knows = f"knows-{secrets.token_hex(3)}"
    await typed("submit", "ends.yaml", "--id", knows, "--past", "trials.csv", "--wait")
    assert len((await event_of(settings, knows, TrialsImported)).trials) == 3


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


async def test_a_drained_device_gets_no_task_until_it_is_resumed_and_a_worker_is_all_its_devices(
    settings: StackSettings, tried: Tried, typed: Typed
) -> None:
    select = "SELECT device_id, draining, drain_reason FROM dashboards.devices ORDER BY 1"

    async def are(first: str | None, second: str | None) -> None:
        rows = [(f"cpu-{at}", reason is not None, reason) for at, reason in enumerate((first, second))]

        async def found() -> bool:
            return await query(settings.postgres_dsn, select) == rows

        await poll_until(found)

    await are(None, None)
    assert "w1 accepted" in await typed("drain", "w1/cpu-0", "--reason", "new fan")
    await are("new fan", None)
    search = f"drained-{secrets.token_hex(3)}"
    await typed("submit", "ends.yaml", "--id", search, "--wait")
    placed = "SELECT DISTINCT device_ids FROM placements WHERE stream_id = $1"
    assert await query(settings.postgres_dsn, placed, search) == [(["cpu-1"],)]
    listed = {row["device_id"]: row["state"] for row in json.loads(await typed("devices", "--json"))}
    assert listed["cpu-0"] == "drained"
    await typed("resume-device", "w1/cpu-0")
    await are(None, None)
    code, _, err = await tried("drain", "w1/cpu-9")
    assert code == 2 and "there are: w1/cpu-0, w1/cpu-1" in err
    code, _, err = await tried("drain", "cpu-0")
    assert code == 2 and "no worker 'cpu-0' has joined; newest: w1; expected WORKER/DEVICE" in err

    printed = await typed("drain", "w1", "--reason", "moved", "--command-id", f"moved-{secrets.token_hex(3)}")
    assert printed.count("w1 accepted") == 2
    await are("moved", "moved")
    await typed("resume-device", "w1")
    await are(None, None)
