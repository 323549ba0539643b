"""The command `importances`: how much each parameter of a search matters."""

from dataclasses import asdict

from trackside.aggregates.search.objectives import names_of
from trackside.aggregates.search.state import search_of
from trackside.cli.commands.trials import state_of
from trackside.cli.render import screen
from trackside.cli.runtime.run import run
from trackside.domain.display.text import Column
from trackside.replay.derive.importances import TooFewTrialsError
from trackside.replay.derive.importances import importances as importances_of

BAR = 30


def importances(stream_id: str, as_json: bool) -> None:
    """Prints how much each parameter matters for being among the best tenth of trials, for each objective."""
    search = search_of(run(state_of(stream_id)))
    assert search is not None
    names = names_of(search.spec)
    try:
        weights = [(name, *importances_of(search, at)) for at, name in enumerate(names)]
    except TooFewTrialsError as few:
        if as_json:
            screen.emit({"search_id": stream_id, "objectives": [], "message": str(few)})
        else:
            screen.say(str(few))
        return
    if as_json:
        shares = [
            {"objective": name, "trials": count, "importances": [asdict(one) for one in found]}
            for name, found, count in weights
        ]
        screen.emit({"search_id": stream_id, "objectives": shares})
        return
    for name, found, count in weights:
        columns = [Column("parameter", keep=True), Column("share", right=True), Column("")]
        bars = [[one.parameter, f"{one.share:.1%}", "█" * round(one.share * BAR) or " "] for one in found]
        screen.show_table(columns, bars, title=name if len(names) > 1 else "")
        screen.say(f"of {count} trials that succeeded")
