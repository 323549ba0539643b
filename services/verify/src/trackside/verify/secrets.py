"""INV-14: nothing that services have written looks like a secret."""

import json
import re

from trackside.contracts.ingress import looks_secret
from trackside.eventlog.log import Entry

_WORTH_A_LOOK = re.compile(rb"AKIA|gh[pousr]_|(?<!ta)sk-|xox[baprs]-|PRIVATE KEY|\\u00")
"""What every secret has somewhere, in bytes: parsing each record again would cost as much as all the rest.

No secret begins within a word, such as `task-assigned`, which is in every second record.
"""


def secret_field(entry: Entry) -> str | None:
    """Gives the path of the first field of a record that looks like a secret, None if there is none."""
    everything = b"\n".join([octets for _, octets in entry.headers if octets] + [entry.value or b""])
    if not _WORTH_A_LOOK.search(everything):
        return None
    for name, octets in entry.headers:
        if octets and looks_secret(octets.decode("utf-8", "replace")):
            return name
    if entry.value is None or not _WORTH_A_LOOK.search(entry.value):
        return None
    waiting: list[tuple[str, object]] = [("$", json.loads(entry.value))]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str) and looks_secret(value):
            return path
        if isinstance(value, dict):
            if any(looks_secret(name) for name in value):
                return f"{path}.(a key)"
            waiting.extend((f"{path}.{name}", inner) for name, inner in value.items())
        elif isinstance(value, list):
            waiting.extend((f"{path}[{at}]", inner) for at, inner in enumerate(value))
    return None
