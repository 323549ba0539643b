"""The children that a definition asks for, to be checked before it is accepted. Pure."""

from collections.abc import Iterator

from trackside.contracts.envelope.ids import step_task_id
from trackside.contracts.streams.children import WantedChild
from trackside.domain.pipelines import references
from trackside.domain.pipelines.compiling import parsed_step
from trackside.domain.pipelines.definition import PipelineSpec


def wanted_children(pipeline: PipelineSpec, run_id: str, path: str) -> Iterator[WantedChild]:
    """Yields the children of a run of a definition at a path, one of each step.

    Those whose specs have references have no body: it is not known before the run.
    """
    for at, step in enumerate(pipeline.steps):
        if step.kind is None:
            continue
        index = None if step.each is None and step.repeat is None else 0
        is_known = isinstance(step.spec, dict) and not any(references.references(parsed_step(step).spec))
        child_id = step_task_id(run_id, step.name, index, 0)
        yield WantedChild(f"{path}.steps[{at}]", child_id, step.kind, step.spec if is_known else None)
