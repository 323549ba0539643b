"""All boards, and the metrics that are on none of them, each with the reason."""

from collections.abc import Mapping
from typing import Final

from boards import batches, fleet, log_and_services, overview, rounds, search, searches, trial
from boards.board import Board

NOT_SHOWN: Final[Mapping[str, str]] = {
    "trackside.dispatcher.distrusted.events": "0 unless events are forged or a key is missing",
    "trackside.projections.ended.sessions": "0 unless a query of the login of dashboards never ends",
    "trackside.dispatcher.stuck.decisions": "0 unless the process before ended itself; an alert says so",
}
"""Metrics without a panel, with the reason."""


def boards() -> list[Board]:
    """Returns all boards, in the order of their links."""
    modules = (overview, searches, search, trial, batches, fleet, log_and_services, rounds)
    return [module.board() for module in modules]
