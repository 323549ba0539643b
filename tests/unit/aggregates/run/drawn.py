"""Pipelines drawn by chance, and how their tasks, gates and children end: the same again for a seed."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.tasks import AttemptEnd

ENDS = (AttemptEnd.FAILED, AttemptEnd.LOST, AttemptEnd.TIMED_OUT_RUN)
STATES = ("failed", "aborted", "timed_out", "lost")
RETRIED = 1
"""How often a failed attempt is tried again; all others never are."""
BATCH: Json = {"groups": [{"tasks": [{"task_type": "noop"}]}]}


@dataclass(frozen=True)
class DrawnStep:
    """A step, told so that the model needs no parser; it refers to earlier ones only."""

    name: str
    kind: str
    """task, each, repeat, gate or child."""
    all: list[str]
    any_of: list[str]
    all_ended: list[str]
    on_end: dict[str, str]
    """What follows each end that is no success."""
    when: tuple[str, str, Any] | None = None
    """flag and its value, or status or result of a step and what it is compared with."""
    refers_to: str = ""
    """The step whose `result.n` is a parameter of it."""
    has_default: bool = False
    items_of: str = ""
    """The step whose `result.items` are its items; empty: `count` numbers."""
    count: int = 0
    """How many items it has, or how often it is repeated at most."""
    above: int = 0
    """What `result.n` of a repetition must exceed."""
    collect: str = ""
    at_once: int | None = None
    timeout_s: float = 60.0
    """How long a gate waits."""

    @property
    def json(self) -> Json:
        needs = {"all": self.all, "any_of": self.any_of, "all_ended": self.all_ended}
        own: Json = {"name": self.name, "needs": needs, "on_end": self.on_end}
        if self.when is not None:
            own["when"] = _expression(*self.when)
        if self.kind == "gate":
            return own | {"gate": {"timeout_s": self.timeout_s}}
        if self.kind == "child":
            return own | {"kind": "batch", "spec": BATCH}
        own["task_type"] = "noop"
        if self.refers_to:
            default = ":-0" if self.has_default else ""
            own["parameters"] = {"n": f"${{{self.refers_to}.result.n{default}}}"}
        if self.kind == "each":
            own["each"] = f"${{{self.items_of}.result.items}}" if self.items_of else list(range(self.count))
            own |= {"collect": self.collect, "at_once": self.at_once}
        if self.kind == "repeat":
            own["repeat"] = {"until": f"result.n > {self.above}", "times": self.count}
        return own


def _expression(what: str, name: str, value: Any) -> str:
    if what == "flag":
        return f"pipeline.flag == {value}"
    return f"{name}.status == '{value}'" if what == "status" else f"{name}.result.n > {value}"


@dataclass(frozen=True)
class DrawnPipeline:
    """A pipeline, its limits, and the seed that all its ends come from."""

    seed: str
    steps: list[DrawnStep]
    flag: bool
    limits: Json = field(default_factory=dict)

    @property
    def body(self) -> Json:
        retry = {"failed": RETRIED, "lost": 0}
        pipeline: Json = {
            "parameters": {"flag": {"type": "boolean"}},
            "steps": [step.json for step in self.steps],
            "defaults": {"retry": retry},
            **self.limits,
        }
        return {"pipeline": pipeline, "parameters": {"flag": self.flag}}

    def attempt(self, task_id: str, number: int) -> tuple[AttemptEnd, Json]:
        random = Random(f"{self.seed}/{task_id}/{number}")
        result: Json = {"n": random.randrange(10), "items": list(range(random.randrange(4)))}
        end = AttemptEnd.FINISHED if random.random() < 0.75 else random.choice(ENDS)
        return end, {} if random.random() < 0.1 else result

    def decision(self, step: str) -> str:
        return Random(f"{self.seed}/{step}").choice(["approved", "approved", "rejected", "expired"])


def draw(seed: object, *, limited: bool) -> DrawnPipeline:
    """Draws a pipeline of two to nine steps; if it is `limited`, few items are open and ends may stop it."""
    random = Random(f"{seed}")
    steps: list[DrawnStep] = []
    for number in range(random.randint(2, 9)):
        steps.append(_step(random, f"s{number}", steps, limited))
    random.shuffle(shown := list(steps))
    limits: Json = {}
    if limited:
        limits["concurrency"] = random.choice([1, 2, 3, 10_000])
        if random.random() < 0.15:
            limits["timeout_s"] = random.uniform(0.05, 0.6)
    return DrawnPipeline(f"{seed}", shown, random.random() < 0.5, limits)


def _step(random: Random, name: str, before: list[DrawnStep], limited: bool) -> DrawnStep:
    names = [step.name for step in before]
    parents = random.sample(names, min(len(names), random.choice([0, 1, 1, 2, 3])))
    rules: dict[str, list[str]] = {"all": [], "any_of": [], "all_ended": []}
    for parent in parents:
        rules[random.choice(["all", "all", "any_of", "all_ended"])].append(parent)
    known = rules["all"] + rules["all_ended"]
    actions = ["continue", "skip", "skip", *(["fail"] if limited else [])]
    kind = random.choice(["task"] * 5 + ["each"] * 3 + ["repeat"] * 2 + ["gate", "child"])
    items_of = random.choice(known) if kind == "each" and known and random.random() < 0.5 else ""
    return DrawnStep(
        name=name,
        kind=kind,
        **rules,
        on_end={state: random.choice(actions) for state in STATES},
        when=_when(random, known) if random.random() < 0.25 else None,
        refers_to=random.choice(known) if known and random.random() < 0.4 else "",
        has_default=random.random() < 0.4,
        items_of=items_of,
        count=random.randint(1, 3) if kind == "repeat" else random.randrange(4),
        above=random.randrange(8),
        collect=random.choice(["", "succeeded > 0", "failed < 2"]) if kind == "each" else "",
        at_once=random.choice([None, 1, 2]),
        timeout_s=0.3 if limited else 60.0,
    )


def _when(random: Random, known: list[str]) -> tuple[str, str, Any]:
    what = random.choice(["flag", "status", "result"]) if known else "flag"
    value = {"flag": True, "status": "succeeded", "result": random.randrange(6)}[what]
    return what, random.choice(known) if known else "", value
