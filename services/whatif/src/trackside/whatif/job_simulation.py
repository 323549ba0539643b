"""The rounds of a recorded job with another trigger: what is known of them, and what is not. Pure.

A model that was trained with the same samples from the same base is the recorded one, and its metrics on the
same samples are those that were recorded. All else is unknown: then a round may have deployed its model or
not, and more than one model may be live after it.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal, NamedTuple

from trackside.aggregates.rounds.job.job_spec import JobSpec
from trackside.aggregates.rounds.job.trigger_messages import (
    AllTriggers,
    AnyTrigger,
    DailyWindow,
    MetricCondition,
    Trigger,
)
from trackside.aggregates.rounds.messages import Range, SeenMetric
from trackside.aggregates.rounds.stages import metrics, triggers
from trackside.aggregates.rounds.stages.triggers import Known
from trackside.whatif.job_recording import EvalSamples, JobRecording, RoundTrace
from trackside.whatif.job_scenario import JobScenario, is_delta
from trackside.whatif.round_begins import RecordedBegins, RoundBegin, RoundBegins, TriggeredBegins

Verdict = Literal["deploy", "keep", "failed", "open", "unknown"]
"""`keep`: the live model stays. `open`: the round had not ended with the record."""
MOST_LIVE = 8
"""If more models than these may be live, all that is known is that one of them is."""
_ALWAYS = DailyWindow(type="daily", start="00:00", end="24:00")
_NEVER = MetricCondition(type="condition", metric="never", operator=">", threshold=0)
_NO_VALUES: Mapping[str, SeenMetric] = {}


class LiveModel(NamedTuple):
    """A model that may be live, and the one that evaluations compare with then; both are digests."""

    digest: str
    compared: str


ANY = LiveModel("?", "?")
"""One of more models than are told apart."""


class SimulatedRound(NamedTuple):
    """A round of a scenario; times are ms since 1970. `recorded` is the round that has trained its model.

    None if no round was recorded with its samples and base: its model is unknown. `live` are the models of
    which one was live after it, `values` what its trigger of deploy saw, where that is known. `reason` says
    why a decision is unknown, or what else than the trigger decided.
    """

    number: int
    fired_ms: int
    ended_ms: int
    train: Range
    trained: str
    recorded: int | None
    verdict: Verdict
    reason: str
    values: Mapping[str, SeenMetric]
    live: tuple[str, ...]
    device_ms: int


@dataclass(slots=True)
class SimulatedJob:
    """A scenario's rounds, and which models may have been live from when on."""

    scenario: JobScenario
    rounds: list[SimulatedRound] = field(default_factory=list)
    live: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    @property
    def device_ms(self) -> int:
        """For how long tasks held devices, times their number; the median for rounds of unknown models."""
        return sum(each.device_ms for each in self.rounds)

    @property
    def unknown_models(self) -> int:
        """How many rounds have trained a model that was never trained in the record."""
        return sum(each.recorded is None for each in self.rounds)

    def count(self, verdict: Verdict) -> int:
        """Returns how many rounds have ended so."""
        return sum(each.verdict == verdict for each in self.rounds)


