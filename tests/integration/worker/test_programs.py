"""Programs as tasks: what they are given, how they speak and how they end."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.integration.worker.given import HIDDEN, PYTHON, SHARES, TaskType, shared_types, started, task_of
from tests.integration.worker.harness import EXAMPLES, LIMIT_S, WorkerHarness, error_of, of
from tests.integration.worker.processes import events_after_restart, killed_worker, recovered, wait_until_gone
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, MetricReported, TaskStatusChanged

SPEAKS = """
from pathlib import Path
for step, loss in enumerate([0.5, 0.25]):
    say(metric="loss", value=loss, step=step * 10)
    say(report=1 - loss, step=step)
say(metric="odd", value="nan")
say(final=0.8)
say(result={"thrown": "away"})
say(result={
    "parameters": json.loads(Path(os.environ["TRACKSIDE_PARAMETERS_FILE"]).read_text()),
    "argv": sys.argv[1:],
    "cwd": os.getcwd(),
    "environment": sorted(os.environ),
    "cuda": os.environ["CUDA_VISIBLE_DEVICES"],
})
print("done")
"""
SDK = """
from trackside.sdk import trial
rate = trial.parameters()["rate"]
trial.log(loss=rate)
trial.log(loss=float("inf"))
trial.report({"default": rate * 2, "other": 1.0})
trial.report(rate * 3)
trial.result(rate * 4)
"""
MUMBLES = """
fd = int(os.environ["TRACKSIDE_METRICS_FD"])
os.write(fd, b'{"report": 0.5}\\nno json\\n[1]\\n\\n{"report": 0.4, "step": 0}\\n{"metric": "x"}\\n')
os.write(fd, b'{"result": 1}\\n')
os.write(fd, b'{"metric": "x", "value": "0.1"}\\n' + b"x" * 1_100_000 + b'\\n{"report": 0.75}')
"""
FAILS = {
    "words": (
        "sys.stderr.write('much\\n' * 999 + 'the cause\\n'); sys.exit(3)",
        3,
        "exit code 3; its last words",
    ),
    "raises": ("raise KeyError('lr')", 1, "KeyError: 'lr'"),
    "signal": ("os.kill(os.getpid(), signal.SIGSEGV)", -11, "killed by SIGSEGV"),
    "secret": ("sys.exit('password=hunter2')", 1, "password=[redacted]"),
}
UNSTARTABLE = {
    "no-such-program-anywhere": "no such program in the folders of PATH",
    "./nothing": "there is no such file",
    "./script.py": "not an executable file",
    "./orphan": "No such file or directory",
    "./noise": "Exec format error",
}
HOLDS = """
held = [os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
say(result={"held": held})
"""
TYPES = {
    "speaks": TaskType(
        SPEAKS,
        f"{PYTHON}, --in, '{{parameters_file}}', '--out={{workdir}}/x', '{{device}}', '$HOME; echo *']",
    ),
    "sdk": TaskType(SDK),
    "silent": TaskType(task="program: ['true']"),
    "mumbles": TaskType(MUMBLES),
    "schema": TaskType("say(report=1)", more=", parameters: {properties: {lr: {type: number, maximum: 1}}}"),
    "holds": TaskType(HOLDS),
    **{name: TaskType(f"say(report=1)\n{script}") for name, (script, _, _) in FAILS.items()},
    **{f"starts{number}": TaskType(task=f"program: [{name}]") for number, name in enumerate(UNSTARTABLE)},
}
pytestmark = SHARES
worker = shared_types(TYPES)


def told(story: list[Message]) -> list[tuple[str, int, float | None]]:
    """Returns the values of the metric events."""
    return [(event.kind, event.step, event.value) for event in of(story, MetricReported)]


async def test_a_program_gets_its_parameters_and_speaks_in_lines_of_json(harness: WorkerHarness) -> None:
    story = await harness.story("t", {"lr": 0.1, "name": "é"}, task_type="speaks")
    assert await harness.points("t", 5) == {
        "loss": [(0, 0.5), (10, 0.25)],
        "odd": [(0, None)],
        "objective": [(0, 0.5), (1, 0.75)],
    }
    assert "done" in await harness.output("t", bool)
    entered = [event.status.name for event in of(story, TaskStatusChanged)]
    assert entered == ["AVAILABLE", "LOADING", "WAITING", "TRAINING"]
    assert told(story) == [("PERIODICAL", 0, 0.5), ("PERIODICAL", 1, 0.75), ("FINAL", 2, 0.8)]
    end = story[-1]
    assert isinstance(end, AttemptEnded) and end.result is not None
    assert (end.end, end.exit_code, end.leftovers) == (AttemptEnd.FINISHED, 0, ())
    assert end.load_time_ms >= 0 and end.train_time_ms >= 0
    result, cwd = end.result, end.result["cwd"]
    assert result["parameters"] == {"lr": 0.1, "name": "é"}
    assert result["argv"] == ["--in", f"{cwd}/parameters.json", f"--out={cwd}/x", "cpu", "$HOME; echo *"]
    assert result["cuda"] == ""
    assert {"TRACKSIDE_TASK_ID", "TRACKSIDE_ATTEMPT", "TRACEPARENT", "HOME"} <= set(result["environment"])
    assert not set(HIDDEN) & set(result["environment"])


async def test_the_sdk_speaks_through_the_descriptor(harness: WorkerHarness) -> None:
    story = await harness.story("t", {"rate": 0.25}, task_type="sdk")
    assert await harness.points("t", 5) == {
        "loss": [(0, 0.25), (1, None)],
        "objective": [(0, 0.5), (1, 0.75)],
        "other": [(0, 1.0)],
    }
    assert told(story) == [("PERIODICAL", 0, 0.5), ("PERIODICAL", 1, 0.75), ("FINAL", 2, 1.0)]
    assert of(story, AttemptEnded)[0].result == {}


async def test_a_program_need_not_say_anything(harness: WorkerHarness) -> None:
    end = await harness.ended("t", task_type="silent")
    assert (end.end, end.exit_code, end.result) == (AttemptEnd.FINISHED, 0, {})


async def test_a_line_that_cannot_be_read_is_a_warning_with_its_number(harness: WorkerHarness) -> None:
    story = await harness.story("t", task_type="mumbles")
    text = await harness.output("t", lambda all_: "line 9" in all_)
    assert told(story) == [("PERIODICAL", 0, 0.5), ("PERIODICAL", 1, 0.75)]
    assert of(story, AttemptEnded)[0].end is AttemptEnd.FINISHED
    warned = {line.partition(" of the metrics")[0] for line in text.splitlines()}
    assert warned == {f"trackside: line {number}" for number in (2, 3, 5, 6, 7, 8, 9)}


@pytest.mark.parametrize("name", FAILS)
async def test_another_exit_code_is_a_failure_with_the_last_words(harness: WorkerHarness, name: str) -> None:
    story = await harness.story("t", task_type=name)
    end = of(story, AttemptEnded)[0]
    assert told(story) == [("PERIODICAL", 0, 1)]
    assert end.error is not None
    _, code, words = FAILS[name]
    assert (end.end, end.exit_code, end.error.stage) == (AttemptEnd.FAILED, code, "TRAIN")
    assert words in end.error.message and len(end.error.message) < 4_200


async def test_a_program_that_cannot_be_run_fails_at_its_start(harness: WorkerHarness) -> None:
    for number, (program, words) in enumerate(UNSTARTABLE.items()):
        folder = harness.data_dir.parent / f"starts{number}"
        for name, content in (("orphan", b"#!/no/such/interpreter\n"), ("noise", b"\1\2\3")):
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o700)
        end = await harness.ended(f"t{number}", task_type=f"starts{number}")
        said = error_of(end, "START", "UnstartableError").message
        assert words in said and program.removeprefix("./") in said


@pytest.mark.parametrize(
    ("script", "code", "grace_s"),
    [
        ("", -signal.SIGTERM, LIMIT_S),
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))", 7, LIMIT_S),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", -signal.SIGKILL, 0.5),
    ],
)
async def test_a_stop_reaches_the_program_and_kills_one_that_will_not_end(
    tmp_path: Path, script: str, code: int, grace_s: float
) -> None:
    """FM-15."""
    # Python's handlers wait for the end of a system call that began just behind the signal: a short one.
    waits = "while True:\n    time.sleep(0.1)"
    catalogue = task_of(tmp_path, f"{script}\nsay(report=os.getpid())\n{waits}")
    async with started(tmp_path, catalogue, stop_grace_s=grace_s) as harness:
        command = await harness.run("t", task_type="a")
        pid = await harness.pid("t")
        await harness.stop(command)
        end = await harness.end("t")
        assert (end.end, end.exit_code) == (AttemptEnd.CANCELLED, code)
        assert wait_until_gone(pid)


async def test_parameters_against_the_schema_are_refused_before_anything_runs(harness: WorkerHarness) -> None:
    refused = await harness.refused("t", {"lr": 2}, task_type="schema")
    assert (refused.code, refused.message[:5]) == ("bad_parameters", "$.lr:")
    assert "maximum" in refused.message
    assert told(await harness.story("t", {"lr": 1}, task_type="schema", placement=2)) == [
        ("PERIODICAL", 0, 1)
    ]


async def test_a_program_holds_the_lock_of_its_device(harness: WorkerHarness) -> None:
    result = (await harness.ended("t", task_type="holds")).result
    assert result is not None
    assert [Path(name).name for name in result["held"] if "locks" in name] == ["cpu-0.lock"]


@pytest.mark.long
async def test_the_result_of_a_program_is_told_by_the_successor_of_a_killed_worker(tmp_path: Path) -> None:
    script = "say(report=os.getpid())\nsay(final=0.9)\nsay(result={'x': 1})"
    catalogue, data_dir = task_of(tmp_path, script), tmp_path / "worker"
    incarnation, pid = killed_worker(data_dir, {}, str(catalogue), "a", has_ended=True)
    _, story = await events_after_restart(data_dir)
    assert told(story) == [("PERIODICAL", 0, pid), ("FINAL", 1, 0.9)]
    assert len(of(story, AttemptEnded)) == 1
    end = recovered(story, AttemptEnd.FINISHED, incarnation)
    assert (end.result, end.exit_code) == ({"x": 1}, None)


async def test_the_example_of_a_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    async with started(tmp_path, EXAMPLES / "program" / "catalogue.yaml") as harness:
        story = await harness.story("t", {"epochs": 3}, task_type="sgd")
        refused = await harness.refused("u", {"epochs": 0}, task_type="sgd")
    assert [kind for kind, _, _ in told(story)] == ["PERIODICAL"] * 3 + ["FINAL"]
    end = of(story, AttemptEnded)[0]
    assert end.end is AttemptEnd.FINISHED and end.result is not None
    assert end.result["accuracy"] > 0.8
    assert refused.code == "bad_parameters"


@pytest.mark.long
async def test_a_pytorch_example_that_nobody_here_wrote_runs_unmodified(tmp_path: Path) -> None:
    module = "torch.utils.benchmark.examples.simple_timeit"
    pytest.importorskip("torch")
    catalogue = task_of(tmp_path, task=f"program: [{sys.executable}, -m, {module}]")
    async with started(tmp_path, catalogue) as harness:
        end = await harness.ended("t", task_type="a")
        text = await harness.output("t", lambda all_: all_.count("autorange:") == 3)
    assert (end.end, end.exit_code, end.leftovers) == (AttemptEnd.FINISHED, 0, ())
    assert "Broadcasting add (4x8)" in text
