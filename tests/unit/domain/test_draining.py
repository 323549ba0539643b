"""Devices that are drained and resumed, by commands to the stream of their worker's id."""

from typing import Any

import pytest

from tests.unit.domain.given import Told, received
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.fleet.draining import DeviceDrained, DeviceResumed, DrainDevice, ResumeDevice
from trackside.domain.commands.drain_commands import DrainCommand, decide
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.streams import load, pack
from trackside.domain.outcome import Outcome
from trackside.domain.streams.draining import DrainedDevice

DEVICE = "cpu-0"
FLEET = Capabilities(devices=("digits-1/cpu-0",), device_names=frozenset({"cpu-0", "digits-1/cpu-0"}))


def answer(told: Told, command: Any, fleet: Capabilities = FLEET) -> list[Event] | tuple[Problem, ...]:
    number = told.next_offset
    told.tell(received(number))
    return decide(told.stream, command, f"c-{number}", fleet)


def tell(told: Told, command: DrainCommand) -> list[Outcome]:
    events = answer(told, command)
    assert isinstance(events, list)
    return told.tell(*events)


def test_a_device_is_drained_until_it_is_resumed_also_while_its_worker_is_away() -> None:
    told = Told()
    assert tell(told, DrainDevice(device=DEVICE, reason="new fan")) == [Outcome.APPLIED]
    assert told.stream.drained == {DEVICE: DrainedDevice("new fan", told.now_ms - 1)}
    assert load(pack(told.stream), AGGREGATES).drained == told.stream.drained
    resumed = answer(told, ResumeDevice(device=DEVICE), Capabilities())
    assert resumed == [DeviceResumed(command_id=f"c-{told.next_offset - 1}", device_id=DEVICE)]
    tell(told, ResumeDevice(device=DEVICE))
    assert told.stream.drained == {}
    assert answer(Told(), ResumeDevice(device=DEVICE)) == [], "what is not drained is resumed already"


@pytest.mark.parametrize("command", [DrainDevice(device="cpu-7"), ResumeDevice(device="cpu-7")])
def test_a_device_that_no_worker_has_is_refused(command: DrainCommand) -> None:
    (problem,) = answer(Told(), command)
    assert isinstance(problem, Problem)
    assert (problem.code, problem.path) == ("unknown_device", "$.device")


def test_a_command_drains_once() -> None:
    told = Told()
    told.tell(received(1), received(2))
    drained = DeviceDrained(command_id="c-1", device_id=DEVICE)
    resumed = DeviceResumed(command_id="c-2", device_id=DEVICE)
    assert told.tell(drained) == told.tell(resumed) == [Outcome.APPLIED]
    assert told.tell(drained) == told.tell(resumed) == [Outcome.DUPLICATE]
    assert told.tell(DeviceDrained(command_id="c-3", device_id=DEVICE)) == [Outcome.OVERTAKEN]
    assert told.stream.drained == {}
