"""What the dispatchers of a cluster may write next about runs of pipelines."""

from functools import partial

from tests.unit.verify.random_cluster.cluster import Cluster, Move
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.run import commands, start
from trackside.aggregates.run.messages import (
    AbortPipelineRun,
    ApproveGate,
    PausePipelineRun,
    ResumePipelineRun,
    RetryFailedSteps,
    StartPipelineRun,
)
from trackside.aggregates.run.state import Run, run_of
from trackside.contracts.message import Json
from trackside.domain.aggregate import Decided
from trackside.domain.capabilities import Capabilities
from trackside.domain.lookup import NO_LOOKUP, Lookup
from trackside.domain.stream import Stream

LOOKUP = Lookup(Capabilities(frozenset({"digits"})))


def of_run(cluster: Cluster, stream: Stream) -> list[Move]:
    """Returns what a run lacks, decision by decision."""
    if stream.unanswered or run_of(stream) is None:
        return []
    aggregate = AGGREGATES.by_kind[stream.kind]
    proposals = [*aggregate.lacking(stream, NO_LOOKUP), *aggregate.due(stream, cluster.now_ms)]
    found: list[Move] = [
        partial(cluster.append, "dispatcher", stream.stream_id, *proposal.events) for proposal in proposals
    ]
    return found * 3


def effect(cluster: Cluster, stream: Stream, command_id: str) -> Decided:
    """Returns what follows from the next command of a run: its start, or what may be asked of it now."""
    run, random = run_of(stream), cluster.random
    if run is None:
        wanted = StartPipelineRun.model_validate({"pipeline": _pipeline(cluster)})
        return start.start(stream, wanted, command_id, LOOKUP)
    if run.over:
        return start.retry(stream, RetryFailedSteps(), command_id, LOOKUP)
    if run.open_gates and random.random() < 0.7:
        wanted_gate = ApproveGate(step=random.choice(list(run.open_gates)), actor="ada")
        return commands.approve(stream, wanted_gate, command_id, LOOKUP)
    if run.paused:
        return commands.resume(stream, ResumePipelineRun(), command_id, LOOKUP)
    if random.random() < 0.7:
        running = random.choice(["finish", "return"])
        wanted_pause = PausePipelineRun.model_validate({"running": running})
        return commands.pause(stream, wanted_pause, command_id, LOOKUP)
    return commands.abort(stream, AbortPipelineRun(), command_id, LOOKUP)


def wants_command(cluster: Cluster, run: Run) -> bool:
    """Says whether somebody asks something of a run now: more often of one that waits for it."""
    waits = run.over or run.paused or run.open_gates
    return not run.archived and cluster.random.random() < (0.2 if waits else 0.01)


def _pipeline(cluster: Cluster) -> Json:
    random = cluster.random
    task: Json = {"task_type": "digits"}
    steps = [
        {"name": "a", **task, "retry": {"failed": {"times": 1, "backoff_s": 0.05}}},
        {"name": "b", **task, "each": list(range(random.randint(0, 4))), "needs": ["a"]},
        {"name": "c", **task, "needs": {"all_ended": ["a"]}, "when": "steps.a.status == 'succeeded'"},
        {"name": "ok", "gate": {}, "needs": {"any_of": ["b", "c"]}},
        {"name": "d", **task, "needs": ["ok"], "on_end": {"failed": random.choice(["fail", "skip"])}},
    ]
    return {"steps": steps, "concurrency": random.randint(1, 3)}
