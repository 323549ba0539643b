"""What a task saves: it is in the store before the log says so, and before the attempt ends."""

import hashlib
from pathlib import Path

import pytest

from tests.integration.worker.given import SHARES, TaskType, shared_types, started, task_of
from tests.integration.worker.harness import WorkerHarness, error_of, gone, of
from tests.integration.worker.saved import CLASS, all_in_store, class_of, told
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded

SAVES = class_of("""
Path("notes.txt").write_text("one")
trial.save("notes", "notes.txt", metadata={"rows": 3})
Path("notes.txt").write_text("another")
trial.save("notes", Path("notes.txt"))
trial.save("weights", b"123", kind="model")
Path("logs/deep").mkdir(parents=True)
Path("logs/deep/a.txt").write_text("a")
trial.save("logs", "logs")
return {"done": True}
""")
PROGRAM = """
from pathlib import Path
from trackside.sdk import SaveError, trial
Path("plain.txt").write_text("plain")
say(save={"name": "plain", "path": "plain.txt", "kind": "notes", "metadata": {"rows": 1}})
Path("sdk.txt").write_text("first")
trial.save("sdk", "sdk.txt")
Path("sdk.txt").write_text("changed after it was saved")
trial.save("octets", b"12")
try:
    trial.save("link", "/proc/self/exe")
except SaveError as error:
    say(result={"code": error.code})
outputs = Path(os.environ["TRACKSIDE_OUTPUTS"])
(outputs / "report.html").write_text("<p>")
(outputs / ".hidden").write_text("")
(outputs / "plots").mkdir()
(outputs / "plots" / "loss.svg").write_text("<svg>")
"""
LARGE = class_of('return {"numbers": list(range(50_000))}')
REFUSED = {
    "'a/../b', b''": "path_outside_store",
    "'a..b', b''": "path_outside_store",
    "'a b', b''": "bad_artifact",
    "'checkpoint', b''": "bad_artifact",
    "'a', b'', kind='result'": "bad_artifact",
    "'a', 'missing'": "bad_artifact",
    "'a', '/dev/null'": "bad_artifact",
    "'a', 'fifo'": "bad_artifact",
    "'a', 'link'": "path_outside_store",
    "'a', 'linked'": "path_outside_store",
    "'a', b'\\x80\\x04cos\\nsystem\\n.', kind='model'": "unsafe_format",
    "'a', b'', metadata={'x': object()}": "bad_artifact",
    "'a', b'', metadata={'x': 'y' * 20_000}": "bad_artifact",
    "'a', b'', metadata={'x': ['AKIA' + 'A' * 16]}": "secret_suspected",
    "'AKIA' + 'A' * 16, b''": "secret_suspected",
}
CALLS = "\n".join(f"refused(lambda: trial.save({call}))" for call in REFUSED)
CATCHES = class_of(f"""
codes = []
def refused(save):
    try:
        save()
    except SaveError as error:
        codes.append(error.code)
os.mkfifo("fifo")
os.symlink("/etc/passwd", "link")
os.mkdir("linked")
os.symlink("/etc/passwd", "linked/link")
{CALLS}
trial.save("good", b"")
return {{"codes": codes}}
""")
FAILS = {
    "link": (class_of("os.symlink('/etc/passwd', 'x')\ntrial.save('a', 'x')"), "path_outside_store"),
    "output-link": (class_of("os.symlink('/etc/passwd', 'outputs/x')"), "path_outside_store"),
    "output-name": (class_of("open('outputs/my plot.png', 'w').close()"), "bad_artifact"),
    "line-missing": ("say(save={'name': 'a', 'path': 'missing'})", "bad_artifact"),
    "line-outside": ("say(save={'name': '../a', 'path': 'script.py'})", "path_outside_store"),
}
MANY = {
    "saves": (class_of("for _ in range(1_001):\n    trial.save('a', b'')"), "too_many_artifacts"),
    "outputs": (class_of("[Path(f'outputs/f{n}').touch() for n in range(10_000)]"), "too_many_artifacts"),
}
TYPES = {
    "saves-much": TaskType(SAVES, CLASS),
    "program": TaskType(PROGRAM),
    "large": TaskType(LARGE, CLASS),
    "versions": TaskType(class_of("trial.save('notes', b'1')\ntrial.save('other', b'1')"), CLASS),
    "catches": TaskType(CATCHES, CLASS),
    **{
        name: TaskType(script) if name.startswith("line") else TaskType(script, CLASS)
        for name, (script, _) in (FAILS | MANY).items()
    },
}
pytestmark = SHARES
worker = shared_types(TYPES)


