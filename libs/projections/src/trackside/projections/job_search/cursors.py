"""Places in a sorted result: where the next page begins. Pure.

A cursor is opaque to users. It has the sort key of a page's last row, and a digest of what was searched for.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import blake2b

from trackside.projections.job_search.expressions import SearchRefused

MAX_CURSOR_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class JobSortKey:
    """The sort key of a row: its rank (missing values are last), number or text, and the job."""

    rank: int
    number: Decimal | float
    text: str
    job_id: str
    stream: str


def write_cursor(key: JobSortKey, search: str) -> str:
    """Returns the cursor after a row, for the search that this text identifies."""
    found = [_digest(search), key.rank, str(key.number), key.text, key.job_id, key.stream]
    return base64.urlsafe_b64encode(json.dumps(found).encode()).decode()


def read_cursor(cursor: str, search: str, *, is_float: bool) -> JobSortKey:
    """Returns the row that a cursor is after. Raises SearchRefused if it is none, or of another search."""
    try:
        if len(cursor) > MAX_CURSOR_CHARACTERS:
            raise ValueError
        given = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
        digest, rank, number, text, job_id, stream = given
        texts = (digest, number, text, job_id, stream)
        if not isinstance(rank, int) or not all(isinstance(each, str) and "\0" not in each for each in texts):
            raise ValueError
        for each in texts:
            each.encode()
        key = JobSortKey(rank, float(number) if is_float else Decimal(number), text, job_id, stream)
    except (ValueError, TypeError, binascii.Error, InvalidOperation, RecursionError):
        message = "not a cursor: expected the one that came with the page before"
        raise SearchRefused("bad_cursor", message, path="cursor") from None
    if digest != _digest(search) or not 0 <= rank <= 2**15 or not _is_bindable(key.number):
        message = "the cursor is of another search: its condition, sort or order differ"
        raise SearchRefused("bad_cursor", message, path="cursor")
    return key


def _is_bindable(number: Decimal | float) -> bool:
    return isinstance(number, float) or (number.is_finite() and abs(number.adjusted()) < 10_000)


def _digest(search: str) -> str:
    return blake2b(search.encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()
