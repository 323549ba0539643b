"""INV-14: no record of a service looks like it has a secret."""

import json

from trackside.contracts.redaction import looks_secret, may_have_secret
from trackside.eventlog.log import Entry


def secret_field(entry: Entry) -> str | None:
    """Returns the path of the first field of a record that looks like a secret, None if there is none."""
    # Parsing each record again would double the time of a verification.
    everything = b"\n".join([octets for _, octets in entry.headers if octets] + [entry.value or b""])
    if not may_have_secret(everything):
        return None
    for name, octets in entry.headers:
        if octets and looks_secret(octets.decode("utf-8", "replace")):
            return name
    if entry.value is None or not may_have_secret(entry.value):
        return None
    pending: list[tuple[str, object]] = [("$", json.loads(entry.value))]
    while pending:
        path, value = pending.pop()
        if isinstance(value, str) and looks_secret(value):
            return path
        if isinstance(value, dict):
            if any(looks_secret(name) for name in value):
                return f"{path}.(a key)"
            pending.extend((f"{path}.{name}", inner) for name, inner in value.items())
        elif isinstance(value, list):
            pending.extend((f"{path}[{at}]", inner) for at, inner in enumerate(value))
    return None
