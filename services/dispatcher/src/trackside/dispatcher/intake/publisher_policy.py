"""What publishers may do: whose commands are let in, and how many."""

from dataclasses import dataclass

from trackside.dispatcher.intake.publisher_limits import NO_LIMITS, PublisherLimits
from trackside.dispatcher.intake.signatures import SIGNATURES_OFF, SignatureVerifier


@dataclass(frozen=True, slots=True)
class PublisherPolicy:
    """The policies of an installation about those who publish commands."""

    signatures: SignatureVerifier = SIGNATURES_OFF
    limits: PublisherLimits = NO_LIMITS


OPEN_TO_ALL = PublisherPolicy()
"""The default: no signatures are checked, and no publisher has a limit."""