class Measured:
    """What was measured of models, by the samples of the evaluation; keeps the differences of pairs.

    And of rounds: `by_samples` are those that were trained with samples of a dataset, `usual_ms` and
    `usual_device_ms` their median time and device time, `places` the order of the models.
    """

    def __init__(self, recording: JobRecording) -> None:
        self.by_samples: dict[tuple[str, Range], list[RoundTrace]] = {}
        ended = [each for each in recording.rounds if each.status]
        self.usual_ms = _median(each.ended_ms - each.fired_ms for each in ended)
        self.usual_device_ms = _median(each.device_ms for each in ended)
        self.places = {digest: place for place, digest in enumerate(recording.names)}
        self._metrics: dict[tuple[str, EvalSamples], dict[str, Any]] = {}
        self._pairs: dict[tuple[str, str, EvalSamples], dict[str, Any] | None] = {}
        for trace in recording.rounds:
            self.by_samples.setdefault((trace.spec.dataset.name, trace.train), []).append(trace)
            if trace.evaluation is not None and trace.metrics:
                self._metrics[trace.trained, trace.evaluation] = trace.metrics["trained"]
                self._metrics.setdefault((trace.compared, trace.evaluation), trace.metrics["deployed"])

    def of(self, model: str, samples: EvalSamples | None) -> dict[str, Any] | None:
        """Returns the metrics of a model on these samples; None if they were not measured."""
        return None if samples is None else self._metrics.get((model, samples))

    def pair(self, trained: str, compared: str, samples: EvalSamples | None) -> dict[str, Any] | None:
        """Returns the metrics of a trained model with its differences from another one; None if unknown."""
        if samples is None:
            return None
        key = trained, compared, samples
        if key not in self._pairs:
            ours, others = self.of(trained, samples), self.of(compared, samples)
            self._pairs[key] = None
            if ours is not None and others is not None:
                self._pairs[key] = metrics.with_deltas(ours, others)
        return self._pairs[key]


def simulate_job(
    recording: JobRecording, scenario: JobScenario, measured: Measured | None = None
) -> SimulatedJob:
    """Replays the rounds of a job under a scenario; `measured` may be shared by those of one recording."""
    return _Simulation(recording, scenario, measured or Measured(recording)).run()


class _Decision(NamedTuple):
    """Whether a model is deployed while another one is live; None: unknown, for a reason."""

    deploy: bool | None
    reason: str = ""
    values: Mapping[str, SeenMetric] = _NO_VALUES


