"""Whom a task of higher priority pushes aside: the fewest, the lowest, the youngest. Pure."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from trackside.scheduler.asks import Asks
from trackside.scheduler.estimates import Want
from trackside.scheduler.occupancy import Booking, Host, Slot
from trackside.scheduler.placement import Rules, Spot, free_places


@dataclass(frozen=True, slots=True)
class Push:
    """A place that a task gets once others have left it, and those of them that must be told to."""

    spot: Spot
    victims: tuple[Booking, ...]


Free = Callable[[Booking], bool]


def push(
    hosts: Iterable[Host],
    asks: Asks,
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
        if not host.serves(asks) or not host.open:
            continue
        found = _push_on(host, asks, want, rules, usable, may_go)
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
    host: Host, asks: Asks, want: Want, rules: Rules, usable: Callable[[Slot], bool], may_go: Free
) -> Push | None:
    def spot_without(gone: Collection[Booking]) -> Spot | None:
        return without(host, gone, lambda: free_places([host], asks, want, rules, usable).best())

    leaving = [booking for booking in host.bookings.values() if booking.stopping or booking.recalled]
    spot = spot_without(leaving)
    if spot is not None:
        return Push(spot, ())
    lower = [
        booking
        for booking in host.bookings.values()
        if booking not in leaving and not booking.shadow and booking.level < asks.preempts and may_go(booking)
    ]
    lower.sort(key=lambda booking: (booking.level, -booking.assigned_ms, booking.task_id))
    victims = _fewest(lower, lambda gone: spot_without([*leaving, *gone]) is not None)
    if not victims:
        return None
    spot = spot_without([*leaving, *victims])
    return None if spot is None else Push(spot, tuple(victims))


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


def without(host: Host, gone: Collection[Booking], look: Callable[[], Spot | None]) -> Spot | None:
    """Looks at a host as if some tasks weren't there."""
    for booking in gone:
        host.unbook(booking.task_id)
    try:
        return look()
    finally:
        for booking in gone:
            host.book(booking)
