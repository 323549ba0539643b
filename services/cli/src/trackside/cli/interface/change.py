"""Commands that change a search or a run while it goes on: `pause`, `update`, `add-trial` and the like."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trackside.cli.interface.options import JsonOption, ReasonOption, SearchArgument, TimeoutOption
from trackside.cli.interface.publishing_options import publishes

if TYPE_CHECKING:
    from trackside.cli.commands.publishing import Publishing

DeviceArgument = Annotated[
    str,
    typer.Argument(
        metavar="WORKER[/DEVICE]",
        help="Name of the device, as `trackside devices` lists it; without DEVICE, all of the worker's.",
    ),
]
PausedArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the search, run or job.")]


@publishes
def update(
    publishing: "Publishing",
    stream_id: SearchArgument,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", help="New number of trials at once; running trials continue.")
    ] = None,
    max_trials: Annotated[int | None, typer.Option(metavar="N", help="New number of trials in all.")] = None,
    max_duration: Annotated[
        str, typer.Option(metavar="TIME", help="New limit of the running time: 90, 10m, 2h, 1d.")
    ] = "",
    max_trial_duration: Annotated[
        str, typer.Option(metavar="TIME", help="New limit of each trial's running time: 90, 10m, 2h, 1d.")
    ] = "",
    goal: Annotated[
        float | None, typer.Option(metavar="VALUE", help="Value at which the search is done.")
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(metavar="LIMIT", help="Limit to remove, such as goal; may be repeated."),
    ] = None,
) -> None:
    """Change the limits of a running search; limits that are not given stay as they are.

    \b
    Examples:
      trackside update digits-1 --concurrency 8
      trackside update digits-1 --max-trials 500 --max-duration 2h
      trackside update digits-1 --remove goal
    """
    from trackside.cli.commands import change

    limits = {
        "concurrency": concurrency,
        "max_trials": max_trials,
        "max_duration_s": change.seconds(max_duration),
        "max_trial_duration_s": change.seconds(max_trial_duration),
        "goal": goal,
    }
    change.update(stream_id, limits, remove or [], publishing)


@publishes
def update_space(
    publishing: "Publishing",
    stream_id: SearchArgument,
    file: Annotated[
        Path, typer.Argument(metavar="SPACE", help="JSON or YAML file of the new space; NNI's format too.")
    ],
) -> None:
    """Replace the space of a search from the next suggestion on; running trials continue.

    The file holds the parameters of the space, or a mapping with `space`, such as the spec of a search.

    \b
    Examples:
      trackside update-space digits-1 space.yaml
    """
    from trackside.cli.commands import change

    change.update_space(stream_id, file, publishing)


@publishes
def request_trials(
    publishing: "Publishing",
    stream_id: SearchArgument,
    count: Annotated[int, typer.Argument(metavar="COUNT", help="Number of trials to start.")],
) -> None:
    """Start more trials of a search now, once, in addition to its concurrency.

    \b
    Examples:
      trackside request-trials digits-1 3
    """
    from trackside.cli.commands import change

    change.request_trials(stream_id, count, publishing)


@publishes
def add_trial(
    publishing: "Publishing",
    stream_id: SearchArgument,
    parameters: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE...", help="Parameters of the trial; a value is JSON, else text."),
    ],
    tell_tuner: Annotated[
        bool, typer.Option("--tell-tuner", help="Let the tuner learn from the trial's result.")
    ] = False,
    outside: Annotated[
        bool,
        typer.Option(
            "--outside", help="Accept values outside of the space; the trial is never the best one."
        ),
    ] = False,
) -> None:
    """Run a trial of your own parameters next; the tuner draws those that you leave out.

    \b
    Examples:
      trackside add-trial digits-1 lr=0.01 hidden=64 optimizer=adam
      trackside add-trial digits-1 lr=0.01 'layer={"_name": "conv", "kernel": 3}' --tell-tuner
    """
    from trackside.cli.commands import change

    change.add_trial(stream_id, parameters, publishing, tell_tuner=tell_tuner, outside=outside)


@publishes
def import_trials(
    publishing: "Publishing",
    stream_id: SearchArgument,
    file: Annotated[
        Path,
        typer.Argument(metavar="TRIALS", help="CSV, JSON or YAML file of trials; NNI's export format too."),
    ],
) -> None:
    """Add known trials, each with its parameters and value, to what the tuner of a search learns from.

    \b
    Examples:
      trackside import-trials digits-2 trials.json
      trackside import-trials digits-2 trials.csv
    """
    from trackside.cli.commands import trials

    trials.import_trials(stream_id, file, publishing)


@publishes
def pause(
    publishing: "Publishing",
    stream_id: PausedArgument,
    give_back: Annotated[
        bool,
        typer.Option(
            "--return",
            help="Stop the running trials or tasks too, free their devices, and start them again on resume.",
        ),
    ] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, written to the log.")] = "",
) -> None:
    """Start nothing new of a search, a run or an incremental job until it is resumed; what runs continues.

    \b
    Examples:
      trackside pause digits-1
      trackside pause digits-1 --return --reason "the machine is needed"
    """
    from trackside.cli.commands import change

    change.pause(stream_id, reason, publishing, give_back=give_back)


@publishes
def resume(
    publishing: "Publishing",
    stream_id: PausedArgument,
) -> None:
    """Resume a paused search, run, incremental job or dataset.

    \b
    Examples:
      trackside resume digits-1
    """
    from trackside.cli.commands import change

    change.resume(stream_id, publishing)


@publishes
def stop_trial(
    publishing: "Publishing",
    stream_id: SearchArgument,
    trial: Annotated[int, typer.Argument(metavar="TRIAL", help="Number of the trial.")],
) -> None:
    """Stop one trial of a search; the search continues.

    \b
    Examples:
      trackside stop-trial digits-1 7
    """
    from trackside.cli.commands import change

    change.stop_trial(stream_id, trial, publishing)


@publishes
def instruct(
    publishing: "Publishing",
    stream_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the search or batch.")],
    task_id: Annotated[
        str, typer.Argument(metavar="TASK", help="Id of the task, such as serve.1.digits or just 1.digits.")
    ],
    body: Annotated[
        str, typer.Argument(metavar="BODY", help="A JSON object: a file, - for standard input, or itself.")
    ] = "{}",
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=REF",
            help="Add the whole reference of an artifact to the body: REF is as in the inputs of a spec, "
            "such as model:digits@2. May be repeated.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the task has acknowledged it; exit 1 if it refused.")
    ] = False,
) -> None:
    """Send an instruction to a running task; it replaces the one before.

    \b
    Examples:
      trackside instruct serve 1.digits --input model=model:digits@2 --wait
      trackside instruct serve 1.digits '{"threshold": 0.5}'
      trackside instruct serve serve.1.digits instruction.json
    """
    from trackside.cli.commands import instruct as command

    command.instruct(stream_id, task_id, body, inputs or [], publishing, wait=wait)


@publishes
def drain(publishing: "Publishing", device: DeviceArgument, reason: ReasonOption = "") -> None:
    """Place no new tasks on a device, or on all devices of a worker; tasks that run there end normally.

    A device stays drained until `trackside resume-device`, also if its worker or the scheduler starts again.
    Tasks that only this device could run wait.

    \b
    Examples:
      trackside drain worker/gpu-0 --reason "new fan"
      trackside drain worker --reason "the host is moved"
    """
    from trackside.cli.commands import change

    change.drain(device, reason, publishing)


@publishes
def resume_device(publishing: "Publishing", device: DeviceArgument) -> None:
    """Place tasks on a drained device, or on all devices of a worker, again.

    \b
    Examples:
      trackside resume-device worker/gpu-0
      trackside resume-device worker
    """
    from trackside.cli.commands import change

    change.resume_device(device, publishing)


@publishes
def annotate(
    publishing: "Publishing",
    stream_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the stream: of a search, a run, a model or another.")
    ],
    add_tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Tag to add; may be repeated.")
    ] = None,
    remove_tags: Annotated[
        list[str] | None, typer.Option("--untag", metavar="TAG", help="Tag to remove; may be repeated.")
    ] = None,
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="Replace the note; an empty TEXT removes it.")
    ] = None,
    archived: Annotated[
        bool | None,
        typer.Option("--archive/--unarchive", help="Leave it out of lists, or list it again."),
    ] = None,
) -> None:
    """Change the tags and the note of a stream, or archive it; what is not given stays as it is.

    A stream that has ended can be annotated too. Archiving only leaves it out of lists: it does not stop what
    runs and deletes nothing.

    \b
    Examples:
      trackside annotate digits-1 --tag baseline --tag paper --note "For table 2"
      trackside annotate digits-1 --untag paper
      trackside annotate digits-1 --archive
    """
    from trackside.cli.commands import change

    change.annotate(stream_id, add_tags or [], remove_tags or [], note, archived, publishing)


def ping(
    stream_id: Annotated[
        str, typer.Argument(metavar="ID", help="Any id; it selects the partition.")
    ] = "ping",
    timeout_s: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Measure the time until a dispatcher answers; exit 1 if none does.

    \b
    Examples:
      trackside ping --timeout 5
    """
    from trackside.cli.commands import change

    change.ping(stream_id, timeout_s, as_json=as_json)