class _Simulation:
    """A job as it would have been, round by round."""

    def __init__(self, recording: JobRecording, scenario: JobScenario, measured: Measured) -> None:
        self._recording, self._scenario, self._measured = recording, scenario, measured
        self._job = SimulatedJob(scenario)
        self._certain = {recording.initial}
        self._last_trained = ""
        self._rollbacks = list(recording.rollbacks)
        self._used: set[int] = set()
        self._live: frozenset[LiveModel] = frozenset()
        self._digests: tuple[str, ...] = ()
        self._set_live({LiveModel(recording.initial, recording.initial_eval)})
        self._triggers: dict[int, Trigger | None] = {}
        self._bounds: dict[tuple[int, bool], tuple[Trigger | None, Trigger | None]] = {}
        probs = {spec.dataset.train_prob for _, spec in recording.specs}
        has_samples = scenario.train_prob is None or probs == {scenario.train_prob}
        self._by_samples = measured.by_samples if has_samples else {}

    def run(self) -> SimulatedJob:
        """Plays all rounds."""
        recording, scenario = self._recording, self._scenario
        begins: RoundBegins = RecordedBegins(recording)
        if scenario.changes_training:
            begins = TriggeredBegins(recording, scenario)
        self._note_live(recording.created_ms)
        ended_ms, released = recording.created_ms, None
        while (begin := begins.after(ended_ms, released)) is not None:
            self._roll_back(begin.fired_ms)
            played = self._play(begin)
            self._job.rounds.append(played)
            if played.verdict == "open":
                break
            ended_ms, released = played.ended_ms, played.train if played.verdict == "failed" else None
        self._roll_back(recording.last_ms)
        return self._job

    def _play(self, begin: RoundBegin) -> SimulatedRound:
        number = len(self._job.rounds) + 1
        trace, reason = self._recorded(begin)
        trained, device_ms = f"?{number}", self._measured.usual_device_ms
        ended_ms = decided_ms = live_ms = begin.fired_ms + self._measured.usual_ms
        if trace is not None:
            self._used.add(trace.number)
            trained, device_ms = trace.trained, trace.device_ms
            ended_ms, decided_ms = trace.ended_ms or self._recording.last_ms, trace.decided_ms
            live_ms = trace.live_ms or decided_ms
        verdict: Verdict = "failed"
        values = _NO_VALUES
        if (trace is not None and not trace.status) or ended_ms > self._recording.last_ms:
            verdict, reason = "open", reason or "the record ends before it"
        elif not decided_ms:
            reason = "as recorded"
        else:
            verdict, reason, values = self._decide(begin, trained, trace, reason, decided_ms)
            self._note_live(live_ms)
        if verdict in ("deploy", "keep", "unknown"):
            self._last_trained = trained
        return SimulatedRound(
            number=number,
            fired_ms=begin.fired_ms,
            ended_ms=ended_ms,
            train=begin.train,
            trained=trained,
            recorded=None if trace is None else trace.number,
            verdict=verdict,
            reason=reason,
            values=values,
            live=self._digests,
            device_ms=device_ms,
        )

    def _recorded(self, begin: RoundBegin) -> tuple[RoundTrace | None, str]:
        """Returns the recorded round with these samples and this base, or why its model is unknown."""
        key = begin.spec.dataset.name, begin.train
        found = [
            each
            for each in self._by_samples.get(key, ())
            if each.number not in self._used and (begin.recorded is None or each is begin.recorded)
        ]
        if not found:
            return None, "no round was recorded with these samples"
        bases = {self._last_trained}
        if begin.spec.start_from == "deployed" or not self._last_trained:
            bases = {each.digest for each in self._live}
        same = [each for each in found if not each.base or bases == {each.base}]
        return (same[0], "") if same else (None, "no round was recorded with this base model")

    def _decide(
        self, begin: RoundBegin, trained: str, trace: RoundTrace | None, unmatched: str, decided_ms: int
    ) -> tuple[Verdict, str, Mapping[str, SeenMetric]]:
        """Decides for each model that may be live, and changes which may be."""
        decisions = [
            (each, self._decision(begin, trained, trace, each, decided_ms)) for each in self._possible()
        ]
        first, outcomes = decisions[0][1], {each.deploy for _, each in decisions}
        if None in outcomes:
            first = next(each for _, each in decisions if each.deploy is None)
        reason = unmatched or first.reason
        has_failed = trace is not None and bool(trace.deploy) and trace.status == "failed"
        if has_failed and outcomes == {True}:
            return "failed", "the deployment failed, as recorded", first.values
        before = self._live
        if self._rollbacks:
            self._roll_back(decided_ms - 1)
        after: set[LiveModel] = set()
        for old, decision in decisions:
            if decision.deploy is not True or has_failed:
                after |= {old} if before is self._live else self._live
            if decision.deploy is not False and not has_failed:
                after.add(LiveModel(trained, trained))
        self._set_live({ANY} if ANY in after or len(after) > MOST_LIVE else after)
        if len(outcomes) > 1 or None in outcomes:
            return "unknown", reason or "it depends on which model was live", _NO_VALUES
        return ("deploy" if first.deploy else "keep"), reason, first.values

    def _possible(self) -> Iterable[LiveModel]:
        """Returns the models that may be live, in the order of the record."""
        if len(self._live) == 1:  # as in most rounds
            return self._live
        return sorted(self._live, key=lambda each: self._place(each.digest))

    def _decision(
        self, begin: RoundBegin, trained: str, trace: RoundTrace | None, live: LiveModel, at_ms: int
    ) -> _Decision:
        if trace is not None and trace.forced:
            return _Decision(True, "forced by a command, as recorded")
        found = self._by_trigger(begin, trained, trace, live, at_ms)
        if found.deploy is not True or begin.spec.deploy.gate is None:
            return found
        if trace is None or not trace.deploy:
            return _Decision(None, "its deployment was never submitted for approval")
        if trace.approved is None:
            return _Decision(None, "its approval was not decided")
        return found if trace.approved else _Decision(False, "rejected, as recorded", found.values)

    def _by_trigger(
        self, begin: RoundBegin, trained: str, trace: RoundTrace | None, live: LiveModel, at_ms: int
    ) -> _Decision:
        trigger = self._trigger(begin.spec)
        samples = begin.evaluation or (None if trace is None else trace.evaluation)
        commanded = trace is not None and bool(trace.decided_by)
        if trace is not None and trace.decided_ms and not trace.metrics:
            return _Decision(False, "its evaluation returned no metrics, as recorded")
        pair = self._measured.pair(trained, live.compared, samples)
        if pair is not None:
            known = Known(pair, at_ms, at_ms)
            return _Decision(*_result(trigger, known, at_ms, commanded), triggers.seen(trigger, known, at_ms))
        own = self._measured.of(trained, samples)
        low, high = self._bounds_of(trigger, own is not None)
        if not (low is _NEVER and high is _ALWAYS):  # else nothing of the trigger is known
            known = Known(own or {}, at_ms, at_ms)
            result, _ = _result(low, known, at_ms, commanded)
            if result is not None and (result,) == _result(high, known, at_ms, commanded)[:1]:
                return _Decision(result, "by what is known of it")
        if own is None:
            return _Decision(None, "the metrics of its model are not known")
        name = self._recording.names.get(live.compared, "a model that was never trained")
        return _Decision(None, f"{name} was not evaluated with these samples")

    def _trigger(self, spec: JobSpec) -> Trigger | None:
        if id(spec) not in self._triggers:
            self._triggers[id(spec)] = self._scenario.deploy_trigger_of(spec)
        return self._triggers[id(spec)]

    def _bounds_of(self, trigger: Trigger | None, has_metrics: bool) -> tuple[Trigger | None, Trigger | None]:
        """Returns a trigger as if no unknown condition held, and as if all did."""
        key = id(trigger), has_metrics
        if key not in self._bounds:
            self._bounds[key] = (
                _assumed(trigger, has_metrics, _NEVER),
                _assumed(trigger, has_metrics, _ALWAYS),
            )
        return self._bounds[key]

    def _roll_back(self, until_ms: int) -> None:
        """Makes those models live that a command made live, where they had been live before."""
        while self._rollbacks and self._rollbacks[0][0] <= until_ms:
            at_ms, digest = self._rollbacks.pop(0)
            possible = {each for _, models in self._job.live for each in models}
            if digest in self._certain:
                self._set_live({LiveModel(digest, digest)})
            elif digest in possible or ANY.digest in possible:
                self._set_live({ANY} if ANY in self._live else {*self._live, LiveModel(digest, digest)})
            self._note_live(at_ms)

    def _set_live(self, models: Set[LiveModel]) -> None:
        """Changes which models may be live; keeps their digests in the order of the record."""
        if models != self._live:
            self._digests = tuple(sorted({each.digest for each in models}, key=self._place))
        self._live = frozenset(models)

    def _note_live(self, at_ms: int) -> None:
        models = self._digests
        if len(models) == 1 and models[0] != ANY.digest:
            self._certain.add(models[0])
        if not self._job.live or self._job.live[-1][1] != models:
            self._job.live.append((at_ms, models))

    def _place(self, digest: str) -> tuple[int, str]:
        """Returns what models are sorted by: the order of the record, those that it has not at the end."""
        places = self._measured.places
        return places.get(digest, len(places)), digest


def _result(trigger: Trigger | None, known: Known, at_ms: int, commanded: bool) -> tuple[bool | None, str]:
    """Returns whether a trigger of deploy holds, then or later; None if it waits for a command."""
    if triggers.holds(trigger, known, at_ms, commanded=commanded):
        return True, ""
    if commanded or isinstance(trigger, MetricCondition):
        return False, ""
    if triggers.waits_for_command(trigger, known, at_ms):
        return None, "it waits for a command that was not given"
    return triggers.can_hold_later(trigger, known, at_ms), ""


def _assumed(trigger: Trigger | None, has_metrics: bool, assumed: Trigger) -> Trigger | None:
    """Returns a trigger with `assumed` in place of each condition on what was not measured."""
    match trigger:
        case MetricCondition():
            is_known = trigger.metric.strip() == triggers.SINCE_LAST_ROUND
            return trigger if is_known or (has_metrics and not is_delta(trigger)) else assumed
        case AllTriggers() | AnyTrigger():
            parts = [_assumed(each, has_metrics, assumed) for each in trigger.triggers]
            return trigger.model_copy(update={"triggers": parts})
        case _:
            return trigger


def _median(numbers: Iterator[int]) -> int:
    found = list(numbers)
    return round(median(found)) if found else 0
