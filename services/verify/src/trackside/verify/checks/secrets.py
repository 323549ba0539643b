"""INV-14: no command, and no record of a service, looks like it has a secret."""

import json

from trackside.contracts.envelope.redaction import has_secret, looks_secret, may_have_secret
from trackside.contracts.envelope.refusals import json_path
from trackside.contracts.wire.secret_search import secrets_in
from trackside.eventlog.log import Entry


def secret_field(entry: Entry) -> str | None:
    """Returns the path of the first field of a record that looks like a secret, None if there is none."""
    # Parsing each record again would double the time of a verification.
    parts = [entry.key or b"", entry.value or b"", *(octets for _, octets in entry.headers if octets)]
    if not may_have_secret(b"\n".join(parts)):
        return None
    if looks_secret((entry.key or b"").decode("utf-8", "replace")):
        return "$key"
    for name, octets in entry.headers:
        if octets and looks_secret(octets.decode("utf-8", "replace")):
            return name
    if entry.value is None or not may_have_secret(entry.value):
        return None
    try:
        found = next(secrets_in(json.loads(entry.value)), None)
    except (ValueError, RecursionError):  # of a client: it is refused, or a dead letter
        text = entry.value.decode("utf-8", "replace")
        return "$ (no JSON)" if has_secret(text) else None
    return None if found is None else json_path(found)
