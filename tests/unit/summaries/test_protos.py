import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "libs/summaries/src"
PROTOS = sorted((SOURCES / "trackside/summaries/event_files/protos").glob("*.proto"))


@pytest.mark.parametrize("proto", PROTOS, ids=lambda path: path.stem)
def test_the_module_is_what_protoc_makes_of_the_format(proto: Path, tmp_path: Path) -> None:
    """Where it is not: `make protos`."""
    path = proto.relative_to(SOURCES)
    options = ["--proto_path=.", f"--python_out={tmp_path}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options, path], cwd=SOURCES, check=True)
    module = path.with_name(f"{path.stem}_pb2.py")
    assert (tmp_path / module).read_text() == (SOURCES / module).read_text()
