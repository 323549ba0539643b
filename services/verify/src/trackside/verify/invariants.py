"""The invariants of a log."""

from collections.abc import Mapping
from typing import NamedTuple


class Invariant(NamedTuple):
    """What must hold of every log, and the unit in which checks of it are counted."""

    statement: str
    unit: str


INVARIANTS: Mapping[str, Invariant] = {
    "INV-1": Invariant("each publication of a command is answered once", "publications"),
    "INV-2": Invariant("each task ends once, at the latest with its stream", "tasks"),
    "INV-3": Invariant("attempts and placements count 1 to n; each is accepted and ends once", "placements"),
    "INV-4": Invariant("devices have one task, or what fits; so has the host's memory", "uses"),
    "INV-5": Invariant("workers do only what was assigned to them before", "events of workers"),
    "INV-6": Invariant("the numbers of a task's placements only rise", "events"),
    "INV-7": Invariant(
        "events are written by roles that may, and by incarnations that have joined", "events"
    ),
    "INV-8": Invariant(
        "each record of the commands topic is received once, and as it was published", "records"
    ),
    "INV-9": Invariant("decisions are atomic", "decisions"),
    "INV-10": Invariant("every change of state is legal", "events"),
    "INV-11": Invariant("a step waits for what it needs, and ends as its tasks did", "steps"),
    "INV-12": Invariant("trials, groups and tasks stay within limits and in order", "trials and tasks"),
    "INV-13": Invariant("snapshots are what the log folds to", "snapshots"),
    "INV-14": Invariant("nothing looks like a secret", "records"),
    "INV-15": Invariant("read models equal a rebuild", "rows"),
    "INV-18": Invariant("a cause is an applied event before its event, and leads to such events", "causes"),
    "INV-19": Invariant("a child ends once, after its request and before its parent", "events of children"),
    "INV-20": Invariant("a version of a model has the digest that its task has saved", "versions"),
    "INV-21": Invariant("running tasks save, continue and acknowledge in order", "events of tasks"),
    "INV-22": Invariant("the store has each artifact that is not forgotten", "artifacts"),
    "INV-23": Invariant("each sample of an incremental job is in one place", "ranges of samples"),
    "INV-24": Invariant("a model that is live was decided and confirmed", "deployments"),
    "INV-25": Invariant("what a worker says of its placement counts, and none of it is missing", "events"),
    "INV-26": Invariant("an event says what it follows from", "comparisons"),
    "INV-27": Invariant("what has begun comes to its end", "streams"),
    "INV-28": Invariant("each offset of events and fleet has a record", "records"),
}
"""INV-16 and INV-17 are about answers to clients, which the log doesn't have: the chaos tests check them."""

NEEDS_POSTGRES = dict.fromkeys(("INV-13", "INV-15"), "needs --postgres")
NEEDS_STORE = {"INV-22": "needs --store"}
