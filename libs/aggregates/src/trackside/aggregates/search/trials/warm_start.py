"""What a search knows from its start: results of other searches, and parameters to try first. Pure.

They are one decision with its start. The change of limits behind them changes none: it moves the open slots
behind the results, so that whatever is asked without them doesn't count.
"""

from collections.abc import Iterator

from trackside.aggregates.search.messages import SearchUpdated, StartSearch, TrialAdded, TrialsImported
from trackside.aggregates.search.space.axes import Axes, parameters_faults
from trackside.aggregates.search.trials.added_trials import given_problems, is_partial
from trackside.aggregates.search.trials.changes import LIMITS
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.refusals import Problem


def past_problems(wanted: StartSearch, axes: Axes) -> Iterator[Problem]:
    """Yields which values of results of other searches are not in the space."""
    for place, past in enumerate(wanted.past):
        for path, message in parameters_faults(axes, past.parameters, f"$.past[{place}].parameters"):
            yield Problem(code="bad_parameters", path=path, message=f"{message}; leave this trial out")


def first_problems(wanted: StartSearch, axes: Axes) -> Iterator[Problem]:
    """Yields why the parameters to try first can't all be tried, and which of their values can't."""
    if len(wanted.first) > wanted.max_trials:
        message = f"{len(wanted.first)} first trials are more than the {wanted.max_trials} of max_trials"
        yield Problem(code="no_more_trials", path="$.first", message=message)
    for place, parameters in enumerate(wanted.first):
        path, flag = f"$.first[{place}]", "" if wanted.first_outside else "first_outside"
        yield from given_problems(axes, parameters, path, flag)


def warm_start_events(wanted: StartSearch, axes: Axes, command_id: str) -> list[Event]:
    """Returns the events after a search's start for its past and its first trials."""
    events: list[Event] = []
    if wanted.past:
        same = {name: getattr(wanted, name) for name in LIMITS}
        events = [
            TrialsImported(command_id=command_id, change=1, trials=wanted.past),
            SearchUpdated(command_id=command_id, change=2, **same),
        ]
    if wanted.first:
        events += [
            TrialAdded(
                command_id=command_id,
                change=number,
                parameters=parameters,
                tell_tuner=True,
                partial=is_partial(axes, parameters),
            )
            for number, parameters in enumerate(wanted.first, start=len(events) + 1)
        ]
    return events
