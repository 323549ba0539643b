"""Checks who signed the events that have an effect, with a list of keys from outside the log."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trackside.cli.render import screen
from trackside.contracts.message import Record
from trackside.contracts.trust import UNSIGNED, Trust, TrustedKey, next_digest
from trackside.domain.outcome import Outcome

SHOWN = 20
"""How many findings are printed."""


@dataclass(slots=True)
class SignatureCheck:
    """Takes all records of the events, in order within a partition; `findings` are lines to print.

    Events from before signatures were required may be unsigned: `older` counts them.
    """

    keys: Mapping[str, TrustedKey]
    checked: int = 0
    older: int = 0
    findings: list[str] = field(default_factory=list)
    _expected: dict[str, bytes] = field(default_factory=dict)
    _unlisted: set[str] = field(default_factory=set)

    def take(self, record: Record, outcome: Outcome) -> None:
        """Checks the signature of a record, if it has an effect."""
        stream = record.envelope.stream
        reason = Trust(dict(self.keys)).distrust(record, self._expected.get(stream, b""))
        self._expected[stream] = b"" if reason else next_digest(record)
        place = f"{record.topic}-{record.partition}@{record.offset} {stream}"
        for key_id in record.trust.keys if record.trust is not None else ():
            if key_id not in self.keys and key_id not in self._unlisted:
                self._unlisted.add(key_id)
                self.findings.append(f"{place}: the log trusts key {key_id}, which is not in the list")
        if outcome is not Outcome.APPLIED:
            return
        self.checked += 1
        if reason == UNSIGNED and (record.trust is None or not record.trust.requires(record.offset)):
            self.older += 1
        elif reason:
            name = type(record.message).__name__
            self.findings.append(f"{place}: {name} of {record.envelope.source}: {reason}")

    def say(self, *, as_json: bool) -> None:
        """Prints the result; beside JSON on stderr."""
        write = screen.complain if as_json else screen.say
        for line in self.findings[:SHOWN]:
            write(line)
        if len(self.findings) > SHOWN:
            write(f"and {len(self.findings) - SHOWN} more")
        older = f", {self.older} are unsigned and from before that was required" if self.older else ""
        write(f"signatures: {self.checked} events have an effect, {len(self.findings)} findings{older}")
