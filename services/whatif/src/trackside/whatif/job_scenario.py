"""Another trigger for a recorded incremental job: what is changed of its definition. Pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from trackside.aggregates.rounds.job.job_spec import JobSpec
from trackside.aggregates.rounds.job.trigger_messages import (
    AllTriggers,
    AnyTrigger,
    MetricCondition,
    Trigger,
    TriggerRule,
)
from trackside.aggregates.rounds.stages import metrics, triggers
from trackside.contracts.envelope.refusals import nearest
from trackside.replay.history.errors import BadScenarioError

_SAMPLE_METRICS = (triggers.NUM_OF_SAMPLES, triggers.NUM_OF_NEW_SAMPLES)
_TRIGGER: TypeAdapter[Trigger | None] = TypeAdapter(TriggerRule)


@dataclass(frozen=True, slots=True)
class JobScenario:
    """What is other than recorded; None: as recorded.

    `threshold` is of the condition on `metric` in the trigger of deploy, `train_threshold` of that on
    num_of_samples, or else num_of_new_samples, in the trigger of train.
    """

    name: str
    threshold: float | None = None
    metric: str = ""
    deploy_trigger: Trigger | None = None
    train_threshold: float | None = None
    train_prob: float | None = None

    @property
    def changes_training(self) -> bool:
        """Returns whether rounds may begin at other times, or with other samples."""
        return self.train_threshold is not None or self.train_prob is not None

    def deploy_trigger_of(self, spec: JobSpec) -> Trigger | None:
        """Returns the trigger of deploy of a definition, as changed."""
        trigger = spec.deploy.trigger if self.deploy_trigger is None else self.deploy_trigger
        return trigger if self.threshold is None else _changed(trigger, self.metric, self.threshold)

    def train_trigger_of(self, spec: JobSpec) -> Trigger | None:
        """Returns the trigger of train of a definition, as changed."""
        if self.train_threshold is None:
            return spec.train.trigger
        metric = _sample_metric(spec) or triggers.NUM_OF_SAMPLES
        return _changed(spec.train.trigger, metric, self.train_threshold)

    def train_prob_of(self, spec: JobSpec) -> float:
        """Returns the share of the samples that are for training, as changed."""
        return spec.dataset.train_prob if self.train_prob is None else self.train_prob


def _changed(trigger: Trigger | None, metric: str, threshold: float) -> Trigger | None:
    if isinstance(trigger, MetricCondition) and trigger.metric.strip() == metric.strip():
        return trigger.model_copy(update={"threshold": threshold})
    if isinstance(trigger, AllTriggers | AnyTrigger):
        parts = [_changed(each, metric, threshold) for each in trigger.triggers]
        return trigger.model_copy(update={"triggers": parts})
    return trigger


def parse_deploy_trigger(text: str) -> Trigger:
    """Reads a trigger of deploy from JSON, as in a definition; raises BadScenarioError."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise BadScenarioError(f"the trigger {text!r} is not JSON: {error}") from error
    try:
        found = _TRIGGER.validate_python(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadScenarioError(f"the trigger {text!r}: {place or 'it'}: {first['msg']}") from error
    wrong = [] if found is None else list(triggers.problems(found, "$"))
    if found is None or wrong:
        raise BadScenarioError(wrong[0].message if wrong else "a trigger is an object with a `type`")
    return found


def check_train_prob(train_prob: float) -> None:
    """Raises BadScenarioError for what is not a share of the samples, from 0 to 1."""
    if not 0 <= train_prob <= 1:
        raise BadScenarioError(f"--train-prob {train_prob:g}: expected a number from 0 to 1")


def deploy_metric(spec: JobSpec, asked: str) -> str:
    """Returns the metric whose threshold is changed: `asked`, or that of the only condition of deploy.

    Raises BadScenarioError if there is no such condition, or more than one.
    """
    found = list(dict.fromkeys(_metrics(spec.deploy.trigger)))
    listed = ", ".join(found)
    if not found:
        hint = "give a whole trigger with --deploy-trigger"
        raise BadScenarioError(f"the deploy trigger of this job has no condition on a metric: {hint}")
    if asked:
        if asked.strip() not in found:
            known = nearest(asked, found)
            raise BadScenarioError(f"no condition of the deploy trigger is on {asked!r}: {listed}{known}")
        return asked.strip()
    if len(found) > 1:
        raise BadScenarioError(f"the deploy trigger has conditions on {listed}: name one with --metric")
    return found[0]


def check_train_threshold(spec: JobSpec) -> None:
    """Raises BadScenarioError if no condition of the trigger of train is on a number of samples."""
    if not _sample_metric(spec):
        listed = ", ".join(_metrics(spec.train.trigger)) or "no metric"
        expected = " or ".join(_SAMPLE_METRICS)
        raise BadScenarioError(
            f"--train-threshold is of {expected}; the train trigger of this job is on {listed}"
        )


def _sample_metric(spec: JobSpec) -> str:
    """Returns the number of samples that the trigger of train has a condition on; empty for none."""
    found = set(_metrics(spec.train.trigger))
    return next((metric for metric in _SAMPLE_METRICS if metric in found), "")


def _metrics(trigger: Trigger | None) -> Iterator[str]:
    return (condition.metric.strip() for condition in triggers.conditions_of(trigger))


def is_delta(condition: MetricCondition) -> bool:
    """Returns whether a condition is on a difference between two models."""
    return metrics.name_of(condition.metric).endswith(metrics.DELTA)
