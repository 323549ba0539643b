"""The commands `trackside summaries ...` that read: jobs, curves, images and other values."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from trackside.cli.interface.options import JsonOption, LimitOption

JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="Id of the job: of a task, or of a directory with event files.")
]
JobsArgument = Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of jobs.")]
OneTagOption = Annotated[
    str, typer.Option("--tag", "-t", metavar="TAG", help="The tag; without it the only one of this kind.")
]
StepOption = Annotated[int | None, typer.Option("--step", metavar="STEP", help="Show one step only.")]
StepsOption = Annotated[
    int | None,
    typer.Option("--limit", "-n", min=1, max=1_000, metavar="N", help="Show at most N steps, evenly spaced."),
]
AllSessionsOption = Annotated[
    bool,
    typer.Option(
        "--superseded",
        help="Also show values that a later attempt or session has replaced, those of each separately.",
    ),
]
AfterOption = Annotated[
    str, typer.Option("--after", metavar="CURSOR", help="Continue after the page that has named this cursor.")
]
FromOption = Annotated[
    str, typer.Option("--from", metavar="STEP|SECONDS|TIME", help="First step or time, as the axis has it.")
]
ToOption = Annotated[
    str, typer.Option("--to", metavar="STEP|SECONDS|TIME", help="Last step or time, as the axis has it.")
]


def ls(
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=999, metavar="N", help="List at most N jobs.")
    ] = 20,
    after: AfterOption = "",
    page: Annotated[
        int, typer.Option("--page", min=0, metavar="NUMBER", help="List this page, counted from 0.")
    ] = 0,
    where: Annotated[
        str, typer.Option("--where", metavar="EXPR", help="List the jobs that match, as `search` does.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="List deleted jobs too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List jobs, those with the newest values first: tasks that report, and directories with event files.

    \b
    Examples:
      trackside summaries ls
      trackside summaries ls --where 'metrics.loss.last < 0.1'
      trackside summaries ls --all --json
    """
    from trackside.cli.commands.summaries import listing

    listing.ls(listing.ListedPage(limit, after, page, everything), where, as_json)


def show(job: JobArgument, as_json: JsonOption = False) -> None:
    """Show what is known of a job: facts, charts of its main curves, tags of other kinds, and its files.

    \b
    Examples:
      trackside summaries show digits-1.7
      trackside summaries show summary-0f3a6c1d2e4b5978 --json
    """
    from trackside.cli.commands.summaries import showing

    showing.show(job, as_json)


