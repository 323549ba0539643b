"""What a chart says of the values that it leaves out."""

from trackside.projections.reading.columns import ChartColumns


def thinned_note(found: ChartColumns) -> str:
    """Returns how many of how many rows are shown; empty where all of them are."""
    return f"{found.rows:,} of {found.total:,} are shown" if found.rows < found.total else ""
