"""Finds the tasks in the log that steps of a pipeline are copies of, before the pipeline is published."""

from collections.abc import Mapping
from contextlib import aclosing

from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import Problem
from trackside.sdk.client import Client
from trackside.sdk.connection.records import not_forged
from trackside.sdk.definitions.recorded_steps import TaskReference, find_tasks


def find(wanted: Mapping[str, TaskReference], *, quiet: bool) -> Mapping[str, Json | Problem]:
    """Returns the fields of each task as a step, or its problem, and unless `quiet` prints what was found."""
    found = run(_found(wanted))
    if not quiet:
        for key, step in found.items():
            if not isinstance(step, Problem):
                screen.say(f"{wanted[key].stream}/{wanted[key].task}: {step['task_type']}, {_place(step)}")
    return found


async def _found(wanted: Mapping[str, TaskReference]) -> Mapping[str, Json | Problem]:
    addresses = Addresses()
    async with Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client:
        return await find_tasks(lambda stream: aclosing(not_forged(client.events(stream))), wanted)


def _place(step: Json) -> str:
    return f"as submitted at offset {step['recorded']['offset']}"
