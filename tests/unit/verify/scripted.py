"""Scenarios of logs that are recorded: users who follow a script, and a search that promotes."""

import json
from random import Random
from typing import Any

from trackside.aggregates.pipeline import messages as pipelines
from trackside.aggregates.pipeline import schedule_messages as schedules
from trackside.aggregates.search.messages import StartSearch
from trackside.aggregates.summary import messages as summaries
from trackside.contracts.message import Command
from trackside.domain.streams import Streams
from trackside.simulation.scenarios import STREAM, SearchScenario, StreamScenario
from trackside.simulation.services import SimulatedAdvisor
from trackside.simulation.worker_state import TASK_TYPE, TRAINING_TYPE


class ScriptedScenario(StreamScenario):
    """A user who publishes the commands of a script, each once the one before is answered."""

    has_user = True
    script: tuple[Command, ...] = ()

    def __init__(self, seed: int, tasks: int, concurrency: int) -> None:
        super().__init__(seed, tasks, concurrency)
        self._left = list(self.script[1:])

    def command(self) -> Command:
        return self.script[0]

    def next_commands(self, streams: Streams, rng: Random) -> list[tuple[str, Command]]:
        stream = streams.by_id.get(STREAM)
        if stream is None or stream.unanswered or not self._left:
            return []
        return [(STREAM, self._left.pop(0))]

    def is_over(self, streams: Streams) -> bool:
        found = streams.by_id.values()
        return not self._left and not any(each.unanswered for each in found) and self.rests(streams)

    def rests(self, streams: Streams) -> bool:
        """Says whether nothing runs any more."""
        return True


STEPS: Any = [{"name": "fit", "task_type": TASK_TYPE, "parameters": {"x": "${pipeline.x}"}}]
PIPELINE: Any = {"parameters": {"x": {"type": "number", "default": 0.5}}, "steps": STEPS}
SCHEDULE: Any = {"cron": "0 3 * * *", "parameters": {"x": 0.25}}


class PipelineScript(ScriptedScenario):
    """A pipeline that is defined twice, has runs and schedules, and is retired."""

    kind = name = "pipeline"
    script = (
        pipelines.DefinePipeline.model_validate({"pipeline": PIPELINE, "max_runs": 1}),
        pipelines.RunPipeline(parameters={"x": 0.75}),
        pipelines.RunPipeline(seed=3),
        pipelines.CancelPipelineRuns(number=2, reason="not needed"),
        pipelines.DefinePipeline.model_validate({"pipeline": {**PIPELINE, "name": "again"}}),
        schedules.CreateSchedule.model_validate({"name": "nightly", "schedule": SCHEDULE}),
        schedules.PauseSchedule(name="nightly", reason="for a while"),
        schedules.ResumeSchedule(name="nightly"),
        schedules.FireSchedule(name="nightly"),
        schedules.UpdateSchedule.model_validate({"name": "nightly", "schedule": {"cron": "0 4 * * *"}}),
        schedules.DeleteSchedule(name="nightly"),
        pipelines.RetirePipeline(reason="done"),
    )

    def rests(self, streams: Streams) -> bool:
        runs = [each.root for name, each in streams.by_id.items() if name.startswith(f"{STREAM}.")]
        return bool(runs) and all(root is not None and root.over for root in runs)


class SummaryScript(ScriptedScenario):
    """A job of summaries that people annotate, delete and restore."""

    kind = name = "summary"
    script = (
        summaries.AnnotateSummaryJob.model_validate(
            {"task": {"stream": "digits", "task": "digits.1"}, "tag": 3, "remark": "good"}
        ),
        summaries.DeleteSummaryJob(reason="old"),
        summaries.RestoreSummaryJob(),
        summaries.DeleteSummaryJob(reason="older", purge=True),
    )

    def first_commands(self) -> list[tuple[str, Command]]:
        return [(STREAM, self.command())]


class ShippedTuner(SimulatedAdvisor):
    """An advisor that asks the shipped tuners, too."""

    def _answer(self, search: str, op: Any) -> Any:
        answer = self._advisor.answer(json.dumps({"search": search, "ops": [op]}))
        assert "error" not in answer, answer
        return answer.get("result")


class PromotingScenario(SearchScenario):
    """A search by population-based training, whose trials continue from the checkpoints of others."""

    name = "promoting"
    task_type = TRAINING_TYPE

    def command(self) -> StartSearch:
        plain = super().command().model_dump(mode="json", exclude_unset=True)
        tuner = {"name": "pbt", "options": {"population_size": 3, "interval": 2}}
        return StartSearch.model_validate({**plain, "tuner": tuner, "assessor": None})

    def _suggested(self, number: int) -> None:
        return None
