from trackside.artifacts import errors
from trackside.contracts.refusals import ARTIFACT_CODES


def test_the_codes_of_errors_are_those_of_the_reference() -> None:
    codes = sorted(kind.code for kind in errors.ArtifactError.__subclasses__())
    assert codes == sorted(ARTIFACT_CODES)
