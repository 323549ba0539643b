"""An experiment in a file: it folds to the same state elsewhere, or it is refused; it never comes alive."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.unit.domain.given import (
    STREAM,
    Told,
    accepted,
    assigned,
    begun,
    ended,
    received,
    search_running,
    submitted,
    suggested,
)
from tests.unit.domain.plausible import Chance
from tests.unit.domain.test_task_reuse import going_on
from tests.unit.projections.given import write_small_history
from tests.unit.replay.given import ELSEWHERE, TOPICS, after, empty, log_of, name_causes
from trackside.aggregates.batch.messages import BatchSpec, BatchStarted
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.children import ChildEnded, ChildRequested
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.folding.streams import dump
from trackside.eventlog.log import Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.projections.writing.snapshots import fold_name
from trackside.replay.causality.why import why
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import (
    AlreadyImportedError,
    BadNameError,
    DamagedFileError,
    LiveTargetError,
    ReplayError,
    UnknownStreamError,
    UnsupportedFileError,
)
from trackside.replay.history.point_in_time import PointInTime
from trackside.replay.history.recorded_stream import state_at
from trackside.replay.history.state_view import state_view
from trackside.replay.transfer import import_stream as importing
from trackside.replay.transfer.export import ExportSummary, write_export
from trackside.replay.transfer.file_format import LineWriter, state_digest
from trackside.replay.transfer.import_stream import ImportSummary, import_file
from trackside.replay.transfer.imported_streams import IMPORT, PLACE, TIME

STREAMS = ["one", "two", "tasks", "halted", "going", "open"]


async def written(log: MemoryLog, topics: Topics, stream: str, path: Path) -> ExportSummary:
    with path.open("wb") as file:
        return await write_export(await find_stream(log, topics, stream), file.write)


async def exported(told: Told, path: Path) -> MemoryLog:
    log = await log_of(told)
    await written(log, TOPICS, STREAM, path)
    return log


@pytest.fixture
async def one(log: MemoryLog, tmp_path: Path) -> Path:
    """Returns the file of an exported stream."""
    await written(log, TOPICS, "one", tmp_path / "f")
    return tmp_path / "f"


async def imported(log: MemoryLog, path: Path, name: str = "") -> ImportSummary:
    return await import_file(log, ELSEWHERE, path, name)


@pytest.mark.thorough
@pytest.mark.parametrize("stream", STREAMS)
async def test_an_imported_stream_is_the_exported_one(
    log: MemoryLog, elsewhere: MemoryLog, tmp_path: Path, stream: str
) -> None:
    there, again = tmp_path / "there", tmp_path / "again"
    exported = await written(log, TOPICS, stream, there)
    assert len(there.read_bytes().splitlines()) == exported.header.records + 2
    found = await imported(elsewhere, there)
    assert (found.stream, found.header.records, found.compared) == (stream, exported.header.records, True)
    before, after = await find_stream(log, TOPICS, stream), await find_stream(elsewhere, ELSEWHERE, stream)
    for offset in range(exported.header.first_offset, exported.header.last_offset, 5):
        moment = PointInTime(offset=offset)
        states = [(await state_at(history, moment)).stream for history in (before, after)]
        assert dump(states[0]) == dump(states[1])
    await written(elsewhere, ELSEWHERE, stream, again)
    assert again.read_bytes() == there.read_bytes()


@pytest.mark.parametrize("stream", STREAMS)
async def test_under_another_name_everything_but_the_names_is_the_same(
    log: MemoryLog, elsewhere: MemoryLog, tmp_path: Path, stream: str
) -> None:
    await written(log, TOPICS, stream, tmp_path / "f")
    await imported(elsewhere, tmp_path / "f", "last-year")
    before = (await state_at(await find_stream(log, TOPICS, stream))).stream
    after = (await state_at(await find_stream(elsewhere, ELSEWHERE, "last-year"))).stream
    assert after.stream_id == "last-year"
    assert all(name.startswith("last-year.") for name in after.tasks)
    assert state_digest(before) == state_digest(after)
    assert state_view(before).parts == state_view(after).parts
    assert [named(task) for task in before.tasks] == [named(task) for task in after.tasks]
    name = next(iter(after.tasks)).removeprefix("last-year.")
    own = (await why(await find_stream(elsewhere, ELSEWHERE, "last-year"), name)).own
    assert own[0].what in ("TrialSuggested", "TaskSubmitted")


async def test_under_another_name_causes_and_trials_have_it_too(elsewhere: MemoryLog, tmp_path: Path) -> None:
    told, again = search_running(max_trials=1, concurrency=1), going_on()
    told.tell(suggested(0), submitted(0))
    name_causes(told.records[-2:], f"{STREAM}@2", "other@2")
    for name, history in (("last-year", told), ("again", again)):
        await exported(history, tmp_path / name)
        assert (await imported(elsewhere, tmp_path / name, name)).compared
    found = await why(await find_stream(elsewhere, ELSEWHERE, "last-year"), "0")
    assert [(step.cause, step.follows) for step in found.own] == [("last-year@2", 2), ("other@2", -1)]
    after = (await state_at(await find_stream(elsewhere, ELSEWHERE, "again"))).stream
    assert after.root.trials[1].within == "again.0"


GROUPS = [{"children": [{"name": "lr", "kind": "search", "spec": {}}]}]


def batch_with_child() -> Told:
    told = after(Told(), received())
    told.tell(accepted(), BatchStarted(command_id="c-1", batch=BatchSpec.model_validate({"groups": GROUPS})))
    told.tell(ChildRequested(child_id=f"{STREAM}.1.lr", kind="search", body={}))
    told.tell(ChildEnded(child_id=f"{STREAM}.1.lr", status="DONE", result={"trials": 3}))
    causes = (f"{STREAM}@0", f"{STREAM}@0", f"{STREAM}@2", f"{STREAM}.1.lr@70")
    name_causes(told.records[1:], *causes)
    return told


async def test_why_shows_the_request_for_a_child_and_the_event_of_its_stream_that_ended_it() -> None:
    found = await why(await find_stream(await log_of(batch_with_child()), TOPICS, STREAM), "1.lr")
    assert [step.what for step in found.causes] == ["CommandReceived", "CommandAccepted", "BatchStarted"]
    said = [(step.what, step.said, step.follows) for step in found.own]
    assert said == [("ChildRequested", "search", 2), ("ChildEnded", "DONE", -1)]
    assert found.own[1].outside == f"event {STREAM}.1.lr@70"


async def test_a_batch_keeps_its_children_under_another_name(elsewhere: MemoryLog, tmp_path: Path) -> None:
    await exported(batch_with_child(), tmp_path / "f")
    assert (await imported(elsewhere, tmp_path / "f", "last-year")).compared
    after = (await state_at(await find_stream(elsewhere, ELSEWHERE, "last-year"))).stream
    assert after.children["last-year.1.lr"].result == {"trials": 3}
    assert after.root.ends == {"done": 1}
    assert state_view(after).root["children"] == {"1.lr": "DONE"}


def named(task: str) -> str:
    return task.partition(".")[2]


@pytest.mark.parametrize("seed", range(5))
async def test_what_is_late_or_doubled_survives_too(elsewhere: MemoryLog, tmp_path: Path, seed: int) -> None:
    log = await exported(Chance(Random(seed)).history(250), tmp_path / "f")
    await imported(elsewhere, tmp_path / "f")
    before, after = await find_stream(log, TOPICS, STREAM), await find_stream(elsewhere, ELSEWHERE, STREAM)
    states = [await state_at(history) for history in (before, after)]
    assert dump(states[0].stream) == dump(states[1].stream)
    assert states[0].ignored == states[1].ignored > 0


async def test_waits_that_rest_on_append_times_stay_as_they_are(elsewhere: MemoryLog, tmp_path: Path) -> None:
    """The retry was placed too early, then in time; the import is written years later, all at once."""
    await exported(waiting_retry(backoff_s=0.015), tmp_path / "f")
    await imported(elsewhere, tmp_path / "f", "renamed")
    past = await state_at(await find_stream(elsewhere, ELSEWHERE, "renamed"))
    task = past.stream.tasks["renamed.0"]
    assert past.ignored == 1
    assert 0 < task.not_before_ms <= task.attempt.assigned_ms < 1_800_000_000_000


async def test_a_name_by_which_retries_wait_too_long_is_refused(elsewhere: MemoryLog, tmp_path: Path) -> None:
    """The wait of 20 ms is drawn from 18 to 22, by the task's name; the retry was placed after 20."""
    await exported(waiting_retry(backoff_s=0.02), tmp_path / "f")
    refused = []
    for number in range(20):
        try:
            await imported(elsewhere, tmp_path / "f", f"name-{number}")
        except BadNameError as error:
            refused.append(str(error))
    assert 0 < len(refused) < 20
    assert all("waits of its retries are drawn from the names of its tasks" in text for text in refused)
    assert (await imported(elsewhere, tmp_path / "f")).stream == STREAM


