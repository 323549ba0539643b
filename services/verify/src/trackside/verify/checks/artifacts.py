"""INV-20: a version of a model that names an artifact of a task has the digest that was saved there."""

from dataclasses import dataclass, field

from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.artifacts import STORED, ArtifactReference, ArtifactSaved, artifact_source
from trackside.domain.checks.findings import Findings, RecordPosition, position_of


@dataclass(slots=True)
class ArtifactChecks:
    """Keeps the digests of what was saved, and what other streams say of it: these may be read first."""

    findings: Findings
    _saved: dict[str, bytes] = field(default_factory=dict)
    _named: list[tuple[str, bytes, RecordPosition]] = field(default_factory=list)

    def saved(self, event: ArtifactSaved, record: Record) -> None:
        """Takes in an artifact that was saved."""
        source = artifact_source(record.envelope.stream, event.task_id, event.name, event.version)
        self._saved[source] = _digest(event.sha256)

    def named(self, reference: ArtifactReference, record: Record) -> None:
        """Takes in that an event names an artifact; one from outside has no source, and isn't compared."""
        if reference.uri.startswith(STORED):
            self.findings.compare(record, "a URI", reference.uri, STORED + reference.sha256)
        if reference.source:
            self._named.append((reference.source, _digest(reference.sha256), position_of(record)))

    def finish(self) -> None:
        """Compares both. A version is added by a command, long after the artifact was read from the log."""
        for source, digest, place in self._named:
            self.findings.checked["INV-20"] += 1
            saved = self._saved.get(source)
            if saved is None:
                self.findings.add("INV-20", place, f"its artifact {source} was not saved")
            elif saved != digest:
                message = f"its artifact {source} was saved with another digest, {saved.hex()[:12]}"
                self.findings.add("INV-20", place, message)


def _digest(text: str) -> bytes:
    """Returns the octets of a digest in hex: a log may have many."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return text.encode()
