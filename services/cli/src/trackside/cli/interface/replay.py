"""The commands `trackside replay ...`: past states, causes and new runs, from the log alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trackside.cli.interface import whatif_options
from trackside.cli.interface.options import AtOption, JsonOption, ProcessesOption, StreamArgument, WaitOption
from trackside.cli.interface.publishing_options import publishes

if TYPE_CHECKING:
    from trackside.cli.commands.publishing import Publishing

OnEndOption = Annotated[
    list[str] | None,
    typer.Option(
        "--on-end",
        metavar="ACTION",
        help="What follows a step of a run that fails: continue, skip or fail; may be repeated.",
    ),
]
WorkersOption = Annotated[
    list[int] | None,
    typer.Option("--workers", min=1, max=100_000, metavar="N", help="Number of workers; may be repeated."),
]
SlotsOption = Annotated[
    int, typer.Option("--slots", min=1, max=64, metavar="N", help="Number of devices of each worker.")
]
NewIdOption = Annotated[
    str, typer.Option("--id", metavar="NEW", help="Id of the new stream; without it a new one is made.")
]


def show(stream_id: StreamArgument, at: AtOption = "now", as_json: JsonOption = False) -> None:
    """Show the state of a search, batch, run or job at an earlier moment, with its tasks.

    \b
    Examples:
      trackside replay show digits-1
      trackside replay show digits-1 --at 120
      trackside replay show digits-1 --at 10m --json
    """
    from trackside.cli.commands.replay import show

    show.show(stream_id, at, as_json)


def diff(
    stream_id: StreamArgument,
    from_: Annotated[
        str,
        typer.Option(
            "--from", metavar="OFFSET|TIME", help="First moment; without it the start of the stream."
        ),
    ] = "",
    to: Annotated[str, typer.Option("--to", metavar="OFFSET|TIME", help="Second moment.")] = "now",
    as_json: JsonOption = False,
) -> None:
    """Show what changed in a search, batch, run or job between two moments, by part, task and attempt.

    A moment is an offset, a time with its zone, or a duration ago, such as 10m.

    \b
    Examples:
      trackside replay diff digits-1 --from 120 --to 160
      trackside replay diff digits-1 --from 2026-01-31T12:00:00Z
      trackside replay diff digits-1 --from 5m --json
    """
    from trackside.cli.commands.replay import show

    show.diff(stream_id, from_, to, as_json)


def why(
    stream_id: StreamArgument,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="SUBJECT",
            help="Number of a trial, version or round, name of a step, id of a task, of an attempt (TASK/N) "
            "or of a command, or an offset (@N).",
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Show the chain of causes of a trial, step, round, task, attempt, command or version of a model.

    Each line is an event with its offset, its time, the service that wrote it and the offset of its cause.
    Events without effect, because they came too late or twice, are marked. For a version of a model, what led
    to the attempt that has trained it comes first; so does what happened in the stream of a step's child.

    \b
    Examples:
      trackside replay why digits-1 7
      trackside replay why digits-1 7/2          (its second attempt)
      trackside replay why digits-1 digits-1-start --json
      trackside replay why digits 3              (version 3 of a model)
      trackside replay why nightly train         (a step of a run)
      trackside replay why digits-job 'round 3'  (a round of an incremental job; 3 alone, too)
    """
    from trackside.cli.commands.replay import why

    why.why(stream_id, subject, as_json)


