"""Why a read of summaries is refused."""

from collections.abc import Iterable
from itertools import islice

from trackside.contracts.envelope.refusals import closest

SHOWN = 80
"""How many characters of what was asked for a message repeats."""


class SummaryReadRefused(Exception):
    """A read that can't be answered: a code, the parameter at fault, a sentence, and what helps.

    The codes are the keys of `trackside.contracts.envelope.refusals.SUMMARY_READ_CODES`.
    """

    def __init__(self, code: str, path: str, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.code, self.path, self.message, self.hint = code, path, message, hint


def unknown_job(job_id: str) -> SummaryReadRefused:
    """Returns the error for a job that the index doesn't have (MindInsight's TrainJobNotExist)."""
    return SummaryReadRefused(
        "unknown_job",
        "job",
        f"there is no job {quoted(job_id)}",
        "`trackside summaries ls` lists the jobs",
    )


def unknown_tag(job_id: str, tag: str, known: Iterable[str]) -> SummaryReadRefused:
    """Returns the error for a tag that a job doesn't have (MindInsight's ParamValueError)."""
    near = closest(tag, islice(known, 10_000))
    hint = f"did you mean {quoted(near)}?" if near else "`trackside summaries tags` lists those it has"
    return SummaryReadRefused("unknown_tag", "tag", f"job {quoted(job_id)} has no tag {quoted(tag)}", hint)


def is_storable(text: str) -> bool:
    """Whether a text can be in a row at all: without NUL and lone surrogates."""
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def quoted(text: str) -> str:
    """Returns the beginning of a text in quotes, control characters escaped."""
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")
