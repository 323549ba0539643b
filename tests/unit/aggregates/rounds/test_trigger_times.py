"""Times of triggers: windows of the day, cron, and when a result is another one (I10)."""

import random
from collections.abc import Iterator
from datetime import datetime

import pytest

from trackside.aggregates.rounds.job import trigger_messages
from trackside.aggregates.rounds.stages import triggers
from trackside.aggregates.rounds.stages.triggers import Known, can_hold_later, holds, next_change

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Casablanca",
)
SLOW_SEEDS = (*range(4), *range(6, 18))
CLOCKS_SET = ("2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01")


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def daily(start: str, end: str, timezone: str = "UTC") -> trigger_messages.DailyWindow:
    return trigger_messages.DailyWindow(type="daily", start=start, end=end, timezone=timezone)


def all_of(*triggers: trigger_messages.Trigger) -> trigger_messages.AllTriggers:
    return trigger_messages.AllTriggers(type="all_of", triggers=list(triggers))


def any_of(*triggers: trigger_messages.Trigger) -> trigger_messages.AnyTrigger:
    return trigger_messages.AnyTrigger(type="any_of", triggers=list(triggers))


def number(metric: str, operator: str, threshold: float) -> trigger_messages.MetricCondition:
    fields = {"type": "condition", "metric": metric, "operator": operator, "threshold": threshold}
    return trigger_messages.MetricCondition.model_validate(fields)


NEVER = number("hard_examples", ">", 1)


def changes(trigger: trigger_messages.Trigger, known: Known, from_ms: int, until_ms: int) -> Iterator[int]:
    """Yields the times at which the result of a trigger becomes another one, as next_change finds them."""
    result, at_ms = holds(trigger, known, from_ms), from_ms
    while True:
        found = next_change(trigger, known, at_ms, result)
        if found is None or found >= until_ms:
            return
        yield found
        result, at_ms = not result, found


BERLIN, KATHMANDU, LORD_HOWE = "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe"


def test_a_window_follows_the_clock_of_its_zone_also_when_that_is_set() -> None:
    for window, begin, end, found in (
        # I10: of the clock of its zone, 5:45 hours ahead of UTC; Sedna takes that of its host.
        (("08:00", "09:00", KATHMANDU), "06-01T00", "06-02T00", ["06-01T02:15+00:00", "06-01T03:16+00:00"]),
        # In the hour that is left out it isn't held that day; one that begins there begins after it.
        (("02:10", "02:30", BERLIN), "03-28T12", "03-31T00", ["03-30T02:10+02:00", "03-30T02:31+02:00"]),
        (("02:30", "04:00", BERLIN), "03-29T00", "03-29T12", ["03-29T03:00+02:00", "03-29T04:01+02:00"]),
        # In the hour that comes twice it holds twice; in Lord Howe it is half an hour, 1:30 to 2:00.
        (
            ("02:10", "02:30", BERLIN),
            *("10-24T12", "10-25T12"),
            [f"10-25T02:{time}" for time in ("10+02:00", "31+02:00", "10+01:00", "31+01:00")],
        ),
        (
            ("02:00", "02:15", LORD_HOWE),
            *("04-04T00", "04-06T12"),
            [f"04-0{day}T02:{minute}+10:30" for day in (5, 6) for minute in ("00", "16")],
        ),
    ):
        times = [at(f"2026-{each}:00+00:00") for each in (begin, end)]
        assert list(changes(daily(*window), Known(), *times)) == [at(f"2026-{each}") for each in found]


