"""The mask of the secrets that this task process was given: for what it cuts, or writes to its files."""

from typing import TypeVar

from trackside.contracts.envelope import redaction
from trackside.worker.secret_mask import SecretMask

Sent = TypeVar("Sent")


class _Given:
    mask = SecretMask()


def begin(values: list[str]) -> None:
    """Masks these values from now on, instead of those before."""
    _Given.mask = SecretMask(values)


def masked(message: Sent) -> Sent:
    """Returns a message without the values."""
    return _Given.mask.message(message)


def mask_secrets(text: str) -> str:
    """Returns text without the values, and without what looks like a secret."""
    return redaction.mask_secrets(_Given.mask.text(text))


def redact(text: str) -> str:
    """Returns text without the values, and without what looks like a secret or is called one."""
    return redaction.redact(_Given.mask.text(text))
