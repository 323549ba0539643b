"""What a result lacks: what looked like a secret, as the line of its task says it."""

from itertools import islice
from typing import Any

from trackside.contracts.envelope.redaction import REDACTED
from trackside.contracts.envelope.refusals import json_path
from trackside.contracts.wire.secret_search import redacted_in

_MOST_PLACES = 3


def redacted_note(result: Any) -> str:
    """Returns where a result is redacted, as a sentence; empty where it is not."""
    places = [json_path(place) for place in islice(redacted_in(result), _MOST_PLACES + 1)]
    if not places:
        return ""
    shown = ", ".join(places[:_MOST_PLACES]) + (" and more" if len(places) > _MOST_PLACES else "")
    return f"its result is {REDACTED} at {shown}: that looked like a secret"
