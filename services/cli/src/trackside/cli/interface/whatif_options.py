"""The options of `replay whatif`."""

from pathlib import Path
from typing import Annotated

import typer

AssessorOption = Annotated[
    list[str] | None,
    typer.Option(
        "--assessor", metavar="NAME[:OPTION=VALUE,...]", help="Early-stopping rule; may be repeated."
    ),
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="ORDER",
        help="Order of the queue: first-come, newest-first, shortest-first or longest-first; "
        "may be repeated.",
    ),
]
TrialsAtOnceOption = Annotated[
    int | None,
    typer.Option(
        "--concurrency", min=1, max=10_000, metavar="N", help="Trials at once; without it as recorded."
    ),
]
PlotOption = Annotated[
    list[Path] | None,
    typer.Option("--plot", metavar="FILE", help="Write a chart: a .png (needs matplotlib) or an .html file."),
]
ThresholdOption = Annotated[
    list[float] | None,
    typer.Option(
        "--threshold", metavar="NUMBER", help="Threshold of the deploy condition of a job; may be repeated."
    ),
]
MetricOption = Annotated[
    str,
    typer.Option("--metric", metavar="NAME", help="The metric of --threshold, if there are several."),
]
DeployTriggerOption = Annotated[
    list[str] | None,
    typer.Option("--deploy-trigger", metavar="JSON", help="Whole deploy trigger of a job; may be repeated."),
]
TrainThresholdOption = Annotated[
    list[float] | None,
    typer.Option(
        "--train-threshold",
        metavar="N",
        help="Threshold of num_of_samples or num_of_new_samples in the train trigger of a job; may be "
        "repeated.",
    ),
]
TrainProbOption = Annotated[
    list[float] | None,
    typer.Option(
        "--train-prob", metavar="SHARE", help="Share of the samples for training of a job; may be repeated."
    ),
]
PictureOption = Annotated[
    Path | None,
    typer.Option("--picture", metavar="FILE", help="Write the live models of a job to a .svg or .png file."),
]
