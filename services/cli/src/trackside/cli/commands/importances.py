"""The command `importances`: how much each parameter of a search matters."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any, Literal

from trackside.aggregates.search.state import Search, search_of
from trackside.aggregates.search.trials.objectives import names_of
from trackside.cli.commands.trials import state_of
from trackside.cli.render import screen
from trackside.cli.runtime.run import run
from trackside.domain.display.text import Column
from trackside.replay.derive.importances import (
    EqualValuesError,
    Importance,
    TooFewTrialsError,
    parameter_correlations,
)
from trackside.replay.derive.importances import importances as importances_of
from trackside.summaries.correlation import Correlation

BAR = 30
ImportanceMethod = Literal["ped-anova", "pearson"]


def importances(stream_id: str, method: ImportanceMethod, as_json: bool) -> None:
    """Prints how much each parameter matters for each objective, as the method measures it."""
    search = search_of(run(state_of(stream_id)))
    assert search is not None
    names = names_of(search.spec)
    try:
        weights = [(name, *_measured(search, at, method)) for at, name in enumerate(names)]
    except TooFewTrialsError as few:
        if as_json:
            screen.emit({"search_id": stream_id, "method": method, "objectives": [], "message": str(few)})
        else:
            screen.say(str(few))
        return
    if as_json:
        found = [
            {
                "objective": name,
                "trials": count,
                "importances": [asdict(one) for one in measured],
                **({"message": problem} if problem else {}),
            }
            for name, measured, count, problem in weights
        ]
        screen.emit({"search_id": stream_id, "method": method, "objectives": found})
        return
    for name, measured, count, problem in weights:
        if problem:
            screen.say(f"{name}: {problem}" if len(names) > 1 else problem)
            continue
        heading = "share" if method == "ped-anova" else "correlation"
        columns = [Column("parameter", keep=True), Column(heading, right=True), Column("")]
        bars = [_row(one) for one in measured if not _skipped(one)]
        screen.show_table(columns, bars, title=name if len(names) > 1 else "")
        screen.say(f"of {count} trials that succeeded{_skipped_text(measured)}")


def _measured(
    search: Search, objective: int, method: ImportanceMethod
) -> tuple[Sequence[Importance | Correlation], int, str]:
    """Returns the parameters, the number of trials, and why there is none; raises TooFewTrialsError."""
    if method == "ped-anova":
        return *importances_of(search, objective), ""
    try:
        return *parameter_correlations(search, objective), ""
    except EqualValuesError as error:
        return [], error.count, str(error)


def _row(one: Importance | Correlation) -> list[Any]:
    if isinstance(one, Importance):
        weight, text = one.share, f"{one.share:.1%}"
    else:
        weight, text = one.importance, f"{one.correlation:+.3f}"
    return [one.parameter, text, "█" * round(weight * BAR) or " "]


def _skipped(one: Importance | Correlation) -> str:
    return "" if isinstance(one, Importance) else one.skipped or ""


def _skipped_text(measured: Sequence[Importance | Correlation]) -> str:
    """Returns the parameters without a correlation: `; skipped: kind (categorical), fixed (constant)`."""
    skipped = sorted(
        (one for one in measured if _skipped(one)), key=lambda one: (_skipped(one), one.parameter)
    )
    texts = [
        f"{', '.join(one.parameter for one in same)} ({why.replace('_', ' ')})"
        for why, same in groupby(skipped, key=_skipped)
    ]
    return f"; skipped: {', '.join(texts)}" if texts else ""
