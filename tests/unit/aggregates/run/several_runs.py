"""A log with several runs, whose steps may find each other in the cache."""

from typing import Any

from tests.unit.aggregates.run.given import DIGEST, RunLog, body_of, step
from trackside.aggregates.run.messages import StartPipelineRun
from trackside.aggregates.run.state import Run, run_of
from trackside.aggregates.run.step_messages import StepCacheHit, StepCacheMissed
from trackside.contracts.envelope.message import Command, Event, Json
from trackside.contracts.fleet.fleet import CHECK_ARTIFACTS
from trackside.contracts.tasks.tasks import AttemptEnd, TaskSubmitted
from trackside.domain.streams.stream import Stream


class CacheLog(RunLog):
    def start(self, run_id: str, *steps: Json, use_cache: bool = True, **fields: Any) -> list[Event]:
        body = {**body_of(*steps, parameters=None, schemas=None, **fields), "use_cache": use_cache}
        return self.ask(run_id, StartPipelineRun.wire_type(), body)

    def ask(self, run_id: str, wanted: Command | str, body: Json | None = None) -> list[Event]:
        return self.command(wanted, body, run_id)

    def end(
        self,
        task: str,
        result: Json | None = None,
        *artifacts: str,
        digest: str = DIGEST,
        end: AttemptEnd = AttemptEnd.FINISHED,
    ) -> list[Event]:
        """Runs a task, `RUN.STEP`, to its end; returns what dispatchers write then."""
        saved = dict.fromkeys(artifacts, "file")
        return self.end_in(task.partition(".")[0], task, result, end, saved, digest)

    @property
    def stream(self) -> Stream:
        return next(reversed(self.streams.by_id.values()))

    def of(self, run_id: str) -> Run:
        found = run_of(self.streams.by_id[run_id])
        assert found is not None
        return found

    def steps(self, run_id: str) -> dict[str, str]:
        return {name: found.state.value for name, found in self.of(run_id).steps.items()}


def cached(name: str = "a", *needs: str, **fields: Any) -> Json:
    return step(name, *needs, **{"cache": True, "parameters": {"lr": 0.1}, **fields})


def hit(events: list[Event]) -> StepCacheHit:
    return next(event for event in events if isinstance(event, StepCacheHit))


def miss(events: list[Event]) -> StepCacheMissed:
    return next(event for event in events if isinstance(event, StepCacheMissed))


def checks(events: list[Event]) -> list[TaskSubmitted]:
    tasks = (event for event in events if isinstance(event, TaskSubmitted))
    return [task for task in tasks if task.task_type == CHECK_ARTIFACTS]


def after_a_run(*artifacts: str, **fields: Any) -> CacheLog:
    log = CacheLog()
    log.start("r1", cached(**fields))
    log.end("r1.a", {"n": 3}, *artifacts)
    assert log.steps("r1") == {"a": "succeeded"}
    return log
