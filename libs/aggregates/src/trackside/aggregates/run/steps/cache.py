"""Whether a step need not run, since an earlier one was the same and its artifacts are still there. Pure.

The key of a step is the SHA-256 of the canonical JSON (RFC 8785) of its parts: its task type, the digests of
what catalogues say of that, its parameters, and the digests of its inputs. Artifacts count by their content,
wherever they come from.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from trackside.aggregates.run.state import Run, RunStep, StepOutput, cached_artifact, run_of
from trackside.aggregates.run.step_messages import (
    SUCCESSES,
    ArtifactCheck,
    CacheEntry,
    StepCacheHit,
    StepCacheMissed,
)
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.envelope.parts import Part
from trackside.contracts.fleet.fleet import CHECK_ARTIFACTS
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.resources import Needs, Resources
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.contracts.wire.secret_search import without_secrets
from trackside.domain.folding.lookup import Lookup
from trackside.domain.pipelines.canonical import canonical_digest, canonical_json
from trackside.domain.pipelines.definition import CACHE
from trackside.domain.pipelines.references import MissingValueError, Reference, resolve

CHECK_MEMORY_BYTES = 1_048_576
CHECK_TIMEOUT_S = 600.0
"""How long a check waits for a worker, and for the store, in seconds; after that the step runs."""
MOST_SHOWN_BYTES = 65_536
"""How many bytes the parameters of a step take at most in its parts; more are shown by their digests."""


def parts_of(task: TaskSubmitted, digests: Mapping[str, tuple[str, ...]]) -> Json:
    """Returns the parts that the key of a task is computed from."""
    parameters = _by_content(task.parameters)
    if len(canonical_json(parameters)) > MOST_SHOWN_BYTES:
        parameters = {name: {"sha256": canonical_digest(value)} for name, value in parameters.items()}
    return {
        "task_type": task.task_type,
        "catalogue": list(digests.get(task.task_type, ())),
        "parameters": parameters,
        "inputs": {name: _content(given.model_dump(mode="json")) for name, given in task.inputs.items()},
    }


def key_of(parts: Json) -> str:
    """Returns the key of parts: the SHA-256 of their canonical JSON."""
    return canonical_digest(parts)


def short_parts(parts: Json) -> dict[str, str]:
    """Returns parts as short texts that differ where they do: parameters and inputs by their names."""
    found = {
        "task_type": str(parts.get("task_type", "")),
        "catalogue": canonical_digest(parts.get("catalogue"))[:16],
    }
    for kind in ("parameters", "inputs"):
        for name, value in (parts.get(kind) or {}).items():
            found[f"{kind}.{name}"] = canonical_digest(value)[:16]
    return found


def _by_content(value: Any) -> Any:
    """Returns JSON in which each artifact is its content: where it comes from is another one in each run."""
    if isinstance(value, dict):
        if value.keys() >= {"uri", "sha256", "size_bytes"}:
            return _content(value)
        return {name: _by_content(inner) for name, inner in value.items()}
    return [_by_content(inner) for inner in value] if isinstance(value, list) else value


def _content(reference: Json) -> Json:
    return {"sha256": reference["sha256"], "media_type": reference.get("media_type", "")}


def entry_of(run: Run, name: str) -> CacheEntry | None:
    """Returns a step as the cache finds it; None if it has not succeeded, or can't be used any more."""
    step = run.steps[name]
    output = step.outputs.get(0)
    if run.archived or step.state not in SUCCESSES or not step.cache_key or output is None:
        return None
    made_ms = step.made_ms or step.ended_ms
    return CacheEntry(stream=run.run_id, step=name, task=output.task, offset=output.at, ended_ms=made_ms)


