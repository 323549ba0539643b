"""Reads the bodies of commands, as every service knows them."""

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts import codec
from trackside.contracts.message import Command, Json
from trackside.contracts.refusals import Problem


def command_of(wire_type: str, body: Json) -> Command | Problem:
    """Reads a command's body, or returns the first of its problems."""
    return codec.command_of(wire_type, body, AGGREGATES.commands)
