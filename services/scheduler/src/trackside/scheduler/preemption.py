"""Whom a task of higher priority pushes aside: the fewest, the lowest, the youngest. Pure."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from trackside.scheduler.estimates import Want
from trackside.scheduler.occupancy import Booking, Host, Slot
from trackside.scheduler.placement import Candidate, Rules, scan_free
from trackside.scheduler.requirements import Requirements


@dataclass(frozen=True, slots=True)
class Push:
    """A place that a task gets once others have left it, and those of them that must be told to."""

    candidate: Candidate
    victims: tuple[Booking, ...]


Free = Callable[[Booking], bool]


def push(
    hosts: Iterable[Host],
    requirements: Requirements,
    want: Want,
    rules: Rules,
    usable: Callable[[Slot], bool],
    may_go: Free,
) -> Push | None:
    """Gives the place for which the fewest must leave, or None if no leaving makes room.

    Those who leave anyway count as gone already. `may_go` says who may be asked now.
    """
    best: tuple[tuple[int, int, int, int], Push] | None = None
    for host in hosts:
        if not host.serves(requirements) or not host.open:
            continue
        found = _push_on(host, requirements, want, rules, usable, may_go)
        if found is None:
            continue
        levels = max((victim.level for victim in found.victims), default=0)
        youngest = min((victim.assigned_ms for victim in found.victims), default=0)
        key = (len(found.victims), levels, -youngest, host.rank)
        if best is None or key < best[0]:
            best = (key, found)
            if not found.victims:
                break
    return None if best is None else best[1]


def _push_on(
    host: Host,
    requirements: Requirements,
    want: Want,
    rules: Rules,
    usable: Callable[[Slot], bool],
    may_go: Free,
) -> Push | None:
    def candidate_without(gone: Collection[Booking]) -> Candidate | None:
        return without(host, gone, lambda: scan_free([host], requirements, want, rules, usable).best())

    leaving = [booking for booking in host.bookings.values() if booking.stopping or booking.recalled]
    candidate = candidate_without(leaving)
    if candidate is not None:
        return Push(candidate, ())
    lower = [
        booking
        for booking in host.bookings.values()
        if booking not in leaving
        and not booking.nominated
        and booking.level < requirements.preempts
        and may_go(booking)
    ]
    lower.sort(key=lambda booking: (booking.level, -booking.assigned_ms, booking.task_id))
    victims = _fewest(lower, lambda gone: candidate_without([*leaving, *gone]) is not None)
    if not victims:
        return None
    candidate = candidate_without([*leaving, *victims])
    return None if candidate is None else Push(candidate, tuple(victims))


def _fewest(lower: list[Booking], makes_room: Callable[[list[Booking]], bool]) -> list[Booking]:
    """Gives one that suffices, else some that none can be left out of; nothing if all don't suffice."""
    if not lower or not makes_room(lower):
        return []
    for booking in lower:
        if makes_room([booking]):
            return [booking]
    chosen: list[Booking] = []
    for booking in lower:
        chosen.append(booking)
        if makes_room(chosen):
            break
    for booking in reversed(chosen[:-1]):
        rest = [other for other in chosen if other is not booking]
        if makes_room(rest):
            chosen = rest
    return chosen


def without(host: Host, gone: Collection[Booking], look: Callable[[], Candidate | None]) -> Candidate | None:
    """Looks at a host as if some tasks weren't there."""
    for booking in gone:
        host.unbook(booking.task_id)
    try:
        return look()
    finally:
        for booking in gone:
            host.book(booking)
