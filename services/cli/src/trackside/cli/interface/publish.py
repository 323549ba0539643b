"""Commands that publish: `submit`, `publish`, `stop`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trackside.cli.interface.options import EncryptedOption, NoCacheOption, ReasonOption
from trackside.cli.interface.publishing_options import publishes

if TYPE_CHECKING:
    from trackside.cli.commands.publishing import Publishing


@publishes
def submit(
    publishing: "Publishing",
    spec: Annotated[
        Path,
        typer.Argument(
            metavar="SPEC.yaml", help="Spec of a search, of a pipeline, of tasks in groups, or of one task."
        ),
    ],
    stream_id: Annotated[
        str, typer.Option("--id", metavar="ID", help="Id of the search, run or batch; without it a new one.")
    ] = "",
    past: Annotated[
        Path | None,
        typer.Option(
            "--past", metavar="TRIALS", help="CSV or JSON file of known trials that the tuner learns from."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the pipeline; a value is JSON, else text. May be repeated.",
        ),
    ] = None,
    no_cache: NoCacheOption = False,
    encrypted: EncryptedOption = False,
    wait: Annotated[bool, typer.Option("--wait", help="Show the progress and wait for the end.")] = False,
) -> None:
    """Submit a search, a pipeline, tasks in groups, or one task, and print whether it was accepted.

    An input of the spec may be STREAM/TASK/NAME, model:NAME, either with @VERSION, or a path such as
    ./digits.csv, which is saved in the store. What it refers to is looked up, and printed, before the command
    is published.

    Until Kafka confirms it, it is published again under the same id, for --timeout seconds. If that was not
    enough, the id is printed: the same command with --command-id publishes it again, with one effect.

    Exit 0 if it was accepted (with --wait: if it is done), 1 without an answer (with --wait: if it failed or
    one of its tasks did not finish), 2 for a bad spec or if it was refused.

    \b
    Examples:
      trackside submit search.yaml
      trackside submit search.yaml --id digits-1 --wait
      trackside submit search.yaml --past trials.csv
      trackside submit search.yaml --command-id nightly-2026-11-22
      trackside submit tasks.yaml --wait
      trackside submit patients.yaml --encrypted
    """
    from functools import partial

    from trackside.cli.commands import runs, submit

    changes = [] if past is None else [partial(submit.with_past_trials, past)]
    if set_:
        changes.append(partial(runs.with_parameters, set_))
    if no_cache:
        changes.append(partial(runs.without_cache))
    submit.submit(spec, stream_id, changes, publishing.encrypting(encrypted), wait=wait)


@publishes
def publish(
    publishing: "Publishing",
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="File of JSON or JSON lines; `-` reads standard input."),
    ],
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end of each search and batch that was accepted.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(
            "--key",
            metavar="FILE",
            help="Sign the commands with this Ed25519 private key; the file's name is the key's id.",
        ),
    ] = None,
) -> None:
    """Publish commands from a file unchanged and print their answers.

    FILE is a CloudEvent in structured JSON, or {"type": ..., "stream": ..., "data": {...}}, or several of
    them, one a line. The whole file is read before the first command is published, in the order of the
    lines. Publishing a command twice with the same `id` has the effect of once.

    Exit 0 if all were accepted (with --wait: and ended well), 1 if one was not published or got no answer, 2
    if one was refused, or if the file is bad and nothing was published.

    \b
    Examples:
      trackside publish start.json --wait
      echo '{"type": "trackside.stop-search.v1", "stream": "digits-1", "data": {}}' | trackside publish -
      jq -c '.searches[]' plan.json | trackside publish - --json
    """
    from trackside.cli.commands import publish

    publish.publish(file, key, publishing, wait=wait)


@publishes
def stop(
    publishing: "Publishing",
    stream_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the search, run, batch or job.")],
    step: Annotated[str, typer.Argument(metavar="[STEP]", help="Stop only this step of a run.")] = "",
    index: Annotated[
        int | None, typer.Option("--index", min=0, metavar="N", help="Stop only this item of the step.")
    ] = None,
    task: Annotated[str, typer.Option("--task", metavar="NAME", help="Stop only this task of a batch.")] = "",
    trial: Annotated[
        int | None, typer.Option("--trial", metavar="N", help="Stop only this trial of a search.")
    ] = None,
    reason: ReasonOption = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until none of its tasks runs any more.")] = False,
) -> None:
    """Stop a search, a run or a batch, or a part of it, or delete an incremental job: what runs is ended.

    \b
    Examples:
      trackside stop digits-1
      trackside stop digits-1 --trial 7
      trackside stop digits-1 --reason "good enough" --wait
      trackside stop compare-1 --task small
      trackside stop nightly-1 training
      trackside stop nightly-1 training --index 7
    """
    from trackside.cli.commands import change, runs, submit

    if trial is not None:
        change.stop_trial(stream_id, trial, publishing)
    elif index is not None:
        runs.abort_item(stream_id, step, index, reason, publishing)
    else:
        submit.stop(stream_id, step or task, reason, publishing, wait=wait)
