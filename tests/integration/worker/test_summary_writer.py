"""SummaryWriter in a task: what it reports is what the same calls write to event files without a worker."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.integration.worker.given import started, task_of
from tests.integration.worker.harness import WorkerHarness, items_in, of
from tests.integration.worker.saved import CLASS, bytes_of, class_of
from tests.unit.summaries.tensorboard_files import items_of, whole
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.summaries import MetricPointsReported, ReportedItem
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.summaries.event_files.values import Histogram
from trackside.summaries.kinds.registry import KINDS

CALLS = """
import numpy as np
from trackside.sdk import SummaryWriter

def log_all(folder):
    random = np.random.default_rng(7)
    with SummaryWriter(folder) as writer:
        for step in range(3):
            writer.add_scalar("loss", 1 / (step + 1), step, 1_700_000_000 + step)
        writer.add_scalar("loss", float("nan"), 3, 1_700_000_003)
        writer.add_histogram("weights", random.normal(size=1000), 2)
        writer.add_text("notes", "# *hello*", 4)
        writer.add_text("long", "x" * 50_000, 4)
        writer.add_tensor("small", np.arange(6, dtype=np.float32).reshape(2, 3), 5)
        writer.add_tensor("large", random.normal(size=(100, 100)), 5)
        writer.add_image("picture", random.random((3, 20, 30)), 1)
        writer.flush()
"""
TASK = CALLS + class_of("""
log_all("runs/train")
writer = SummaryWriter("runs/test")
writer.add_scalar("loss", 5.0, 0)
for value in (1.0, 2.0, 3.0):
    writer.add_scalar("counted", value)
    writer.add_text("counted", str(value))
writer.add_scalars("both", {"a": 1, "b": 2}, 7)
writer.add_hparams({"rate": 0.1, "name": "adam"}, {"best": 0.9})
SummaryWriter("runs/other/test").add_scalar("loss", 6.0, 0)
writer.close()
return {"files": sorted(str(path) for path in Path("runs").rglob("*"))}
""")


async def reported(harness: WorkerHarness, items: int) -> tuple[list[ReportedItem], dict[str, list[Any]]]:
    """Waits for so many values other than numbers of task `t`; returns them, and its points by tag."""
    found = await harness.items("t", items)
    messages = await harness.messages(harness.topics.metrics, "t", lambda all_: found[-1] in items_in(all_))
    points: dict[str, list[Any]] = {}
    for batch in of(messages, MetricPointsReported):
        for series in batch.series:
            rows = zip(series.steps, series.times_ms, series.values, strict=True)
            points.setdefault(series.tag, []).extend(
                (step, time_ms, series.non_finite.get(at, value))
                for at, (step, time_ms, value) in enumerate(rows)
            )
    return found, points


def value_of(item: ReportedItem, store: Path) -> Any:
    """Returns the value again, its bytes from the store where it has some."""
    return KINDS[item.kind].unpack(item.body, bytes_of(item, store) if item.artifact is not None else None)


def in_files(folder: Path) -> dict[str, Any]:
    """Returns what the same calls write to an event file here, by kind and tag."""
    calls: dict[str, Any] = {}
    exec(CALLS, calls)  # noqa: S102 - the text that is the task's module
    calls["log_all"](folder)
    (path,) = folder.iterdir()
    return {f"{item.kind}:{item.tag.removesuffix('/text_summary')}": item for item in items_of(whole(path))}


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and bool((one == other).all())
    if isinstance(one, Histogram):
        # Files lack the left edge, which an empty bucket keeps, and are read up to the greatest value.
        assert one.maximum is not None
        right = [*one.right[:-1], one.maximum]
        left, counts = [one.left[0], *one.left], [0.0, *one.counts]
        one = replace(one, left=left, right=[one.left[0], *right], counts=counts)
    return bool(one == other)


async def test_a_task_reports_what_it_would_write_to_files(tmp_path: Path, store: Path) -> None:
    """S14: each kind. A second writer's tags have its folder before them: no point of two runs is lost."""
    async with started(tmp_path, task_of(tmp_path, TASK, CLASS)) as harness:
        end = await harness.ended("t", task_type="a")
        items, points = await reported(harness, 10)
    assert end.end is AttemptEnd.FINISHED
    assert end.result == {"files": ["runs/other", "runs/other/test", "runs/test", "runs/train"]}, (
        "the folders are there, and no files"
    )
    loss = [(step, 1_700_000_000_000 + 1000 * step, 1 / (step + 1)) for step in range(3)]
    assert points["loss"] == [*loss, (3, 1_700_000_003_000, "nan")]
    assert [(step, value) for step, _, value in points["test/loss"]] == [(0, 5.0)]
    assert [(step, value) for step, _, value in points["other/test/loss"]] == [(0, 6.0)]
    assert [(step, value) for step, _, value in points["test/counted"]] == [(0, 1.0), (1, 2.0), (2, 3.0)]
    assert [points[f"test/both/{name}"][0][::2] for name in "ab"] == [(7, 1.0), (7, 2.0)]
    assert points["test/best"][0][::2] == (0, 0.9)
    by_name = {f"{item.kind}:{item.tag}": item for item in items}
    assert [item.step for item in items if item.tag == "test/counted"] == [0, 1, 2]
    hparams = value_of(by_name["hparams:test/hparams"], store)
    assert hparams.values == {"rate": 0.1, "name": "adam"} and hparams.metrics == ["best"]
    files = in_files(tmp_path / "files")
    assert len(files) == 6
    for name, item in files.items():
        found = by_name[name]
        assert (found.step, found.index) == (item.step, 0)
        assert is_same(value_of(found, store), item.value), name
    stored = [name for name, item in by_name.items() if item.artifact is not None]
    assert sorted(stored) == ["image:picture", "tensor:large", "text:long"]


