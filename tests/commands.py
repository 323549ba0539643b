"""Reads the bodies of commands, as every service knows them."""

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Command, Json
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.wire import codec


def command_of(wire_type: str, body: Json) -> Command | Problem:
    """Reads a command's body, or returns the first of its problems."""
    return codec.command_of(wire_type, body, AGGREGATES.commands)