def index_keys(run: Run, names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yields the keys by which steps of other runs find those of this one."""
    for name in names:
        entry = entry_of(run, name)
        if entry is not None:
            yield f"cache:{run.steps[name].cache_key}", entry.ended_ms
            yield _similar(name, run.steps[name].cache_parts.get("task_type", "")), entry.ended_ms


def _similar(name: str, task_type: str) -> str:
    return f"cached:{name}:{task_type}"


def inputs_of(run: Run, name: str) -> dict[str, ArtifactReference]:
    """Returns the artifacts that a step which has its values would be given, by name."""
    values = run.steps[name].resolved or {}

    def value(reference: Reference) -> Any:
        if reference.text not in values:
            raise MissingValueError(reference.text)
        return values[reference.text]

    try:
        filled = resolve(run.spec_of(name).inputs, value)
        return {own: ArtifactReference.model_validate(given) for own, given in filled.items()}
    except (MissingValueError, ValidationError):
        return {}


def look_up(run: Run, name: str, task: TaskSubmitted, lookup: Lookup) -> list[Event]:
    """Returns how a step goes on that may be in the cache: a hit, a miss, or the check of its artifacts.

    Nothing while that goes on. `task` is the one that it has if it runs.
    """
    step, rule = run.steps[name], run.spec_of(name).cache
    assert rule is not None
    check = step.check
    if check is not None and check.open:
        return []
    parts = parts_of(task, lookup.capabilities.digests)
    own: Json = {"step": name, "generation": step.generation, "key": key_of(parts), "parts": parts}
    if not parts["catalogue"]:
        return [StepCacheMissed(**own, reason="no_digest")]
    if not run.use_cache or rule.refresh:
        return [StepCacheMissed(**own, reason="refresh" if rule.refresh else "off")]
    entries = list(_entries(own["key"], lookup))
    young = [(other, entry) for other, entry in entries if not is_expired(run, name, entry)]
    if not young:
        nearest = _nearest(name, parts, lookup)
        return [StepCacheMissed(**own, **nearest, reason="expired" if entries else "")]
    other, entry = young[0] if check is None else _checked(young, check)
    output = other.steps[entry.step].outputs[0]
    if output.artifacts and check is None:
        if CHECK_ARTIFACTS not in lookup.capabilities.built_in:
            return [StepCacheMissed(**own, nearest=entry, reason="unchecked")]
        return [_check(run, name, task, own["key"], entry, output)]
    if check is not None and (check.missing is None or not check.is_of(entry)):
        return [StepCacheMissed(**own, nearest=entry, reason="unchecked")]
    if check is not None and check.missing:
        return [StepCacheMissed(**own, nearest=entry, reason="artifacts_missing")]
    artifacts = {saved: cached_artifact(it) for saved, it in output.artifacts.items()}
    result = without_secrets(output.result)  # an earlier release may have seen less in it
    return [StepCacheHit(**own, found=entry, result=result, artifacts=artifacts)]


def _checked(young: list[tuple[Run, CacheEntry]], check: ArtifactCheck) -> tuple[Run, CacheEntry]:
    """Returns the entry whose artifacts were checked, if it is still one."""
    return next((each for each in young if check.is_of(each[1])), young[0])


def is_expired(run: Run, name: str, entry: CacheEntry) -> bool:
    """Returns whether an entry is too old for a step: when that was ready, by the clock of the log."""
    rule = run.spec_of(name).cache
    if rule is None or rule.max_age_s is None:
        return False
    return run.steps[name].ready_ms - entry.ended_ms > rule.max_age_s * 1000


def _entries(key: str, lookup: Lookup) -> Iterator[tuple[Run, CacheEntry]]:
    """Yields the steps with a key, newest first, with their runs."""
    for stream in lookup.having(f"cache:{key}"):
        run = run_of(stream)
        name = "" if run is None else run.cached.get(key, "")
        if run is None or name not in run.steps or run.steps[name].cache_key != key:
            continue
        entry = entry_of(run, name)
        if entry is not None:
            yield run, entry


def _nearest(name: str, parts: Json, lookup: Lookup) -> Json:
    """Returns the earlier step of the same name and type that differs least, and in what."""
    wanted = short_parts(parts)
    best: tuple[CacheEntry, list[str]] | None = None  # the newest of equals: they come first
    for stream in lookup.having(_similar(name, wanted["task_type"])):
        run = run_of(stream)
        entry = None if run is None or name not in run.steps else entry_of(run, name)
        if run is None or entry is None:
            continue
        differs = _differing(wanted, run.steps[name])
        if best is None or len(differs) < len(best[1]):
            best = entry, differs
    return {} if best is None else {"nearest": best[0], "differs": best[1]}


def _differing(wanted: Mapping[str, str], step: RunStep) -> list[str]:
    known = step.cache_parts
    return sorted(part for part in {*wanted, *known} if wanted.get(part) != known.get(part))


def _check(
    run: Run, name: str, task: TaskSubmitted, key: str, entry: CacheEntry, output: StepOutput
) -> TaskSubmitted:
    """Returns the task that asks a worker whether the store has the artifacts of an entry.

    They are no references there: what is only asked for need not be in the store.
    """
    artifacts = [
        {
            "name": saved,
            "sha256": each.reference.sha256,
            "size_bytes": each.reference.size_bytes,
            "media_type": each.reference.media_type,
        }
        for saved, each in output.artifacts.items()
    ]
    found = {"stream": entry.stream, "step": entry.step, "offset": entry.offset}
    return TaskSubmitted(
        task_id=run.check_id(name),
        task_type=CHECK_ARTIFACTS,
        parameters={"artifacts": artifacts, "key": key, "found": found},
        part=Part(kind=CACHE, number=0, name=name),
        needs=Needs(
            queue=task.needs.queue,
            priority=task.needs.priority,
            resources=Resources(devices=0, estimate_memory=CHECK_MEMORY_BYTES),
            queue_timeout_s=CHECK_TIMEOUT_S,
            run_timeout_s=CHECK_TIMEOUT_S,
        ),
    )
