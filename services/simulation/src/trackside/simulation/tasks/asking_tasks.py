"""Tasks that ask for the parameters of another trial.

Such a task reports nothing but its parameter, so that a report that counts for another trial is found.
"""

import asyncio

from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.tasks.tasks import AttemptEnd, MetricReported, ParametersRequested, ParametersTaken
from trackside.simulation.host.reporting import drawn
from trackside.simulation.host.worker_state import SimulatedPlacement, Workload
from trackside.simulation.tasks.tasks import CoroutineTask


class AskingTask(CoroutineTask):
    """Carries out one trial after another, until it gets no further one; what it has said is on the disk."""

    _answer: asyncio.Future[tuple[Json | None, str]] | None = None

    @classmethod
    def run_on(cls, placement: SimulatedPlacement, workload: Workload) -> None:
        """Reports the rest of its trial, and asks for the next one; then it waits for its next worker."""
        while not _waits(placement) and placement.ending is None:
            placement.said.append((_next_event(placement, workload), placement.cause))

    def answer(self, request: int, parameters: Json | None, cause: str) -> None:
        """Hands over the answer to its request once, and repeats that it has one that it has taken."""
        taken = _taken(self.placement)
        if request in (each.request for each in taken):
            self._reporter.event(self.placement, self._took(request), cause=cause)
        elif self._answer is not None and not self._answer.done() and request == len(taken) + 1:
            self._answer.set_result((parameters, cause))

    async def _run(self) -> None:
        placement = self.placement
        interval_s = drawn(self._rng, self._workload.seconds) / self._workload.reports
        while True:
            while not _waits(placement):
                await asyncio.sleep(interval_s)
                self._say(_next_event(placement, self._workload))
            self._answer = asyncio.get_running_loop().create_future()
            parameters, placement.cause = await self._answer
            self._say(self._took(len(_taken(placement)) + 1))
            if parameters is None:
                await self._end(AttemptEnd.FINISHED)
                return
            placement.parameters = parameters

    def _took(self, request: int) -> ParametersTaken:
        placement = self.placement
        return ParametersTaken(**placement.token, incarnation=placement.incarnation, request=request)

    def _say(self, event: Event) -> None:
        self.placement.said.append((event, self.placement.cause))
        self._reporter.event(self.placement, event)


def _taken(placement: SimulatedPlacement) -> list[ParametersTaken]:
    return [event for event, _ in placement.said if isinstance(event, ParametersTaken)]


def _waits(placement: SimulatedPlacement) -> bool:
    """Returns whether a task has asked and has no answer yet."""
    return bool(placement.said) and isinstance(placement.said[-1][0], ParametersRequested)


def _next_event(placement: SimulatedPlacement, workload: Workload) -> Event:
    """Returns what a task that doesn't wait says next: a report of its trial, or its request."""
    taken = len(_taken(placement))
    step = sum(isinstance(event, MetricReported) and event.requests == taken for event, _ in placement.said)
    if step > workload.reports:
        return ParametersRequested(**placement.token, incarnation=placement.incarnation, request=taken + 1)
    return MetricReported(
        **placement.token,
        kind="PERIODICAL" if step < workload.reports else "FINAL",
        step=step,
        value=placement.parameters["x"],
        requests=taken,
    )
