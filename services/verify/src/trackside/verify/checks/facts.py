"""INV-26 between streams: what an event says of another stream is what was said there."""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from trackside.contracts.envelope.message import Record
from trackside.contracts.streams.children import ChildEnded
from trackside.domain.checks.findings import Findings, RecordPosition, position_of


class RepeatedFact(NamedTuple):
    """What an event at a place says of another stream, which may be read later."""

    stream: str
    name: str
    value: object
    place: RecordPosition


def child_facts(event: ChildEnded) -> Iterator[tuple[str, str, object]]:
    """Yields what the end of a child repeats of its stream: how it has ended, and the trials of a search."""
    yield event.child_id, "its end", event.status
    if (trials := event.result.get("trials")) is not None:
        yield event.child_id, "its number of trials", trials
    best = event.result.get("best")
    for trial in best if isinstance(best, list) else ():
        if isinstance(trial, dict) and isinstance(trial.get("value"), float):
            yield event.child_id, f"the value of trial {trial.get('trial')}", trial["value"]
            if "parameters" in trial:
                name = f"the parameters of trial {trial.get('trial')}"
                yield event.child_id, name, trial["parameters"]


@dataclass(slots=True)
class FactChecks:
    """Keeps what streams say that others repeat, and what these say."""

    findings: Findings
    _facts: dict[tuple[str, str], list[object]] = field(default_factory=dict)
    _repeated: list[RepeatedFact] = field(default_factory=list)

    def states(self, record: Record, facts: Iterable[tuple[str, object]]) -> None:
        """Takes in facts of the stream of a record, by their names; one may be stated again, otherwise."""
        for name, value in facts:
            self._facts.setdefault((record.envelope.stream, name), []).append(value)

    def has(self, stream: str, name: str) -> bool:
        """Returns whether a stream has stated a fact."""
        return (stream, name) in self._facts

    def repeats(self, record: Record, facts: Iterable[tuple[str, str, object]]) -> None:
        """Takes in what a record says of other streams: their ids, names of facts, and values."""
        if record.envelope.causation_id:
            self._repeated += [RepeatedFact(*each, position_of(record)) for each in facts]

    def finish(self, unreadable: Container[str]) -> None:
        """Compares both. An event is written after what it repeats, so a whole log has that."""
        for stream, name, value, place in self._repeated:
            if stream in unreadable:
                continue
            self.findings.checked["INV-26"] += 1
            known = self._facts.get((stream, name), [])
            if value not in known:
                said = f"{known[-1]!r:.100}" if known else "nothing"
                message = f"it has {value!r:.100} as {name} of stream {stream}, which says {said}"
                self.findings.add("INV-26", place, message)
