"""Every code by which bad input is refused, or an artifact, is in the reference."""

import ast
from collections.abc import Iterator

from tests.house import source
from trackside.artifacts.errors import ArtifactError
from trackside.contracts.envelope.refusals import ARTIFACT_CODES, REFUSAL_CODES

FOLDERS = ("libs/contracts", "libs/domain", "libs/aggregates")
"""Where messages are defined that publishers send."""


def raised_codes() -> Iterator[str]:
    """Yields the codes of the errors that validators of ours raise."""
    for path in source.python_files(*FOLDERS):
        for node in source.nodes(path):
            match node:
                case ast.Call(func=ast.Name("PydanticCustomError"), args=[ast.Constant(str(code)), *_]):
                    yield code


def test_the_code_of_every_error_of_a_message_is_in_the_reference() -> None:
    found = set(raised_codes())
    assert len(found) > 10
    assert sorted(found - set(REFUSAL_CODES)) == []


def test_the_codes_of_artifacts_are_those_of_the_reference() -> None:
    assert sorted(kind.code for kind in ArtifactError.__subclasses__()) == sorted(ARTIFACT_CODES)