ODD = (
    CALLS
    + """
from multiprocessing import get_context

writer = SummaryWriter()
pixels = np.zeros((3, 4, 4))

def load():
    for step in range(3):
        writer.add_image("loaded", pixels, step)

writer.add_image("late", pixels, 2**70)
loader = get_context("fork").Process(target=load)
loader.start()
for step in range(20):
    writer.add_image("seen", pixels, step)
loader.join()
writer.add_image("", pixels, 0)
"""
)


async def test_a_program_ends_whatever_it_and_its_processes_report(tmp_path: Path, store: Path) -> None:
    """It waits for the answers to its own images: each has to come, and none to another process."""
    async with started(tmp_path, task_of(tmp_path, ODD)) as harness:
        assert (await harness.ended("t", task_type="a")).end is AttemptEnd.FINISHED
        items, _ = await reported(harness, 24)
    counts = Counter(item.tag for item in items)
    assert counts == {"seen": 20, "loaded": 3, "(no tag)": 1}


def tags_of(messages: list[Message]) -> set[str]:
    tags = {series.tag for batch in of(messages, MetricPointsReported) for series in batch.series}
    return {tag for tag in tags if not tag.startswith("system/")}


async def test_a_task_with_too_many_tags_is_told_what_is_left_out(tmp_path: Path, store: Path) -> None:
    body = """
writer = SummaryWriter()
for number in range(10_003):
    writer.add_scalar(f"tag {number}", 0.5, 0)
writer.add_text("more", "of it", 0)
"""
    async with started(tmp_path, task_of(tmp_path, CALLS + class_of(body), CLASS)) as harness:
        await harness.run("t", task_type="a")
        said = await harness.output("t", bool)
        found = await harness.messages(harness.topics.metrics, "t", lambda all_: len(tags_of(all_)) >= 10_000)
    assert len(tags_of(found)) == 10_000
    assert said == "trackside: 4 values of tags beyond 10,000 were left out"