def rebuild(
    swap: Annotated[
        bool, typer.Option("--swap", help="Replace the live read models with the rebuilt ones.")
    ] = False,
    processes: ProcessesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rebuild every read model from the first record of the log and compare it with the live one.

    The rebuilt rows are in a schema of their own, which is dropped at the end, or takes the place of the live
    one with --swap: queries are answered meanwhile, and records written during the rebuild are included. Exit
    1 if a row or a position differs; its table, key and column are printed.

    \b
    Examples:
      trackside replay rebuild
      trackside replay rebuild --swap
    """
    from trackside.cli.commands.replay import rebuild

    rebuild.rebuild(processes, swap=swap, as_json=as_json)


def whatif(
    stream_id: StreamArgument,
    assessor: whatif_options.AssessorOption = None,
    workers: WorkersOption = None,
    slots: SlotsOption = 1,
    policy: whatif_options.PolicyOption = None,
    concurrency: whatif_options.TrialsAtOnceOption = None,
    on_end: OnEndOption = None,
    at: AtOption = "now",
    plot: whatif_options.PlotOption = None,
    threshold: whatif_options.ThresholdOption = None,
    metric: whatif_options.MetricOption = "",
    deploy_trigger: whatif_options.DeployTriggerOption = None,
    train_threshold: whatif_options.TrainThresholdOption = None,
    train_prob: whatif_options.TrainProbOption = None,
    picture: whatif_options.PictureOption = None,
    as_json: JsonOption = False,
) -> None:
    """Re-evaluate a recorded search, run or incremental job with another rule, fleet size, order or trigger.

    Every given assessor is combined with every fleet and order, and compared in makespan, device time and
    best value. The recorded reports are replayed in virtual time: no task runs, nothing is written.

    Of a run, the recorded durations and results are replayed: makespan, device use and critical path with
    another fleet, limit or order, or with another action after steps that fail.

    Of an incremental job, the recorded rounds are evaluated with other triggers, each value combined with
    each of the others: which rounds train and deploy, the device time, and which model is live when. What
    was never trained or evaluated is unknown.

    \b
    Examples:
      trackside replay whatif digits-1 --assessor median --assessor asha
      trackside replay whatif digits-1 --assessor median:n_warmup_steps=5 --plot whatif.html
      trackside replay whatif digits-1 --workers 1 --workers 4 --slots 2 --concurrency 8 --json
      trackside replay whatif nightly-7 --workers 2 --workers 8 --on-end continue
      trackside replay whatif digits --threshold 0.02 --threshold 0.05 --picture whatif.svg
      trackside replay whatif digits --train-threshold 200 --train-prob 0.9 --json
    """
    from trackside.cli.commands.replay import whatif, whatif_job
    from trackside.cli.render.picture_files import picture_form

    whatif.check_plots(plot or [])
    if picture is not None:
        picture_form(picture)
    triggers = whatif_job.TriggerOptions(
        threshold or (), metric, deploy_trigger or (), train_threshold or (), train_prob or (), picture
    )
    options = whatif.WhatIfOptions(
        assessor or (), workers or (), slots, policy or (), concurrency, on_end or (), plot or (), triggers
    )
    whatif.whatif(stream_id, at, options, as_json)


def dry_run(
    spec: Annotated[Path, typer.Argument(metavar="FILE", help="Spec file of a pipeline.")],
    durations: Annotated[
        list[str] | None,
        typer.Option("--durations", metavar="STEP=SECONDS,...", help="How long steps take; may be repeated."),
    ] = None,
    like: Annotated[
        str,
        typer.Option("--like", metavar="RUN", help="Recorded run whose durations other steps take."),
    ] = "",
    workers: WorkersOption = None,
    slots: SlotsOption = 1,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency", min=1, max=10_000, metavar="N", help="Tasks at once; else as the spec says."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a pipeline and predict how long a run of it takes, with its critical path. Nothing is started.

    The dispatcher's own code decides which steps begin, in virtual time. Durations are given by step, in
    seconds, or are the medians of a recorded run. Without workers there is a device for each task.

    \b
    Examples:
      trackside replay dry-run pipeline.yaml --durations prepare=10,train=600
      trackside replay dry-run pipeline.yaml --like nightly-7 --workers 1 --workers 4 --slots 2
    """
    from trackside.cli.commands.replay import whatif, whatif_run

    options = whatif.WhatIfOptions(workers=workers or (), slots=slots, concurrency=concurrency)
    whatif_run.dry(spec, durations or (), like, options.of_run(), as_json)


@publishes
def rerun(
    publishing: "Publishing",
    stream_id: StreamArgument,
    new_id: NewIdOption = "",
    at: AtOption = "now",
    no_assessor: Annotated[
        bool, typer.Option("--no-assessor", help="Run every trial to its end, without early stopping.")
    ] = False,
    wait: WaitOption = False,
) -> None:
    """Run the trials of a recorded search again as a new search, or the steps of a run as a new run.

    Parameters, order and seed are the same, no tuner is used. What is recorded is not changed. With --wait
    two searches are compared trial by trial at the end; `trackside replay compare OLD NEW` does so at any
    time.

    \b
    Examples:
      trackside replay rerun digits-1 --id digits-1-again --wait
      trackside replay rerun imported/digits-1 --no-assessor
      trackside replay rerun nightly-7 --id nightly-7-again
    """
    from trackside.cli.commands.replay import rerun

    started = rerun.Submission(new_id, wait, publishing)
    rerun.rerun(stream_id, at, started, no_assessor=no_assessor)


@publishes
def fork(
    publishing: "Publishing",
    stream_id: StreamArgument,
    new_id: NewIdOption = "",
    at: AtOption = "now",
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE,...",
            help="New value of a field, such as tuner.name=gp, of a step or of a parameter of a run.",
        ),
    ] = None,
    wait: WaitOption = False,
) -> None:
    """Start a new search, run or incremental job that continues a recorded one from an earlier moment.

    Trials that ended with a value are copied, and its tuner learns from them; trials that had not ended run
    first. `max_trials` includes the copied ones: raise it to continue a search that is done.

    Of a run, steps that had succeeded by then are taken over with their results and artifacts, and are not
    run again, unless they are changed or come after a step that runs. The moment may be a step: its end.

    A job begins with the model that was live, and with the first sample that no round had used. It writes to
    a folder of its own below the output, and copies its models to no file unless one is set.

    \b
    Examples:
      trackside replay fork digits-1 --set max_trials=24 --wait
      trackside replay fork digits-1 --at 120 --set tuner.name=gp --id digits-by-gp
      trackside replay fork digits-1 --at 10m --set concurrency=4,assessor.name=asha
      trackside replay fork nightly-7 --at prepare --set train.parameters.lr=0.01,pipeline.epochs=5
      trackside replay fork digits --id digits-2 --set deploy.trigger.threshold=0.05,output.url=/data/digits-2
    """
    from trackside.cli.commands.replay import rerun

    submission = rerun.Submission(new_id, wait, publishing)
    rerun.fork(stream_id, at, changes or [], submission)


def compare(
    old: Annotated[str, typer.Argument(metavar="OLD", help="Id of a search.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Id of the search to compare it with.")],
    as_json: JsonOption = False,
) -> None:
    """Compare two searches trial by trial: their values and by how much they differ.

    \b
    Examples:
      trackside replay compare digits-1 digits-1-again
      trackside replay compare digits-1 digits-1-again --json
    """
    from trackside.cli.commands.replay import rerun

    rerun.compare(old, new, as_json)
