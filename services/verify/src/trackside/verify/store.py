"""INV-22: the store of artifacts has what the log says it has, by size, or by digest."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from trackside.artifacts.errors import ArtifactDamaged, ArtifactMissing
from trackside.artifacts.store import Condition, Store
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.domain.checks.findings import Finding, in_order
from trackside.replay.history.held_artifacts import HeldArtifact
from trackside.verify.log import VerificationReport

THREADS = 8
"""How many artifacts are looked up at once."""
_CODES: dict[Condition, str] = {"missing": ArtifactMissing.code, "damaged": ArtifactDamaged.code}


def verify_store(
    report: VerificationReport,
    held: Sequence[HeldArtifact],
    store: Store,
    *,
    digests: bool,
    on_progress: Callable[[int, int], None],
) -> None:
    """Adds to a report which artifacts the store lacks, or has with another size; with `digests` all is read.

    Each blob is looked up once. Only the store itself counts, not its copies. Raises StoreUnreachable.
    """
    store.check_reachable()
    references = {_key(each.reference): each.reference for each in held}
    conditions: dict[tuple[str, int, str], Condition] = {}
    with ThreadPoolExecutor(THREADS) as threads:
        found = threads.map(lambda each: store.verify(each, digests=digests), references.values())
        for key, condition in zip(references, found, strict=True):
            conditions[key] = condition
            on_progress(len(conditions), len(references))
    del report.skipped["INV-22"]
    report.checked["INV-22"] = len(held)
    wrong = [(each, code) for each in held if (code := _code(each, conditions))]
    report.findings = in_order([*report.findings, *(_finding(each, store, code) for each, code in wrong)])


def _key(reference: ArtifactReference) -> tuple[str, int, str]:
    return reference.sha256, reference.size_bytes, reference.media_type


def _code(held: HeldArtifact, conditions: dict[tuple[str, int, str], Condition]) -> str:
    """Returns the code of what is wrong with an artifact, an empty one for nothing."""
    return _CODES.get(conditions[_key(held.reference)], "")


def _finding(held: HeldArtifact, store: Store, code: str) -> Finding:
    reference = held.reference
    says = "has other bytes for" if code == ArtifactDamaged.code else "lacks"
    return Finding(
        "INV-22",
        *held.place,
        f"{code}: {store.blobs.url} {says} {held.name}, {reference.size_bytes} B, sha256 {reference.sha256}",
    )
