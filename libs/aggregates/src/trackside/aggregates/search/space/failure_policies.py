"""What a search does when its tuner or its assessor fails."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Policy(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TunerFailure(_Policy):
    """What to do when a tuner raises, times out, exits, or suggests invalid parameters.

    It is asked again `retries` times for the same trial; then the search ends as failed (`stop`), or this
    trial, and only this one, is sampled at random (`random`).
    """

    retries: int = Field(default=2, ge=0, le=100)
    then: Literal["stop", "random"] = "stop"


class AssessorFailure(_Policy):
    """What to do when an assessor raises, times out, exits, or returns an invalid answer.

    The trials it was asked about continue. After more than `retries` failures in a row, or 20 in all, the
    search continues without it (`keep`), or ends as failed (`stop`).
    """

    retries: int = Field(default=2, ge=0, le=100)
    then: Literal["keep", "stop"] = "keep"
