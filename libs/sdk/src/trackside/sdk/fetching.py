"""The error of an artifact that a running task has asked for."""

from trackside.sdk.coded_error import CodedError


class FetchError(CodedError):
    """An artifact can't be had; `code` says why, such as `artifact_missing` or `store_unreachable`."""
