"""Panels about the console: open pages, how fast they are, commands of forms."""

from boards.panels import Panel, graph
from boards.queries import RATE, promql, quantile
from boards.style import COUNT, PER_SECOND, SECONDS, series

NONE = "Prometheus has no target that is a console"


def panels() -> list[Panel]:
    """Returns the panels."""
    pushed = series("trackside.console.pushed.fragments")
    published = series("trackside.console.published.commands")
    return [
        graph(
            "Open pages",
            "Pages of the console that are open and get changes.",
            promql(f"sum({series('trackside.console.open.pages')})", "pages"),
            unit=COUNT,
            none=NONE,
        ),
        graph(
            "Time of a page of the console",
            "To read and render a page or its changed content: median and 95th percentile.",
            promql(quantile(0.5, "trackside.console.render.seconds"), "median"),
            promql(quantile(0.95, "trackside.console.render.seconds"), "95%"),
            unit=SECONDS,
            none=NONE,
        ),
        graph(
            "Changes and commands of the console per second",
            "Contents sent to open pages, and commands of forms by their answer.",
            promql(f"sum(rate({pushed}{RATE}))", "contents sent"),
            promql(f"sum by (answer) (rate({published}{RATE}))", "commands {{answer}}"),
            unit=PER_SECOND,
            none=NONE,
        ),
    ]
