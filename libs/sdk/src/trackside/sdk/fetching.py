"""The error of an artifact that a running task has asked for."""


class FetchError(Exception):
    """An artifact can't be had; `code` says why, such as `artifact_missing` or `store_unreachable`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
