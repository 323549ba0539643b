"""Searches that are recorded whose tuners and assessors fail, wait, or promote trials."""

import json
from typing import Any

from trackside.aggregates.search.messages import StartSearch
from trackside.dispatcher.advice.advisor_process import AdviceFailed
from trackside.dispatcher.tuners.tuner import TunerWaits
from trackside.simulation.host.worker_state import TRAINING_TYPE
from trackside.simulation.scenarios.scenarios import SearchScenario
from trackside.simulation.services import SimulatedAdvisor


class TroubledAdvisor(SimulatedAdvisor):
    """An advisor whose tuner fails, waits and has nothing left, and whose assessor fails."""

    _answers = 0

    def _answer(self, search: str, op: Any) -> Any:
        if op["op"] in ("ask", "take"):
            self._answers += 1
            match op["op"], self._answers:
                case "ask", 1 | 2:
                    raise AdviceFailed("it fails", "Traceback")
                case "ask", 4:
                    raise TunerWaits
                case "take", _ if self._answers % 2:
                    raise AdviceFailed("it can't say", "Traceback")
                case "ask", _ if op["number"] >= 6:
                    return None
        return super()._answer(search, op)


class FailingAdvisor(SimulatedAdvisor):
    """An advisor whose tuner always fails, from the second trial on."""

    def _answer(self, search: str, op: Any) -> Any:
        if op["op"] == "ask" and op["number"] > 1:
            raise AdviceFailed("it fails", "Traceback")
        return super()._answer(search, op)


class TroubledScenario(SearchScenario):
    """A search whose tuner and assessor fail now and then, and that ends before its limit."""

    name = "troubled"

    def command(self) -> StartSearch:
        plain = super().command().model_dump(mode="json", exclude_unset=True)
        tuner = {"name": "random", "on_failure": {"retries": 3, "then": "stop"}}
        return StartSearch.model_validate({**plain, "tuner": tuner})


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
