"""Arguments and options that several commands have."""

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=100_000, metavar="N", help="List at most N.")
]
TimeoutOption = Annotated[
    float,
    typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Seconds to wait for the command's answer."),
]
ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Reason, written to the log with the command.")
]
WaitOption = Annotated[
    bool, typer.Option("--wait", help="Show the progress and wait for the end of the search.")
]
NoCacheOption = Annotated[
    bool, typer.Option("--no-cache", help="Run each step, also if an earlier run had the same.")
]
EncryptedOption = Annotated[
    bool, typer.Option("--encrypted", help="Encrypt its events, so that it can be forgotten.")
]
ProcessesOption = Annotated[
    int | None,
    typer.Option(
        "--processes", min=1, max=64, metavar="N", help="Processes at most; without it one for each core."
    ),
]
SearchArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the search.")]
StreamArgument = Annotated[
    str, typer.Argument(metavar="STREAM", help="Id of the stream: of a search or a batch.")
]
AtOption = Annotated[
    str,
    typer.Option(
        "--at",
        metavar="OFFSET|TIME",
        help="State to read: after an offset, at a time with its zone, or so long ago, such as 10m.",
    ),
]