def tags(
    job: JobArgument,
    kind: Annotated[str, typer.Option(metavar="KIND", help="List the tags of this kind only.")] = "",
    limit: LimitOption = 1_000,
    offset: Annotated[int, typer.Option(min=0, metavar="N", help="Leave out the first N.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """List the tags of a job, with their steps and last values.

    \b
    Examples:
      trackside summaries tags digits-1.7
      trackside summaries tags digits-1.7 --kind image
    """
    from trackside.cli.commands.summaries import showing

    showing.tags(job, kind, limit, offset, as_json)


def scalars(
    jobs: JobsArgument,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", "-t", metavar="TAG", help="Tag of a curve; may be repeated.")
    ] = None,
    smooth: Annotated[
        float,
        typer.Option(
            min=0, max=0.999999, metavar="WEIGHT", help="Smooth curves as TensorBoard does: 0 not, 0.99 much."
        ),
    ] = 0.0,
    best: Annotated[
        Literal["min", "max"] | None, typer.Option(help="Show the best value so far: the least or greatest.")
    ] = None,
    mean: Annotated[bool, typer.Option("--mean", help="Show mean and range over the jobs, by tag.")] = False,
    axis: Annotated[
        Literal["step", "relative", "wall"],
        typer.Option(help="Steps, seconds since the first point, or time of day."),
    ] = "step",
    low: FromOption = "",
    high: ToOption = "",
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            max=200_000,
            metavar="N",
            help="Thin each curve to about N points: the least and greatest stay.",
        ),
    ] = 1_000,
    raw: Annotated[bool, typer.Option("--raw", help="Thin nothing: all points.")] = False,
    superseded: AllSessionsOption = False,
    log_y: Annotated[bool, typer.Option("--log", help="Draw values on a logarithmic axis.")] = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a .png or .svg; needs the extra `plot`.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with job, tag, step and value.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw the curves of jobs and tags in one chart, or print them as CSV or JSON.

    Each bucket of a thinned curve keeps its first, last, least and greatest point, and says where NaN was.

    \b
    Examples:
      trackside summaries scalars digits-1.7 --tag loss
      trackside summaries scalars digits-1.7 digits-1.8 --tag loss --smooth 0.9 --log
      trackside summaries scalars digits-1.7 --tag loss --raw --csv
      trackside summaries scalars digits-1.7 digits-1.8 --tag loss --mean --picture loss.svg
    """
    from trackside.cli.commands.summaries import scalars as curves

    bound = None if raw else limit
    choice = curves.CurveChoice(jobs, tags or [], axis, low, high, bound, superseded)
    form: curves.OutputForm = "json" if as_json else "csv" if as_csv else "chart"
    curves.scalars(choice, curves.CurveChange(smooth, best, mean), curves.CurveOutput(form, log_y, picture))


def images(
    job: JobArgument,
    tag: OneTagOption = "",
    step: StepOption = None,
    limit: StepsOption = None,
    superseded: AllSessionsOption = False,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write the images to files in this folder.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the images of a tag with size, type and digest, or write them to files.

    \b
    Examples:
      trackside summaries images digits-1.7 --tag samples
      trackside summaries images digits-1.7 --tag samples --step 100 --out pictures
    """
    from trackside.cli.commands.summaries import values

    values.images(values.ValueChoice(job, "image", tag, step, limit, superseded), folder, as_json)


def histograms(
    job: JobArgument,
    tag: OneTagOption = "",
    step: StepOption = None,
    limit: StepsOption = None,
    superseded: AllSessionsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the histograms of a tag: a line for each step, and bars of the last one or of one step.

    \b
    Examples:
      trackside summaries histograms digits-1.7 --tag weights
      trackside summaries histograms digits-1.7 --tag weights --step 100
    """
    from trackside.cli.commands.summaries import values

    values.values(values.ValueChoice(job, "histogram", tag, step, limit, superseded), as_json)


def tensors(
    job: JobArgument,
    tag: OneTagOption = "",
    step: StepOption = None,
    limit: StepsOption = None,
    superseded: AllSessionsOption = False,
    dims: Annotated[
        str,
        typer.Option(
            "--slice",
            metavar="DIMS",
            help="Print a part as JSON: an index or a range for each dimension, such as [0, :, 2:5].",
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Show the tensors of a tag: type, shape, statistics and histogram, or the values of a part.

    \b
    Examples:
      trackside summaries tensors digits-1.7 --tag embedding
      trackside summaries tensors digits-1.7 --tag embedding --step 100 --slice '[0, :10]'
    """
    from trackside.cli.commands.summaries import values

    choice = values.ValueChoice(job, "tensor", tag, step, limit, superseded)
    if dims:
        values.tensor_slice(choice, dims)
    else:
        values.values(choice, as_json)


def text(
    job: JobArgument,
    tag: OneTagOption = "",
    step: StepOption = None,
    limit: StepsOption = None,
    superseded: AllSessionsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the texts of a tag, step by step; control characters are escaped.

    \b
    Examples:
      trackside summaries text digits-1.7 --tag notes
    """
    from trackside.cli.commands.summaries import values

    values.text(values.ValueChoice(job, "text", tag, step, limit, superseded), as_json)


def graph(
    job: JobArgument,
    tag: OneTagOption = "",
    step: StepOption = None,
    parent: Annotated[str, typer.Option(metavar="PATH", help="List what is directly in this scope.")] = "",
    wanted: Annotated[
        str, typer.Option("--search", metavar="TEXT", help="List the nodes with this text in their names.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="List all nodes.")] = False,
    optimized: Annotated[bool, typer.Option("--optimized", help="Read MindSpore's optimized graph.")] = False,
    limit: LimitOption = 1_000,
    as_json: JsonOption = False,
) -> None:
    """List the nodes of a graph of computation: of the top, of one scope, those found, or all.

    \b
    Examples:
      trackside summaries graph digits-1.7
      trackside summaries graph digits-1.7 --parent encoder/layer1
      trackside summaries graph digits-1.7 --search conv
    """
    from trackside.cli.commands.summaries import values
    from trackside.projections.summaries.values import GraphQuery

    kind = "optimized_graph" if optimized else "graph"
    query = GraphQuery(parent, wanted or None, everything, limit)
    values.graph(values.ValueChoice(job, kind, tag, step, None, False), query, as_json)


def other(
    job: JobArgument,
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="Kind: hparams, loss_landscape or that of a package.")
    ],
    tag: OneTagOption = "",
    step: StepOption = None,
    limit: StepsOption = None,
    superseded: AllSessionsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the values of any kind: hyper-parameters, loss landscapes, or those of an installed package.

    \b
    Examples:
      trackside summaries values summary-0f3a6c1d2e4b5978 hparams
    """
    from trackside.cli.commands.summaries import values

    values.values(values.ValueChoice(job, kind, tag, step, limit, superseded), as_json)


def search(
    expression: Annotated[str, typer.Argument(metavar="EXPR", help="Condition over jobs; empty for all.")],
    sort: Annotated[str, typer.Option(metavar="NAME", help="Sort by this field, parameter or metric.")] = "",
    descending: Annotated[bool, typer.Option("--desc", help="Sort the greatest or newest first.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=999, metavar="N", help="Find at most N jobs.")
    ] = 50,
    after: AfterOption = "",
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", "-c", metavar="NAME", help="Show this column too; may be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find jobs by one condition over parameters, metrics, tags, state, times, tag and remark.

    Values are compared by ==, !=, <, <=, >, >=, in and contains, and joined by and, or and not. A metric has
    last, min, max and mean.

    \b
    Examples:
      trackside summaries search 'params.lr < 0.01 and metrics.loss.last <= 0.2' --sort metrics.loss.last
      trackside summaries search 'state == "ended" and tags contains "loss"' --column params.lr
    """
    from trackside.cli.commands.summaries import searching
    from trackside.projections.job_search.search import JobSearch

    wanted = JobSearch(expression, sort, descending, limit, after, tuple(columns or ()))
    searching.search(wanted, as_json)


def lineage(job: JobArgument, as_json: JsonOption = False) -> None:
    """Show what a job was given, what it saved, which jobs these came from and went to.

    \b
    Examples:
      trackside summaries lineage digits-1.7
    """
    from trackside.cli.commands.summaries import lineage as lineages

    lineages.lineage(job, as_json)
