"""Reads a blob from the first copy that has it whole: with its digest, and its size where that is known."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from trackside.artifacts.blobs.blobs import BlobReader
from trackside.artifacts.errors import ArtifactDamaged, ArtifactError, ArtifactMissing, StoreUnreachable


class Output(Protocol):
    """What a blob is written to: a file, or what only counts."""

    def seek(self, offset: int, /) -> int:
        """Goes to an offset."""
        ...

    def truncate(self) -> int:
        """Cuts it off there."""
        ...

    def write(self, content: bytes, /) -> int:
        """Writes bytes there."""
        ...


def read_blob(
    places: Sequence[BlobReader],
    sha256: str,
    size_bytes: int | None,
    out: Output,
    report: Callable[[int], None] = lambda _: None,
) -> None:
    """Writes a blob to an empty file; `report` receives how many bytes it has so far.

    ArtifactDamaged if a copy has other bytes and none has these; StoreUnreachable if one didn't answer that
    may have them; ArtifactMissing if no copy has them. The last part of the file is of no use then.
    """
    failures: list[ArtifactError] = []
    for place in places:
        out.seek(0)
        out.truncate()
        try:
            done = 0
            for part in checked_parts(place, sha256, size_bytes):
                out.write(part)
                done += len(part)
                report(done)
        except FileNotFoundError:
            failures.append(ArtifactMissing(f"{place.url} has no blob sha256/{sha256}"))
        except (ArtifactDamaged, StoreUnreachable) as error:
            failures.append(error)
        else:
            return
    raise _worst(sha256, failures)


def checked_parts(place: BlobReader, sha256: str, size_bytes: int | None) -> Iterator[bytes]:
    """Yields the bytes of a blob; ArtifactDamaged at their end if they have another digest or size."""
    digest, done = hashlib.sha256(), 0
    for part in place.read(sha256):
        digest.update(part)
        done += len(part)
        if size_bytes is not None and done > size_bytes:
            break  # whatever follows: these are not the bytes
        yield part
    if digest.hexdigest() != sha256 or size_bytes not in (None, done):
        wrong = "another digest" if size_bytes in (None, done) else f"not the {size_bytes} bytes it should"
        raise ArtifactDamaged(f"in {place.url} the blob sha256/{sha256} has {wrong}")


def _worst(sha256: str, failures: Sequence[ArtifactError]) -> ArtifactError:
    """Returns the error of all copies: what can still be there is unreachable, what was there is damaged."""
    what = "; ".join(str(each) for each in failures)
    if any(isinstance(each, StoreUnreachable) for each in failures):
        return StoreUnreachable(f"artifact sha256/{sha256} can't be read now: {what}")
    if any(isinstance(each, ArtifactDamaged) for each in failures):
        return ArtifactDamaged(
            f"artifact sha256/{sha256} is damaged: {what}. Restore it from a backup, or name another copy of "
            "the store in TRACKSIDE_STORE_COPIES"
        )
    return ArtifactMissing(
        f"artifact sha256/{sha256} is missing: {what}. Put it there again (`trackside artifacts put`), or "
        "name another copy of the store in TRACKSIDE_STORE_COPIES"
    )
