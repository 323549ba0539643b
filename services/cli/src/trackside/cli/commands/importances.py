"""The command `importances`: which parameters of a search mattered."""

from dataclasses import asdict

from trackside.cli.commands.change import SearchId
from trackside.cli.commands.trials import state_of
from trackside.cli.render import screen
from trackside.cli.render.screen import Column
from trackside.cli.runtime.options import AsJson
from trackside.cli.runtime.run import run
from trackside.domain.objectives import names_of
from trackside.replay.derive.importances import importances as weighed

BAR = 30


def importances(stream_id: SearchId, as_json: AsJson = False) -> None:
    """Show which parameters of a search mattered for being among its best tenth, by Optuna's PED-ANOVA.

    Of several objectives each has its own best tenth, and its own shares.

    \b
    Examples:
      trackside importances digits-1
      trackside importances digits-1 --json
    """
    search = run(state_of(stream_id)).search
    assert search is not None
    names = names_of(search.spec)
    weights = [(name, *weighed(search, at)) for at, name in enumerate(names)]
    if as_json:
        told = [
            {"objective": name, "trials": count, "importances": [asdict(one) for one in found]}
            for name, found, count in weights
        ]
        screen.emit({"search_id": stream_id, "objectives": told})
        return
    for name, found, count in weights:
        columns = [Column("parameter", keep=True), Column("share", right=True), Column("")]
        bars = [[one.parameter, f"{one.share:.1%}", "█" * round(one.share * BAR) or " "] for one in found]
        screen.show_table(columns, bars, title=name if len(names) > 1 else "")
        screen.say(f"of {count} trials that succeeded")
