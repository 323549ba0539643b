"""The simulation bites: with one rule of the design removed, it must fail within a few seeds."""

import random
from collections.abc import Callable, Iterable

import pytest

from tests.simulation.test_search import simulate
from trackside.contracts.message import Record
from trackside.contracts.searches import TrialSuggested
from trackside.domain import search
from trackside.domain.outcome import Outcome
from trackside.domain.search import Search, Trial
from trackside.eventlog.reactor import Facts
from trackside.scheduler import service
from trackside.scheduler.owed import DeviceCommand, owed
from trackside.scheduler.service import Scheduler

SEEDS = 12
LIMIT_S = 3.0

Mutate = Callable[[pytest.MonkeyPatch], None]


def any_suggestion_counts(patch: pytest.MonkeyPatch) -> None:
    """A proposal doesn't name what it follows: whatever a rival or a zombie suggests is one more trial."""

    def suggested(found: Search, event: TrialSuggested, record: Record) -> Outcome:
        found.trials.append(Trial(event.trial, event.parameters, record.offset, record.append_time_ms))
        found.active.add(event.trial)
        return Outcome.APPLIED

    patch.setattr(search, "_suggested", suggested)


def commands_are_sent_once(patch: pytest.MonkeyPatch) -> None:
    """`act` isn't level-triggered: a device command that was lost is not sent again."""
    send = Scheduler.act
    sent: set[tuple[str, str, int, int]] = set()

    def act(self: Scheduler, facts: Facts) -> None:

        def unsent(*state: object) -> Iterable[DeviceCommand]:
            for due in owed(*state):  # type: ignore[arg-type]
                if due.key not in sent:
                    sent.add(due.key)
                    yield due

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(service, "owed", unsent)
            send(self, facts)

    patch.setattr(Scheduler, "act", act)


@pytest.mark.timeout(SEEDS * LIMIT_S * 2)
@pytest.mark.parametrize(
    "mutate",
    [
        any_suggestion_counts,
        commands_are_sent_once,
    ],
)
async def test_a_rule_removed_is_noticed(mutate: Mutate, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    for number in range(SEEDS):
        try:
            chance = random.Random(f"{seed}/{number}")
            await simulate(chance, assessor=number % 2 == 1, limit_s=LIMIT_S, rivals=1 + number % 2)
        except (AssertionError, TimeoutError, LookupError, ExceptionGroup):
            return
    pytest.fail(f"{mutate.__name__} survived {SEEDS} seeds")
