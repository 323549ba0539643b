import io
from pathlib import Path

import pytest

from trackside.artifacts.blobs.source_files import COPY_BYTES, SourceFile, open_source
from trackside.artifacts.errors import ArtifactChanged


class GrowingTheSource(io.FileIO):
    """A target that appends to the source as much as it receives."""

    def __init__(self, path: Path, source: Path) -> None:
        super().__init__(path, "x")
        self.source = source

    def write(self, content: bytes, /) -> int:  # type: ignore[override]
        with self.source.open("ab") as file:
            file.write(content)
        return super().write(content)


def test_a_file_that_grows_as_fast_as_it_is_copied_is_refused_and_fills_no_disk(tmp_path: Path) -> None:
    source, copy = tmp_path / "log", tmp_path / "copy"
    source.write_bytes(bytes(2 * COPY_BYTES))
    with (
        open_source(SourceFile(source)) as opened,
        GrowingTheSource(copy, source) as target,
        pytest.raises(ArtifactChanged, match=r"log changed while it was saved: write it completely"),
    ):
        opened.copy_to(target)
    assert copy.stat().st_size <= 3 * COPY_BYTES
