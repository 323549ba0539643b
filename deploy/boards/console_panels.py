"""Panels about the console: open pages, how fast they are, commands of forms."""

from boards.panels import Panel, graph
from boards.queries import promql, quantiles

NONE = "Prometheus has no target that is a console"


def panels() -> list[Panel]:
    """Returns the panels."""
    return [
        graph(
            "Open pages",
            "Pages of the console that are open and get changes.",
            promql("sum(trackside.console.open.pages)", "pages"),
            none=NONE,
        ),
        graph(
            "Time of a page of the console",
            "To read and render a page or its changed content: median and 95th percentile.",
            *quantiles("trackside.console.render.seconds", {0.5: "median", 0.95: "95%"}),
            none=NONE,
        ),
        graph(
            "Changes and commands of the console per second",
            "Contents sent to open pages, and commands of forms by their answer.",
            promql("sum(rate(trackside.console.pushed.fragments[rate]))", "contents sent"),
            promql(
                "sum by (answer) (rate(trackside.console.published.commands[rate]))", "commands {{answer}}"
            ),
            none=NONE,
        ),
    ]