def store_of(harness: WorkerHarness) -> Path:
    return harness.data_dir.parent / "store"


async def test_what_a_task_saves_is_in_the_store_before_its_attempt_ends(harness: WorkerHarness) -> None:
    story = await harness.story("t", task_type="saves-much")
    end = of(story, AttemptEnded)[0]
    assert (end.end, end.result, end.error) == (AttemptEnd.FINISHED, {"done": True}, None)
    saved = all_in_store(store_of(harness), story)
    assert told(saved) == [
        (1, "notes", 1, "file"),
        (2, "notes", 2, "file"),
        (3, "weights", 1, "model"),
        (4, "logs", 1, "file"),
    ]
    first = saved[0]
    assert first.metadata == {"rows": 3} and first.media_type == "text/plain"
    assert first.sha256 == hashlib.sha256(b"one").hexdigest() and first.size_bytes == 3
    assert first.uri == f"store:sha256/{first.sha256}"
    await gone(*(harness.data_dir / "spool").glob("*/*"))


async def test_a_program_saves_by_lines_by_the_sdk_and_by_its_outputs(harness: WorkerHarness) -> None:
    story = await harness.story("t", task_type="program")
    end = of(story, AttemptEnded)[0]
    assert (end.end, end.result) == (AttemptEnd.FINISHED, {"code": "path_outside_store"}), end.error
    saved = all_in_store(store_of(harness), story)
    assert told(saved) == [
        (1, "plain", 1, "notes"),
        (2, "sdk", 1, "file"),
        (3, "octets", 1, "file"),
        (4, "plots", 1, "file"),
        (5, "report.html", 1, "file"),
    ]
    assert saved[1].sha256 == hashlib.sha256(b"first").hexdigest()
    assert saved[4].media_type == "text/html"


async def test_a_result_that_is_too_large_for_the_log_becomes_an_artifact(harness: WorkerHarness) -> None:
    story = await harness.story("t", task_type="large")
    (saved,) = all_in_store(store_of(harness), story)
    assert (saved.name, saved.kind, saved.media_type) == ("result", "result", "application/json")
    end = of(story, AttemptEnded)[0]
    assert end.result == {"artifact": "result@1", "sha256": saved.sha256, "size_bytes": saved.size_bytes}


async def test_versions_go_on_from_those_of_earlier_placements(harness: WorkerHarness) -> None:
    story = await harness.story("t", task_type="versions", placement=2, saved={"notes": 7})
    saved = all_in_store(store_of(harness), story)
    assert told(saved) == [(1, "notes", 8, "file"), (2, "other", 1, "file")]


async def test_what_is_no_artifact_is_refused_with_a_code_and_the_task_goes_on(
    harness: WorkerHarness,
) -> None:
    """BI-50."""
    story = await harness.story("t", task_type="catches")
    end = of(story, AttemptEnded)[0]
    assert end.result == {"codes": list(REFUSED.values())}, end.error
    assert told(all_in_store(store_of(harness), story)) == [(1, "good", 1, "file")]


@pytest.mark.parametrize("name", [*FAILS, *(pytest.param(name, marks=pytest.mark.long) for name in MANY)])
async def test_an_attempt_whose_artifact_is_refused_fails_in_the_stage_save(
    harness: WorkerHarness, name: str
) -> None:
    story = await harness.story("t", task_type=name)
    end, code = of(story, AttemptEnded)[0], (FAILS | MANY)[name][1]
    assert error_of(end, "SAVE", code) and end.result is None
    saved = all_in_store(store_of(harness), story)
    assert len(saved) == (1_000 if code == "too_many_artifacts" else 0)


async def test_without_a_store_saving_says_what_to_set_and_a_result_that_is_too_large_fails_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRACKSIDE_STORE", raising=False)
    script = class_of(
        "if trial.parameters():\n    trial.save('a', b'')\nreturn {'numbers': list(range(50_000))}"
    )
    async with started(tmp_path, task_of(tmp_path, script, CLASS)) as harness:
        end = await harness.ended("t", {"saves": True}, task_type="a")
        assert "TRACKSIDE_STORE" in error_of(end, "SAVE", "store_missing").message
        end = await harness.ended("u", task_type="a")
    assert "more than 65536" in error_of(end, "REPORT", "UnreportableError").message
