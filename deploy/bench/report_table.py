"""Prints the figures: one table of at most 100 columns, and the counts below it."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.measurements import Figure, Goal

WIDTH = 100
STYLES = {"aim": "green", "floor": "yellow", "below": "red"}


def print_report(
    console: Console, figures: Sequence[Figure], counted: Sequence[str], details: dict[str, Any]
) -> None:
    """Prints the table, the hops of a task, and the counts."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", no_wrap=True)
    table.add_column("measure", no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("reference, in this run", max_width=28)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("floor", justify="right", no_wrap=True)
    table.add_column("aim", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for figure in figures:
        reference = "-" if figure.reference is None else f"{number(figure.reference)} {figure.reference_name}"
        reached = figure.reached
        style = STYLES.get(reached, "")
        table.add_row(
            figure.number,
            figure.what,
            f"{number(figure.value)} {figure.unit}",
            reference,
            ratio(figure),
            goal(figure.goal, figure.unit, aim=False),
            goal(figure.goal, figure.unit, aim=True),
            f"[{style}]{reached}[/]" if style else reached,
        )
    console.print(table)
    if hops := details.get("hops_ms"):
        console.print("\nfrom one task's end to the next one's start, medians in ms by the log's clock:")
        console.print("  " + "; ".join(f"{hop} {number(value)}" for hop, value in hops.items()))
    if cpu_ms := details.get("cpu_ms"):
        each = "; ".join(f"{name} {number(value)}" for name, value in cpu_ms.items())
        console.print(f"\nprocessor time of one trial, ms: {each}; in all {number(sum(cpu_ms.values()))}")
    for slots, of_task in details.get("batch_cpu_ms", {}).items():
        each = "; ".join(f"{name} {number(value)}" for name, value in of_task.items())
        console.print(
            f"\nof a task of a batch on {slots}, ms: {each}; in all {number(sum(of_task.values()))}"
        )
    if cpu_ms := details.get("warm_cpu_ms"):
        each = "; ".join(f"{name} {number(value)}" for name, value in cpu_ms.items())
        console.print(f"\nof a warm trial, ms: {each}; in all {number(sum(cpu_ms.values()))}")
    if pids := details.get("pids"):
        console.print(
            f"\nfresh pids: {', '.join(map(str, pids[:8]))} ... {pids[-1]} ({len(set(pids))} in all)"
        )
    console.print("counted: " + "; ".join(counted))


def number(value: float) -> str:
    """Formats a number with three significant digits and no exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(figure: Figure) -> str:
    """Formats a ratio: ms as a multiple, anything else as percent."""
    found = figure.ratio
    if found is None:
        return "-"
    return f"{found:.1f}x" if figure.unit == "ms" else f"{found:.0%}"


def goal(wanted: Goal | None, unit: str, *, aim: bool) -> str:
    """Formats a floor or an aim with its unit."""
    if wanted is None:
        return "-"
    value = wanted.aim if aim else wanted.floor
    return f"{value:.0%}" if wanted.ratio else f"{value:g} {unit}"
