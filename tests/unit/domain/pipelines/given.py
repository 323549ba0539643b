"""Definitions of pipelines for tests, and the JSON that templates are."""

from typing import Any

from hypothesis import strategies as st

from trackside.contracts.envelope.refusals import Problem
from trackside.domain.pipelines.compiling import CompiledPipeline, compile_pipeline
from trackside.domain.pipelines.definition import PipelineSpec

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
"""Texts of a template, most of them plain."""
PARTS = st.sampled_from(["${", "}", ".", "\\", "\\.", ":-", "$", "a", "run:", "pipeline", "é", " "])
TEMPLATE_TEXTS = TEXTS | st.lists(PARTS, max_size=12).map("".join)
"""Texts in which references are likely, and broken ones."""
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
KEYS = TEXTS | st.sampled_from(["$ref", "$text", "$object", "$default", "$", "a.b"])
TEMPLATES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEMPLATE_TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def step(name: str, **fields: Any) -> dict[str, Any]:
    own = {} if fields.keys() & {"task_type", "kind", "gate"} else {"task_type": "digits"}
    return {"name": name, **own, **fields}


def pipeline(*steps: dict[str, Any], **fields: Any) -> PipelineSpec:
    return PipelineSpec.model_validate({"steps": list(steps), **fields})


def compiled(*steps: dict[str, Any], **fields: Any) -> PipelineSpec:
    found = compile_pipeline(pipeline(*steps, **fields))
    assert isinstance(found, CompiledPipeline), found
    return found.pipeline


def problems(*steps: dict[str, Any], **fields: Any) -> tuple[Problem, ...]:
    found = compile_pipeline(pipeline(*steps, **fields))
    assert not isinstance(found, CompiledPipeline)
    return found


def places(*steps: dict[str, Any], **fields: Any) -> set[tuple[str, str]]:
    return {(problem.code, problem.path) for problem in problems(*steps, **fields)}
