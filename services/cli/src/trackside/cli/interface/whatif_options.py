"""The options of `replay whatif` for incremental jobs."""

from pathlib import Path
from typing import Annotated

import typer

Threshold = Annotated[
    list[float] | None,
    typer.Option(
        "--threshold", metavar="NUMBER", help="Threshold of the deploy condition of a job; may be repeated."
    ),
]
Metric = Annotated[
    str,
    typer.Option("--metric", metavar="NAME", help="The metric of --threshold, if there are several."),
]
DeployTrigger = Annotated[
    list[str] | None,
    typer.Option("--deploy-trigger", metavar="JSON", help="Whole deploy trigger of a job; may be repeated."),
]
TrainThreshold = Annotated[
    list[float] | None,
    typer.Option(
        "--train-threshold",
        metavar="N",
        help="Threshold of num_of_samples in the train trigger of a job; may be repeated.",
    ),
]
TrainProb = Annotated[
    list[float] | None,
    typer.Option(
        "--train-prob", metavar="SHARE", help="Share of the samples for training of a job; may be repeated."
    ),
]
Picture = Annotated[
    Path | None,
    typer.Option("--picture", metavar="FILE", help="Write the live models of a job to a .svg or .png file."),
]
