"""A publisher that shares no code with us: the Node example, where Node is there."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from tests.integration.dispatcher.publishing import Place
from trackside.contracts.ids import new_id

EXAMPLE = Path(__file__).parents[3] / "deploy" / "examples" / "publish" / "node"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None, reason="Node is not on this machine"
)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gives a copy of the example with its one dependency installed."""
    folder = tmp_path_factory.mktemp("node") / "publish"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules"))
    return folder


async def run(*argv: str, folder: Path) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=-1, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(90):
        output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_node_publishes_and_reads_its_answer(example: Path, place: Place) -> None:
    code, output = await run("npm", "install", "--no-audit", "--no-fund", folder=example)
    if code:
        pytest.skip(f"npm could not install kafkajs: {output[-300:]}")
    space = {"x": {"type": "uniform", "low": 0, "high": 1}}
    good = {"task_type": "noop", "space": space, "max_trials": 1}
    (example / "good.json").write_text(json.dumps(good))
    (example / "bad.json").write_text(json.dumps({**good, "concurrency": 0}))
    stream = new_id("node")
    given = (place.settings.kafka_bootstrap, "trackside.start-search.v1")
    prefix = place.settings.topic_prefix
    assert await run("node", "publish.js", *given, stream, "good.json", prefix, folder=example) == (
        0,
        f"accepted: {stream}\n",
    )
    code, output = await run("node", "publish.js", *given, new_id("node"), "bad.json", prefix, folder=example)
    assert code == 2
    assert output.startswith("refused: concurrency_range at $.concurrency: ")
