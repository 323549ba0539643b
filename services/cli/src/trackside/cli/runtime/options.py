"""Options that several commands have."""

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="How many at most.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for the answer.")]