def waiting_retry(backoff_s: float) -> Told:
    """Tells a retry that is placed 10 ms after the first end, and again after 20: one of them is in time."""
    told = search_running(retry={"failed": {"times": 1, "backoff_s": backoff_s}})
    told.tell(suggested(0), submitted(0, needs=told.search.spec.needs))
    after(told, assigned(), begun(), ended(AttemptEnd.FAILED), assigned(attempt=2), assigned(attempt=2))
    return told


async def test_an_import_starts_nothing(log: MemoryLog, elsewhere: MemoryLog, tmp_path: Path) -> None:
    """Whatever is unfinished in it stays so: no command is answered, no task placed."""
    await written(log, TOPICS, "going", tmp_path / "f")
    before = {topic.name: await elsewhere.ends(topic.name) for topic in ELSEWHERE.shared}
    await imported(elsewhere, tmp_path / "f")
    after = {topic.name: await elsewhere.ends(topic.name) for topic in ELSEWHERE.shared}
    assert {name for name in after if after[name] != before[name]} == {ELSEWHERE.imports.name}


async def test_headers_of_an_import_mean_nothing_in_the_log_of_events(log: MemoryLog) -> None:
    """Who can write to the log can't move what it says to another time or place."""
    forged = await empty()
    topic = TOPICS.events
    partition = partition_of("one", topic.partitions)
    for entry in log._partition(topic.name, partition):
        headers = [*entry.headers, (IMPORT, b"x"), (PLACE, b"0:999"), (TIME, b"5")]
        await forged.append(topic.name, partition, [Outgoing(entry.key, entry.value, headers)])
    past = await state_at(await find_stream(forged, TOPICS, "one"))
    assert past.last.append_time_ms > 5
    assert past.last.offset != 999
    with pytest.raises(UnknownStreamError):
        await find_stream(forged, TOPICS, "imported/one")


