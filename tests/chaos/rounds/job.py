"""A job of two rounds: how it begins, and what it leaves if nothing was lost."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.chaos.rounds.cluster import RoundsCluster
from tests.chaos.rounds.tasks import learned
from trackside.aggregates.dataset.messages import DeleteDataset, RegisterDataset
from trackside.aggregates.model.messages import AddModelVersion, RegisterModel
from trackside.aggregates.rounds.messages import CreateIncrementalJob, DeleteIncrementalJob
from trackside.aggregates.rounds.state import IncrementalJob, job_of
from trackside.contracts.envelope.message import Json

BATCH, TRAIN_OF_BATCH, ROUNDS, REPLICAS = 10, 8, 2, 2
FIRST = json.dumps({"rounds": []}).encode()
RETRY = {"lost": 100, "failed": 100}
SMALL = {"resources": {"devices": 0, "estimate_memory": 100_000_000}}
WAIT_S = 600.0
"""The longest wait for an event: services that were often lost begin again after up to six minutes."""
OnEvent = Callable[[int], Awaitable[None]]
"""What is done after the event of this number, from 1, of the job and its dataset."""


def sha256(content: bytes) -> str:
    """Returns a digest."""
    return hashlib.sha256(content).hexdigest()


@dataclass
class TwoRounds:
    """A job with its dataset and model, which have ids and a folder of their own."""

    cluster: RoundsCluster
    name: str

    @property
    def folder(self) -> Path:
        """The folder with the dataset, the output and the copied models."""
        return self.cluster.folder / self.name

    @property
    def dataset(self) -> str:
        """The id of the dataset."""
        return f"{self.name}-data"

    @property
    def state(self) -> IncrementalJob | None:
        """The job as the log has it."""
        stream = self.cluster.stream(self.name)
        return None if stream is None else job_of(stream)

    def spec(self) -> Json:
        """Returns the definition of the job: a round for each ten lines, which is deployed."""
        stage = {"check_period_s": 0, "needs": {**SMALL, "retry": RETRY}}
        new = {
            "type": "condition",
            "metric": "num_of_new_samples",
            "operator": ">=",
            "threshold": TRAIN_OF_BATCH,
        }
        better = {"type": "condition", "metric": "rounds_delta", "operator": ">", "threshold": 0}
        return {
            "dataset": {"name": self.dataset, "train_prob": TRAIN_OF_BATCH / BATCH, "eval_versions": 1},
            "model": f"{self.name}-model",
            "initial_model": f"{self.name}-model@1",
            "train": {"task_type": "learn", "trigger": new, **stage},
            "eval": {"task_type": "compare", **stage},
            "deploy": {
                "trigger": better,
                "copy_to": {"url": str(self.folder / "live.json")},
                "config": {"url": str(self.folder / "hot")},
                "services": [{"name": "s", "task_type": "answer", "replicas": REPLICAS, "needs": SMALL}],
                "tries": 100,
                "confirm_s": 600,
            },
            "output": {"url": str(self.folder / "out")},
        }

    async def begin(self) -> None:
        """Registers the dataset and the model, and creates the job."""
        self.folder.mkdir()
        self.grow(0)
        model = f"{self.name}-model"
        version = {"artifact": json.loads(self.cluster.put(FIRST)), "format": "json"}
        watched = {"url": str(self.folder / "data.txt"), "format": "txt"}
        for command, stream in (
            (RegisterModel(), model),
            (AddModelVersion.model_validate_json(json.dumps(version)), model),
            (RegisterDataset.model_validate(watched), self.dataset),
            (CreateIncrementalJob.model_validate_json(json.dumps(self.spec())), self.name),
        ):
            await self.cluster.send(command, stream)

    def lines(self, batch: int) -> list[str]:
        """Returns the lines of a batch, from 0."""
        return [f"{self.name} line {number}" for number in range(batch * BATCH, (batch + 1) * BATCH)]

    def grow(self, batch: int) -> None:
        """Appends a batch to the dataset, with one write."""
        with (self.folder / "data.txt").open("ab", buffering=0) as file:
            file.write("".join(f"{line}\n" for line in self.lines(batch)).encode())

    def is_over(self) -> bool:
        """Returns whether both rounds have ended, and each service has the model that is live."""
        job = self.state
        if job is None or job.ended_rounds < ROUNDS or job.update is not None:
            return False
        return len(self.addresses()) == REPLICAS

    def addresses(self) -> list[str]:
        """Returns where the services answer that are ready with the model that is live."""
        stream, job = self.cluster.stream(self.name), self.state
        assert stream is not None
        assert job is not None
        running = [
            task for task in self.cluster.running_tasks(self.name) if task.part and task.part.kind == "serve"
        ]
        ready = [task.attempts[-1].ready for task in running]
        return [each["address"] for each in ready if each.get("sha256") == job.live.artifact.sha256]

    async def run(self, on_event: OnEvent) -> int:
        """Runs both rounds, with something after each event; returns how many events there were."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.begin())
            return await self._follow(on_event)

    async def _follow(self, on_event: OnEvent) -> int:
        """Follows the events until both rounds are over, and lets the dataset grow after the first one."""
        seen, grown, at = 0, 1, 0
        history = self.cluster.history
        while not self.is_over():
            start = at
            more = lambda: len(history.records) > start  # noqa: B023, E731
            await history.until(f"more of {self.name}", more, WAIT_S)
            new = history.records[at:]
            at += len(new)
            for each in new:
                if each.record.envelope.stream not in (self.name, self.dataset):
                    continue
                seen += 1
                await on_event(seen)
            if grown < ROUNDS and (job := self.state) is not None and job.ended_rounds >= grown:
                self.grow(grown)
                grown += 1
        return seen

    async def assert_right(self) -> None:
        """Compares the files, the log and the answers of the services with what two rounds leave."""
        live = self._assert_files()
        job = self.state
        assert job is not None
        assert (job.rounds, job.ended_rounds, job.failed_rounds) == (ROUNDS, ROUNDS, 0)
        assert job.live.artifact.sha256 == live
        await self._assert_answers(live)

    async def _assert_answers(self, live: str) -> None:
        """Asks the services for their digest, again once they are back if a fault has ended one meanwhile."""
        history = self.cluster.history
        async with aiohttp.ClientSession() as session:
            while True:
                start = history.position
                try:
                    for address in self.addresses():
                        async with session.get(f"{address}/model") as answer:
                            assert (await answer.json())["sha256"] == live
                except aiohttp.ClientError:
                    again = lambda: history.position > start and self.is_over()  # noqa: B023, E731
                    await history.until("that the services are ready again", again, WAIT_S)
                else:
                    return

    def _assert_files(self) -> str:
        """Compares the manifests and the copied models; returns the digest of the last model."""
        models = [FIRST]
        for number in range(1, ROUNDS + 1):
            train = self.written("train", number)
            assert len(train) == TRAIN_OF_BATCH
            assert sorted(train + self.written("eval", number)) == sorted(self.lines(number - 1)), number
            models.append(learned(models[-1], train))
        assert (self.folder / "live.json").read_bytes() == models[-1]
        config = json.loads((self.folder / "hot" / self.name / "model_config.json").read_text())
        assert Path(config["model_config"]["model_path"]).read_bytes() == models[-1]
        return sha256(models[-1])

    def written(self, use: str, number: int) -> list[str]:
        """Returns the samples in the manifest of a round."""
        return (self.folder / "out" / "data" / use / str(number) / "data.txt").read_text().splitlines()

    async def delete(self) -> None:
        """Deletes the job and its dataset, and waits until nothing of them runs."""
        await self.cluster.send(DeleteIncrementalJob(), self.name)
        await self.cluster.send(DeleteDataset(), self.dataset)
        await self.cluster.history.until(
            f"the end of all of {self.name}", lambda: not self.cluster.running_tasks(self.name, self.dataset)
        )
