"""Which tasks one of higher priority preempts: the fewest, the lowest in priority, the youngest. Pure."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from trackside.scheduler.hosts.booking import Booking
from trackside.scheduler.hosts.occupancy import HostState
from trackside.scheduler.placing.placement import Candidate, PlacementQuery, scan_free


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """A place that a task gets once its tasks have left, and those that must be stopped for it."""

    candidate: Candidate
    victims: tuple[Booking, ...]


MayPreempt = Callable[[Booking], bool]


def plan_preemption(
    hosts: Iterable[HostState], query: PlacementQuery, may_preempt: MayPreempt
) -> PreemptionPlan | None:
    """Returns the place for which the fewest tasks must leave, or None if preemption makes no room.

    Tasks that are leaving already count as gone. `may_preempt` says which may be stopped now.
    """
    best: tuple[tuple[int, int, int, int], PreemptionPlan] | None = None
    for host in hosts:
        if not host.serves(query.requirements) or not host.open:
            continue
        found = _plan_on(host, query, may_preempt)
        if found is None:
            continue
        levels = max((victim.effective_priority for victim in found.victims), default=0)
        youngest = min((victim.assigned_ms for victim in found.victims), default=0)
        key = (len(found.victims), levels, -youngest, host.rank)
        if best is None or key < best[0]:
            best = (key, found)
            if not found.victims:
                break
    return None if best is None else best[1]


def _plan_on(host: HostState, query: PlacementQuery, may_preempt: MayPreempt) -> PreemptionPlan | None:
    def candidate_without(gone: Collection[Booking]) -> Candidate | None:
        return without_bookings(host, gone, lambda: scan_free([host], query).best())

    bookings = [booking for each in (host, *host.neighbours) for booking in each.bookings.values()]
    leaving = [booking for booking in bookings if booking.stopping or booking.recalled]
    candidate = candidate_without(leaving)
    if candidate is not None:
        return PreemptionPlan(candidate, ())
    lower = [
        booking
        for booking in bookings
        if booking not in leaving
        and not booking.nominated
        and booking.gives_way
        and booking.effective_priority < query.requirements.preempts_below
        and may_preempt(booking)
    ]
    lower.sort(key=lambda booking: (booking.effective_priority, -booking.assigned_ms, booking.task_id))
    victims = _fewest(lower, lambda gone: candidate_without([*leaving, *gone]) is not None)
    if not victims:
        return None
    candidate = candidate_without([*leaving, *victims])
    return None if candidate is None else PreemptionPlan(candidate, tuple(victims))


def _fewest(lower: list[Booking], makes_room: Callable[[list[Booking]], bool]) -> list[Booking]:
    """Returns one booking that suffices, else a minimal set; nothing if all together don't suffice."""
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


def without_bookings(
    host: HostState, gone: Collection[Booking], scan: Callable[[], Candidate | None]
) -> Candidate | None:
    """Runs a scan on a host as if some bookings, its own or of its neighbours, did not exist."""
    owners = [(host.owner_of(booking.task_id), booking) for booking in gone]
    for owner, booking in owners:
        owner.unbook(booking.task_id)
    try:
        return scan()
    finally:
        for owner, booking in owners:
            owner.book(booking)
