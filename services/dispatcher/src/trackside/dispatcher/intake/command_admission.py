"""Decides whether a command is within the limits of its publisher.

The decision is in the log: the event that records the command has it, so the first dispatcher that writes it
decides for all. What is counted follows the log.
"""

from collections import Counter
from collections.abc import Collection

from trackside.contracts.envelope.refusals import TOO_MANY, Problem
from trackside.dispatcher.intake.command_rates import CommandRates, RateKey, window_budget
from trackside.dispatcher.intake.fair_queue import CommandPosition, WaitingCommand
from trackside.dispatcher.intake.publisher_limits import NO_LIMITS, PublisherLimits
from trackside.domain.streams.stream import Stream
from trackside.eventlog.clock import rfc3339


class CommandAdmission:
    """The limits of publishers, and what counts for them; a command that is no valid record never does."""

    def __init__(self, limits: PublisherLimits = NO_LIMITS, opened_by: Collection[str] = ()) -> None:
        self._limits = limits
        self._is_off = limits.is_off
        self._opened_by = opened_by
        self._rates = CommandRates()
        self._open = OpenStreams(opened_by)
        self._opening: Counter[str] = Counter()
        self._admitted: dict[CommandPosition, bool] = {}

    def update(self, stream: Stream) -> None:
        """Takes in a stream that may have changed."""
        if not self._is_off:
            self._open.update(stream)

    def admit(self, command: WaitingCommand) -> None:
        """Postpones a command that is beyond a limit: its body is dropped. Decides once about each."""
        if self._is_off or command.event.problem is not None or command.position in self._admitted:
            return
        problem = self._beyond_rate(command) or self._beyond_streams(command)
        if problem is None:
            opens = self._opens(command)
            self._admitted[command.position] = opens
            if opens:
                self._opening[command.publisher] += 1
        else:
            postponed = {"body": None, "problem": problem, "problems": [problem]}
            command.event = command.event.model_copy(update=postponed)

    def recorded(self, command: WaitingCommand, postponed: bool) -> None:
        """Takes in what the log says about a command, which another process may have written."""
        problem = command.event.problem
        if self._is_off or (problem is not None and problem.code != TOO_MANY):
            return
        opens = self._admitted.pop(command.position, None)
        if opens:
            self._opening[command.publisher] -= 1
            if not self._opening[command.publisher]:
                del self._opening[command.publisher]
        by = (not postponed) - (opens is not None)
        if by:
            self._rates.correct(self._rate_key(command), command.at_ms, by)

    def _rate_key(self, command: WaitingCommand) -> RateKey:
        return RateKey(command.publisher, command.event.command_type in self._opened_by)

    def _opens(self, command: WaitingCommand) -> bool:
        return command.event.command_type in self._opened_by and command.stream not in self._open

    def _beyond_rate(self, command: WaitingCommand) -> Problem | None:
        per_s = self._limits.of(command.publisher).max_commands_per_s
        if not per_s:
            return None
        key = self._rate_key(command)
        retry_at_ms = self._rates.take(key, command.at_ms, per_s)
        if retry_at_ms is None:
            return None
        kind = "that open streams" if key.opens else "that open no stream"
        message = (
            f"{command.publisher}: the limit is {window_budget(per_s)} in 10 s ({per_s:g} a second) of the "
            f"commands {kind}; publish it again from {rfc3339(retry_at_ms)} on"
        )
        return _too_many(command, message, retry_at_ms)

    def _beyond_streams(self, command: WaitingCommand) -> Problem | None:
        limit = self._limits.of(command.publisher).max_open_streams
        if not limit or not self._opens(command):
            return None
        count = self._open.count(command.publisher) + self._opening[command.publisher]
        if count < limit:
            return None
        message = (
            f"{command.publisher}: the limit of open streams is {limit}, and it has {count}; publish it "
            "again when one of them is over"
        )
        return _too_many(command, message, None)


def _too_many(command: WaitingCommand, message: str, retry_at_ms: int | None) -> Problem:
    path = "$keyid" if command.event.key_id else "$source"
    return Problem(code=TOO_MANY, path=path, message=message, retry_at_ms=retry_at_ms)


class OpenStreams:
    """Streams of which something runs, and those that an unanswered command may open, by publisher."""

    def __init__(self, opened_by: Collection[str]) -> None:
        self._opened_by = opened_by
        self._publishers: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    def __contains__(self, stream_id: str) -> bool:
        return stream_id in self._publishers

    def count(self, publisher: str) -> int:
        """Returns how many open streams a publisher has."""
        return self._counts[publisher]

    def update(self, stream: Stream) -> None:
        """Takes in a stream that may have changed."""
        before, after = self._publishers.get(stream.stream_id, ""), self._publisher(stream)
        if before == after:
            return
        if before:
            del self._publishers[stream.stream_id]
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
        if after:
            self._publishers[stream.stream_id] = after
            self._counts[after] += 1

    def _publisher(self, stream: Stream) -> str:
        """Returns who has opened a stream, or is about to; empty if it is not open."""
        root = stream.root
        if root is not None and not root.over:
            return stream.publisher
        waiting = (
            each.publisher
            for each in stream.commands.values()
            if each.publisher and not each.problems and each.command_type in self._opened_by
        )
        return next(waiting, "")
