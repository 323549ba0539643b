"""The errors that tasks get of artifacts: each has a code."""


class CodedError(Exception):
    """Something of an artifact could not be done; `code` says why, such as `artifact_missing`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
