"""The task that writes the samples of a round to a file of their own: the manifest of a stage.

The dataset is read again up to where it was observed, and its digest compared, so that a manifest has the
samples that the log names and no others, whenever it is written.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import IO, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from trackside.aggregates.dataset.messages import DatasetEnd, DatasetFormat
from trackside.aggregates.rounds.job import split
from trackside.aggregates.rounds.job.split import SplitRule, Use
from trackside.artifacts.blobs.blobs import CHUNK_BYTES
from trackside.incremental.outputs import named_credential, write_output
from trackside.incremental.watching.datasets import DatasetSource, open_dataset
from trackside.incremental.watching.growth import changed, truncated
from trackside.incremental.watching.lines import DatasetError, SampleSplitter
from trackside.sdk import Task, trial

INDEX = "dataIndex.txt"
"""The file next to the manifest of a remote dataset of lines of text: where the files are that these name."""


def _relative(path: str) -> str:
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise PydanticCustomError("bad_path", "not a path below the output: expected one without `..`")
    return path


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ManifestDataset(_Part):
    """Where the dataset is."""

    url: str
    format: DatasetFormat
    credential: str | None = None


class ManifestOutput(_Part):
    """The folder of all manifests."""

    url: str
    credential: str | None = None


class ManifestEnd(_Part):
    """How far the dataset is read, in bytes, and the digest of these."""

    size: int = Field(ge=0)
    sha256: str
    lines: int | None = None


class ManifestParameters(_Part):
    """The parameters of the task: the samples of `ranges` that the segments have for `use`, into a file."""

    dataset: ManifestDataset
    end: ManifestEnd
    segments: list[SplitRule]
    ranges: list[tuple[int, int]]
    use: Use
    output: ManifestOutput
    path: Annotated[str, AfterValidator(_relative)]


class WriteManifest(Task):
    """Writes samples to a file: in the order of the dataset, a line each, the header of a csv before them.

    The result is `{url, sha256, size_bytes, lines}`; a header is not counted. The type of an error is a
    code: `dataset_changed`, `dataset_truncated`, `dataset_missing` and so on for the dataset, or that of an
    OutputError.
    """

    def load(self) -> None:
        """Reads the parameters."""
        self._parameters = ManifestParameters.model_validate(trial.parameters())

    def train(self, device: str) -> dict[str, Any]:
        """Writes the file, read back and in one step; nothing of it is there before."""
        wanted = self._parameters
        folder = wanted.output.url.rstrip("/")
        url = f"{folder}/{wanted.path}"
        credential = named_credential(wanted.output.credential)
        source = open_dataset(wanted.dataset.url, wanted.dataset.credential)
        manifest = ManifestRequest(source, wanted)
        with tempfile.TemporaryFile() as index:
            has_index = source.path is None and wanted.dataset.format == "txt"
            written = write_output(url, credential, manifest.chunks(index if has_index else None))
            if has_index:
                index.seek(0)
                prefix = f"{wanted.dataset.url.rpartition('/')[0]}/\n".encode()
                index_url = f"{url.rpartition('/')[0]}/{INDEX}"
                write_output(index_url, credential, _prefixed(prefix, index))
        return {
            "url": written.url,
            "sha256": written.sha256,
            "size_bytes": written.size_bytes,
            "lines": manifest.lines,
        }


class ManifestRequest:
    """What is written; `lines` is the number of its samples, once all of it was read."""

    def __init__(self, source: DatasetSource, wanted: ManifestParameters) -> None:
        self.lines = 0
        self._source = source
        self._wanted = wanted

    def chunks(self, index: IO[bytes] | None = None) -> Iterator[bytes]:
        """Yields its bytes, in parts of about 1 MiB; names of files in the samples are written to `index`.

        DatasetError at the end of the dataset if that isn't what was observed.
        """
        try:
            yield from self._chunks(index)
        except DatasetError as error:
            about_host = error.code in ("credential_missing", "bad_url")
            code = error.code if about_host else f"dataset_{error.code}"
            raise DatasetError(code, f"dataset {self._wanted.dataset.url}: {error}") from None

    def _chunks(self, index: IO[bytes] | None) -> Iterator[bytes]:
        wanted, chunk = self._wanted, bytearray()
        splitter = SampleSplitter()
        lines = (sample for part in self._prefix() for sample in splitter.push(part))
        if wanted.dataset.format == "csv" and (header := next(lines, None)) is not None:
            chunk += header + b"\n"
        for sample in _chosen(lines, numbers_of(wanted.segments, wanted.ranges, wanted.use)):
            self.lines += 1
            chunk += sample + b"\n"
            if index is not None:
                index.writelines(token + b"\n" for token in sample.split() if _names_file(token))
            if len(chunk) >= CHUNK_BYTES:
                yield bytes(chunk)
                chunk.clear()
        yield bytes(chunk)

    def _prefix(self) -> Iterator[bytes]:
        """Yields the bytes that were observed. Raises DatasetError after them if they aren't these."""
        observed, done, digest = self._wanted.end, 0, hashlib.sha256()
        for part in self._source.read():
            used = part[: observed.size - done]
            digest.update(used)
            done += len(used)
            yield used
            if done == observed.size:
                break
        if done < observed.size:
            raise truncated(observed.size, done)
        if digest.hexdigest() != observed.sha256:
            raise changed(DatasetEnd(size=done, sha256=observed.sha256), digest.hexdigest())


def numbers_of(segments: Sequence[SplitRule], ranges: Iterable[tuple[int, int]], use: Use) -> Iterator[int]:
    """Yields the numbers of samples within ranges that are for a use, each once, in order."""
    done = 0
    for begin, end in sorted(ranges):
        yield from split.samples(segments, max(begin, done), end, use)
        done = max(done, end)


def _chosen(lines: Iterator[bytes], numbers: Iterator[int]) -> Iterator[bytes]:
    """Yields the lines of these numbers; all lines are read."""
    wanted = next(numbers, None)
    for number, line in enumerate(lines):
        if number == wanted:
            yield line
            wanted = next(numbers, None)
    if wanted is not None:
        raise DatasetError("bad_ranges", f"the dataset was observed to end before sample {wanted}")


def _names_file(token: bytes) -> bool:
    """Returns whether a word is like the name of a file: it has an extension, and is no number."""
    try:
        float(token)
    except ValueError:
        return bool(PurePosixPath(token.decode(errors="replace")).suffix)
    return False


def _prefixed(prefix: bytes, file: IO[bytes]) -> Iterator[bytes]:
    yield prefix
    while part := file.read(CHUNK_BYTES):
        yield part
