"""Parameters of requests: each is known, and has a value within its limits, or the request is refused."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Protocol, TypeVar

from trackside.contracts.envelope.ids import is_identifier
from trackside.projections.summaries.errors import SummaryReadRefused, quoted
from trackside.projections.summaries.points import PointRange

MAX_JOBS = 100
"""How many jobs one request names."""
MAX_TAGS = 1_000
"""How many tags one request names."""
MAX_TAG = 1_000
"""How many characters a tag has."""
RANGE = ("from_step", "to_step", "from_ms", "to_ms")
"""The parameters of a range; both ends are included."""
_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
Word = TypeVar("Word", bound=str)


class RepeatedTexts(Protocol):
    """Texts by name, each name once or more often."""

    def __iter__(self) -> Iterator[str]:
        """Yields the names."""
        ...

    def getall(self, key: str, default: list[str]) -> list[str]:
        """Returns all texts of a name."""
        ...


class RequestParameters:
    """The parameters of a request. Every method raises SummaryReadRefused."""

    def __init__(self, query: RepeatedTexts, path: Mapping[str, str], known: Collection[str]) -> None:
        self._query, self._path = query, path
        for name in query:
            if name not in known:
                expected = f"expected {', '.join(sorted(known))}" if known else "expected none"
                raise SummaryReadRefused(
                    "bad_query", name[:80], f"unknown parameter {quoted(name)}", expected
                )

    def job(self) -> str:
        """Returns the id of the job in the path."""
        return _job(self._path["job"])

    def jobs(self) -> list[str]:
        """Returns the ids of one or more jobs."""
        return [_job(text) for text in self._several("job", MAX_JOBS)]

    def tags(self) -> list[str] | None:
        """Returns tags; None if there are none."""
        return [_tag(text) for text in self._several("tag", MAX_TAGS)] or None

    def tag(self) -> str:
        """Returns the tag of the path, or that of the parameter."""
        found = self._path.get("tag") or self.text("tag")
        if not found:
            raise SummaryReadRefused("bad_query", "tag", "no tag is named; expected one")
        return _tag(found)

    def text(self, name: str) -> str | None:
        """Returns a text, None if it isn't there."""
        values = self._query.getall(name, [])
        if len(values) > 1:
            raise SummaryReadRefused("bad_query", name, f"{len(values)} values; expected one")
        return values[0] if values else None

    def integer(self, name: str, default: int | None = None) -> int | None:
        """Returns an integer of 64 bits."""
        text = self._path.get(name) or self.text(name)
        if text is None:
            return default
        if _INTEGER.fullmatch(text) is None or not -(2**63) <= int(text) < 2**63:
            raise SummaryReadRefused("bad_query", name, f"{quoted(text)}; expected an integer of 64 bits")
        return int(text)

    def number(self, name: str, default: int) -> int:
        """Returns an integer, or `default` if it isn't there."""
        found = self.integer(name)
        return default if found is None else found

    def flag(self, name: str) -> bool:
        """Returns whether `true` is said; `false` if it isn't there."""
        return self.choice(name, ("true", "false"), "false") == "true"

    def choice(self, name: str, choices: Collection[Word], default: Word) -> Word:
        """Returns one of some words."""
        text = self.text(name)
        for each in choices:
            if text == each:
                return each
        if text is None:
            return default
        raise SummaryReadRefused("bad_query", name, f"{quoted(text)}; expected one of {', '.join(choices)}")

    def within(self) -> PointRange:
        """Returns the range of steps and times."""
        everything = PointRange()
        return PointRange(
            self.number("from_step", everything.first_step),
            self.number("to_step", everything.last_step),
            self.number("from_ms", everything.first_ms),
            self.number("to_ms", everything.last_ms),
        )

    def limit(self, default: int | None) -> int | None:
        """Returns how many values of a series are asked for: `default`, or None for `all`."""
        return None if self.text("limit") == "all" else self.integer("limit", default)

    def _several(self, name: str, most: int) -> list[str]:
        values = list(self._query.getall(name, []))
        if name in self._path:
            values.append(self._path[name])
        if len(values) > most:
            raise SummaryReadRefused(
                "too_many_values", name, f"{len(values)} values; expected at most {most}"
            )
        return values


def _job(text: str) -> str:
    if not is_identifier(text):
        raise SummaryReadRefused("bad_query", "job", f"{quoted(text)} is not the id of a job")
    return text


def _tag(text: str) -> str:
    if not 0 < len(text) <= MAX_TAG:
        expected = f"expected 1 to {MAX_TAG:,}"
        raise SummaryReadRefused("bad_query", "tag", f"a tag of {len(text):,} characters; {expected}")
    return text
