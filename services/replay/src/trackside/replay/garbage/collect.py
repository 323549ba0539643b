"""Plans what a garbage collection of the store deletes, and deletes it."""

from collections.abc import Callable, Set
from dataclasses import dataclass, field

from trackside.artifacts.blobs.blobs import Blob, Unfinished
from trackside.artifacts.store import Store
from trackside.replay.garbage.holders import Holders
from trackside.replay.history.errors import ReplayError

MAX_DIGESTS = 1_000
"""How many digests one command names."""


class AnotherStoreError(ReplayError):
    """The store seems to be that of another installation: nothing is deleted from it."""

    code = "another_store"


@dataclass(slots=True)
class GarbagePlan:
    """What may be deleted: blobs that nobody holds, what killed writers left, and superseded checkpoints.

    `checkpoints` are those that their stream has to forget first, by stream.
    """

    unheld: list[Blob] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    checkpoints: dict[str, list[Blob]] = field(default_factory=dict)


def plan(holders: Holders, store: Store, before_ms: int) -> GarbagePlan:
    """Returns what of a store may be deleted of what was saved before a time, in ms since 1970.

    Raises the errors of reading a manifest: what files belong to a folder that can't be read is not known.
    """
    blobs = {blob.sha256: blob for blob in store.list_blobs()}
    held = holders.held()
    if blobs and not held & blobs.keys():
        raise AnotherStoreError(
            f"the log refers to none of the {len(blobs)} blobs of {store.blobs.url}: expected the store of "
            "this installation; check TRACKSIDE_STORE, and the address of Kafka and the prefix of its topics"
        )
    files = files_of_folders(holders, store, held, blobs.keys())
    found = GarbagePlan(
        unheld=[
            blob
            for digest, blob in blobs.items()
            if digest not in held and digest not in files and blob.saved_ms < before_ms
        ],
        unfinished=[each for each in store.list_unfinished() if each.saved_ms < before_ms],
    )
    for stream, digests in holders.superseded().items():
        old = [blobs[digest] for digest in digests if digest in blobs and blobs[digest].saved_ms < before_ms]
        if old:
            found.checkpoints[stream] = old
    return found


def files_of_folders(holders: Holders, store: Store, held: Set[str], blobs: Set[str]) -> set[str]:
    """Returns the digests of the files of all folders that are held and belong into the store.

    A folder of an imported stream that is not among the blobs of the store came without its files.
    """
    folders = holders.folders | {
        digest: reference for digest, reference in holders.imported_folders.items() if digest in blobs
    }
    found: set[str] = set()
    for digest in sorted(held & folders.keys()):
        found |= {each.sha256 for each in store.manifest(folders[digest]).files}
    return found


def delete(
    found: GarbagePlan, store: Store, before_ms: int, report: Callable[[int, int], None]
) -> list[Blob]:
    """Deletes what nobody holds, unless it was saved again meanwhile; returns what was deleted."""
    deleted, total = [], len(found.unheld)
    for number, blob in enumerate(found.unheld, 1):
        if store.delete(blob.sha256, before_ms):
            deleted.append(blob)
        report(number, total)
    for each in found.unfinished:
        store.delete_unfinished(each.name)
    return deleted