async def test_a_name_that_is_there_is_refused(log: MemoryLog, elsewhere: MemoryLog, one: Path) -> None:
    with pytest.raises(LiveTargetError, match="replay_target_live: the log has a stream 'one'"):
        await import_file(log, TOPICS, one)
    with pytest.raises(LiveTargetError):
        await import_file(log, TOPICS, one, "two")
    await import_file(log, TOPICS, one, "three")
    await imported(elsewhere, one)
    with pytest.raises(AlreadyImportedError, match="already_exists"):
        await imported(elsewhere, one)
    with pytest.raises(BadNameError, match="bad_identifier"):
        await imported(elsewhere, one, "no name")
    later = await empty()
    await import_file(later, TOPICS, one)
    await write_small_history(later, TOPICS)
    assert (await find_stream(later, TOPICS, "one")).place[0] == TOPICS.events.name
    assert (await find_stream(later, TOPICS, "imported/one")).place[0] == TOPICS.imports.name


Lines = list[bytes]


def change_lines(path: Path, harm: Callable[[Lines], Lines]) -> None:
    path.write_bytes(b"".join(harm(path.read_bytes().splitlines(keepends=True))))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda them: them[:-1], "the file ends at line 79, without its trailer"),
        (lambda them: [*them[:-1], them[-1][:40]], "line 80 is not JSON: the file was cut off or changed"),
        (lambda them: [*them[:10], *them[11:]], "line 11 was changed, or lines before it are missing"),
        (lambda them: [*them[:10], them[11], them[10], *them[12:]], "line 11 was changed"),
        (lambda them: [*them[:11], *them[10:]], "line 12 was changed"),
        (lambda them: [*them[:10], them[10].replace(b"offset", b"Offset", 1), *them[11:]], "line 11 was"),
        (lambda them: [*them, them[-1]], "line 81 was changed"),
    ],
    ids=["cut", "torn", "dropped", "swapped", "doubled", "changed", "appended"],
)
async def test_a_damaged_file_is_refused_and_its_first_bad_line_named(
    elsewhere: MemoryLog, one: Path, harm: Callable[[Lines], Lines], said: str
) -> None:
    change_lines(one, harm)
    with pytest.raises(DamagedFileError) as caught:
        await imported(elsewhere, one)
    assert str(caught.value).startswith(f"file_damaged: {said}")
    with pytest.raises(UnknownStreamError):
        await find_stream(elsewhere, ELSEWHERE, "one")