def random_trigger(chance: random.Random, known: Known, depth: int) -> trigger_messages.Trigger:
    def minute() -> str:
        return f"{chance.randrange(24):02}:{chance.choice((0, 15, 29, 30, 59)):02}"

    kind = chance.choice(("daily", "daily", "cron", "since", "manual", "all", "any"))
    if depth and kind in ("all", "any"):
        parts = [random_trigger(chance, known, depth - 1) for _ in range(chance.randint(1, 3))]
        return all_of(*parts) if kind == "all" else any_of(*parts)
    if kind == "cron":
        cron = f"{chance.choice((0, 15, 30))} {chance.randrange(24)} * * {chance.choice(('*', '1', '6'))}"
        return trigger_messages.CronTimes(type="cron", cron=cron, timezone=chance.choice(ZONES))
    if kind == "since":
        return number(
            "seconds_since_last_round", chance.choice((">", ">=", "<", "<=")), 60.0 * chance.randrange(10_000)
        )
    if kind == "manual":
        return trigger_messages.ByCommand(type="manual")
    end = minute() if chance.random() < 0.9 else "24:00"
    return daily(minute(), end, chance.choice(ZONES))


@pytest.mark.parametrize("seed", [4, 5, *(pytest.param(at, marks=pytest.mark.thorough) for at in SLOW_SEEDS)])
def test_changes_are_those_that_a_scan_of_every_minute_finds(seed: int) -> None:
    """None is missed, and none is found that isn't one: around each day on which clocks are set."""
    chance = random.Random(seed)
    from_ms = at(f"{CLOCKS_SET[seed % len(CLOCKS_SET)]}T00:00+00:00") - 2 * DAY_MS
    known = Known(
        {}, from_ms - chance.randrange(5_000) * MINUTE_MS, from_ms - chance.randrange(5_000) * MINUTE_MS
    )
    trigger = all_of(*(random_trigger(chance, known, 3) for _ in range(chance.randint(1, 2))))
    scanned = []
    result = holds(trigger, known, from_ms)
    for now_ms in range(from_ms, from_ms + 5 * DAY_MS, MINUTE_MS):
        if holds(trigger, known, now_ms) is not result:
            scanned.append(now_ms)
            result = not result
    # a number of seconds is larger than a threshold 1 ms after it has reached it
    found = {-(-ms // MINUTE_MS) * MINUTE_MS for ms in changes(trigger, known, from_ms, from_ms + 5 * DAY_MS)}
    assert sorted(found) == scanned, f"seed {seed}: {trigger}"


def test_a_time_of_cron_that_has_passed_holds_until_the_stage_has_begun_and_waits_for_its_window() -> None:
    nightly = trigger_messages.CronTimes(type="cron", cron="30 2 * * *", timezone="Europe/Berlin")
    known = Known(waits_since_ms=at("2026-06-01T12:00+00:00"))
    due_ms = at("2026-06-02T02:30+02:00")
    assert next_change(nightly, known, known.waits_since_ms, before=False) == due_ms
    times = (due_ms - 1, due_ms, due_ms + 10 * DAY_MS)
    assert [holds(nightly, known, time) for time in times] == [False, True, True]
    assert next_change(nightly, known, due_ms, before=True) is None
    both = all_of(trigger_messages.CronTimes(type="cron", cron="0 3 1 * *"), daily("22:00", "23:00"))
    known = Known(waits_since_ms=at("2026-06-02T00:00+00:00"))
    assert next_change(both, known, known.waits_since_ms, before=False) == at("2026-07-01T22:00+00:00")


@pytest.mark.parametrize(
    ("operator", "due_ms"), [(">=", 90_500), (">", 90_501), ("<", 90_500), ("<=", 90_501), ("==", 90_500)]
)
def test_seconds_since_the_last_round_cross_a_threshold_to_the_ms(operator: str, due_ms: int) -> None:
    known = Known(last_round_ms=1_000)
    trigger = number("seconds_since_last_round", operator, 89.5)
    result = holds(trigger, known, 1_000)
    assert next_change(trigger, known, 1_000, result) == due_ms
    assert holds(trigger, known, due_ms) is not result


def test_what_no_waiting_changes_and_windows_that_never_meet_have_no_next_change() -> None:
    """A job that got a time to look again would wake up for ever."""
    now_ms = at("2026-06-01T12:00+00:00")
    early = daily("01:00", "02:00")
    for trigger, result in (
        *((None, True), (NEVER, False), (trigger_messages.ByCommand(type="manual"), False)),
        *((daily("00:00", "24:00"), True), (number("seconds_since_last_round", ">", 1e300), False)),
        (all_of(early, NEVER), False),
        (all_of(early, daily("03:00", "04:00"), daily("01:00", "04:00")), False),
        (any_of(daily("01:00", "12:59"), daily("13:00", "00:59")), True),
    ):
        assert holds(trigger, Known(), now_ms) is result
        assert next_change(trigger, Known(), now_ms, result) is None


def test_windows_that_meet_only_while_one_clock_is_set_are_found_and_none_of_an_unknown_zone() -> None:
    """Berlin is 6 hours ahead of New York, but 5 in some weeks of a year."""
    both = all_of(daily("14:30", "14:30", "Europe/Berlin"), daily("09:30", "09:30", "America/New_York"))
    found = next_change(both, Known(), at("2026-04-10T00:00+00:00"), before=False)
    assert found == at("2026-10-25T14:30+01:00")
    unknown = daily("00:00", "24:00", "Mars/Olympus")  # another one would begin stages at a wrong hour
    assert not holds(unknown, Known(), 0)
    assert next_change(unknown, Known(), 0, before=False) is None
    assert next_change(unknown, Known(), 0, before=True) == 0


def test_looking_for_what_never_comes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However parts are nested, each is looked at once for each of its edges."""
    looks = 0

    def counted(*given: object) -> bool:
        nonlocal looks
        looks += 1
        return within(*given)  # type: ignore[arg-type]

    within = triggers._is_within
    monkeypatch.setattr(triggers, "_is_within", counted)
    trigger: trigger_messages.Trigger = all_of(daily("01:00", "02:00"), daily("03:00", "04:00"))
    for hour in range(5, 9):
        trigger = any_of(all_of(trigger, daily(f"{hour:02}:00", f"{hour:02}:30")), all_of(trigger, trigger))
    assert next_change(trigger, Known(), 0, before=False) is None
    assert looks < 500 * 2 * 2 * 6 * 2, looks


def test_a_command_stands_for_times_and_for_commands_but_not_for_numbers() -> None:
    now_ms = at("2026-06-01T12:00+00:00")
    enough = number("num_of_samples", ">=", 10)
    nightly = trigger_messages.CronTimes(type="cron", cron="30 2 * * *")
    times = all_of(daily("01:00", "02:00"), nightly, trigger_messages.ByCommand(type="manual"))
    known = Known({"num_of_samples": 10}, now_ms, now_ms)
    assert not holds(times, known, now_ms)
    assert holds(times, known, now_ms, commanded=True)
    assert holds(all_of(times, enough), known, now_ms, commanded=True)
    assert not holds(all_of(times, enough), Known({"num_of_samples": 9}), now_ms, commanded=True)


def test_what_waits_for_a_command_never_holds_by_waiting() -> None:
    manual, window = trigger_messages.ByCommand(type="manual"), daily("01:00", "02:00")
    waiting: list[trigger_messages.Trigger] = [manual, all_of(manual, window), any_of(manual, all_of(manual))]
    waiting.append(all_of(any_of(manual), NEVER))
    either = any_of(manual, window)
    others = [None, window, NEVER, either, all_of(either, NEVER)]
    assert all(map(triggers.waits_for_command, waiting))
    assert not any(map(triggers.waits_for_command, others))
    assert not any(can_hold_later(trigger, Known(), 0) for trigger in waiting)


def test_a_trigger_can_hold_later_if_only_its_time_is_missing() -> None:
    now_ms = at("2026-06-01T12:00+00:00")
    better = number("accuracy_delta[0]", ">", 0)
    window = daily("01:00", "02:00")
    good, bad = Known({"accuracy_delta": [0.1]}), Known({"accuracy_delta": [-0.1]})
    assert can_hold_later(None, bad, now_ms)
    assert can_hold_later(all_of(better, window), good, now_ms)
    assert not can_hold_later(all_of(better, window), bad, now_ms)
    assert can_hold_later(any_of(better, window), bad, now_ms)
    assert not can_hold_later(better, bad, now_ms)
