"""INV-14: no command, and no record of a service, looks like it has a secret."""

import json

from trackside.contracts.redaction import has_secret, is_called_secret, looks_secret, may_have_secret
from trackside.contracts.refusals import json_path
from trackside.contracts.secret_references import is_reference, may_refer
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
        return _field_of(json.loads(entry.value))
    except (ValueError, RecursionError):  # of a client: it is refused, or a dead letter
        text = entry.value.decode("utf-8", "replace")
        return "$ (no JSON)" if has_secret(text) else None


def _field_of(body: object) -> str | None:
    pending: list[tuple[tuple[int | str, ...], object]] = [((), body)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, str) and (looks_secret(value) or _is_called(path, value)):
            return json_path(path)
        if isinstance(value, dict) and not (is_reference(value) and may_refer(path)):
            if any(looks_secret(name) for name in value):
                return f"{json_path(path)}.(a key)"
            pending.extend(((*path, name), inner) for name, inner in value.items())
        elif isinstance(value, list):
            pending.extend(((*path, at), inner) for at, inner in enumerate(value))
    return None


def _is_called(path: tuple[int | str, ...], text: str) -> bool:
    return bool(path) and isinstance(path[-1], str) and is_called_secret(path[-1], text)