Changes = dict[int, dict[str, object]]
"""Fields by the number of their line."""


def rewritten(path: Path, changes: Changes) -> None:
    """Changes a file and makes its checks good, as its exporter could have written it."""
    bodies = [json.loads(line) for line in path.read_bytes().splitlines()]
    for body in bodies:
        body.pop("check")
        body.pop("sha256", None)
    for at, fields in changes.items():
        bodies[at].update(fields)
    lines = LineWriter()
    with path.open("wb") as file:
        for body in bodies:
            if "state_sha256" in body:
                body["sha256"] = lines._digest.hexdigest()
            file.write(lines.line(body))


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({0: {"trackside_export": 2}}, UnsupportedFileError, "the file has format 2, this release reads"),
        ({0: {"rules": 7}}, UnsupportedFileError, "begun with rules 7, this release has"),
        ({0: {"records": 3}}, DamagedFileError, "says 78 records, the header 3; there are 78"),
        ({0: {"stream": "x"}}, DamagedFileError, "line 2 is not a record of stream 'x'"),
        ({-1: {"state_sha256": "0"}}, DamagedFileError, "don't fold to the state"),
        ({5: {"value": None}}, DamagedFileError, "line 6 has no value"),
        ({5: {"offset": "1"}}, DamagedFileError, "line 6 has no integer 'offset'"),
        ({5: {"headers": 1}}, DamagedFileError, "line 6 is not the line of a record"),
        ({5: {"value": "{}"}}, UnsupportedFileError, "line 6: "),
    ],
)
async def test_what_no_release_like_this_would_write_is_refused(
    elsewhere: MemoryLog, one: Path, changes: Changes, kind: type[ReplayError], said: str
) -> None:
    rewritten(one, changes)
    with pytest.raises(kind, match=said):
        await imported(elsewhere, one)


async def test_a_file_of_another_fold_is_imported_without_comparing_states(
    elsewhere: MemoryLog, one: Path
) -> None:
    rewritten(one, {-1: {"fold": "1.0.other", "state_sha256": "0"}})
    assert fold_name() != "1.0.other"
    assert not (await imported(elsewhere, one)).compared


async def test_what_is_no_export_or_is_packed_is_refused(elsewhere: MemoryLog, tmp_path: Path) -> None:
    for octets in (b"", b"\n", b"{}\n", b"[1]\n", b"\xff\n", b"[" * 100_000):
        (tmp_path / "f").write_bytes(octets)
        with pytest.raises(DamagedFileError, match="line 1 is not the header of an exported stream"):
            await imported(elsewhere, tmp_path / "f")
    (tmp_path / "f").write_bytes(gzip.compress(b"{}"))
    with pytest.raises(UnsupportedFileError, match="packed with gzip; unpack it first, with gunzip"):
        await imported(elsewhere, tmp_path / "f")


async def test_an_import_that_broke_off_counts_for_nothing_and_can_be_repeated(
    log: MemoryLog, elsewhere: MemoryLog, one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH_RECORDS", 7)

    def pulled(done: int, total: int) -> None:
        if done >= 21:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await import_file(elsewhere, ELSEWHERE, one, on_progress=pulled)
    with pytest.raises(UnknownStreamError):
        await find_stream(elsewhere, ELSEWHERE, "one")
    await imported(elsewhere, one)
    states = [await state_at(await find_stream(*at, "one")) for at in ((log, TOPICS), (elsewhere, ELSEWHERE))]
    assert dump(states[0].stream) == dump(states[1].stream)
