"""Parts of aggregates: what a task is for."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """What of its aggregate a task is for: a trial of a search, a task of a group of a batch.

    `kind` names what is counted ("trial", "group"), `number` counts it from 0. `name` is that of the task
    within it, if there can be several.
    """

    model_config = ConfigDict(frozen=True)
    kind: str
    number: int
    name: str = ""


def number_of(part: Part | None, kind: str) -> int | None:
    """Returns the number of a part, if it is of a kind such as "trial" or "group"; else None."""
    return part.number if part is not None and part.kind == kind else None
