"""What a run has found: the values of its outputs, and which of them are trained models. Pure."""

from collections.abc import Iterator

from pydantic_core import to_json

from trackside.aggregates.run.state import Run, StepOutput
from trackside.aggregates.run.steps.begin import MOST_VALUE_BYTES
from trackside.aggregates.run.steps.values import value_of
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import MODEL
from trackside.contracts.wire.secret_search import without_secrets
from trackside.domain.pipelines.definition import CHILD, kind_of
from trackside.domain.pipelines.references import MissingValueError, resolve
from trackside.domain.tasks.trained_models import MAX_MODELS, TRAINED_MODELS, models_of_child, trained_model


def outputs_of(run: Run) -> Json:
    """Returns the outputs of a run that is over, as far as they have a value and are not too large.

    What looks like a secret in them is redacted.
    """
    found: Json = {}
    left = MOST_VALUE_BYTES
    for name, tree in run.spec.outputs.items():
        try:
            value = resolve(tree, lambda reference: value_of(run, reference, {})[0])
        except MissingValueError:
            continue
        left -= len(to_json(value))
        if left >= 0:
            found[name] = without_secrets(value, name)
    return found


def models_of(run: Run, outputs: Json) -> list[Json]:
    """Returns the models among the outputs of a run that its tasks have saved or its children have found.

    The output `model` is the first one.
    """
    values = sorted(outputs.items(), key=lambda output: output[0] != "model")
    sources = [value["source"] for _, value in values if isinstance(value, dict) and value.get("source")]
    if not sources:
        return []
    known = {
        model["artifact"]["source"]: model
        for name, step in run.steps.items()
        for output in step.outputs.values()
        for model in _models_in(output, is_child=kind_of(run.spec_of(name)) == CHILD)
    }
    wanted = dict.fromkeys(str(source) for source in sources)
    return [known[source] for source in wanted if source in known][:MAX_MODELS]


def _models_in(output: StepOutput, *, is_child: bool) -> Iterator[Json]:
    yield from (trained_model(saved) for saved in output.artifacts.values() if saved.kind == MODEL)
    if is_child and isinstance(output.result, dict):
        yield from models_of_child(output.result)


def outcome_of(run: Run) -> Json:
    """Returns the outputs of a run, and more of those that are models, for a parent stream."""
    own = {name: value for name, value in run.outputs.items() if name != TRAINED_MODELS}
    return own | ({TRAINED_MODELS: run.models} if run.models else {})
