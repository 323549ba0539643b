"""What is wrong with settings, a sentence for each."""

from collections.abc import Iterator

from pydantic import ValidationError

from trackside.contracts.envelope.redaction import redact


class InvalidSettingsError(ValueError):
    """Settings can't be used: its text has a line for each that is wrong."""


def problems_of(error: ValidationError, prefix: str) -> Iterator[str]:
    """Yields a line for each invalid setting: its variable, what was expected, and its value."""
    for detail in error.errors(include_url=False):
        reason = detail["msg"].removeprefix("Value error, ")
        if not detail["loc"]:  # of several settings, which the sentence names
            yield reason
            continue
        variable = prefix + "_".join(str(part) for part in detail["loc"])
        yield f"{variable.upper()}: {reason}, got {redact(repr(detail.get('input')))}"
