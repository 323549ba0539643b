"""Commands to start with: `up`, `down`, `status`, `demo`, `init`."""

from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.interface.options import JsonOption

SLOTS = 2


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder to write into; it is created if it is missing.")
    ] = Path(),
) -> None:
    """Write the files of a first search: train.py, catalogue.yaml and search.yaml.

    The example fits a curve with NumPy and runs as it is; put your own training into train.py. Existing
    files are never overwritten: if one of the three is there, nothing is written and the exit code is 1.

    \b
    Examples:
      trackside init
      trackside init my-search
    """
    from trackside.cli.commands import init

    init.init(folder)


def up(
    catalogue: Annotated[
        Path | None,
        typer.Option(
            "--catalogue",
            metavar="FILE",
            help="Catalogue of the worker's tasks; without it ./catalogue.yaml, else that of an example.",
        ),
    ] = None,
    slots: Annotated[
        int, typer.Option("--slots", min=1, max=256, metavar="N", help="Number of tasks that share the CPU.")
    ] = SLOTS,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Run until Ctrl-C, which stops the whole stack.")
    ] = False,
    secure: Annotated[
        bool,
        typer.Option("--secure", help="Let Kafka take only users with a password, over TLS."),
    ] = False,
    dashboards: Annotated[
        bool,
        typer.Option("--dashboards", help="Run Prometheus and Grafana too, or write what they need."),
    ] = False,
    leash: Annotated[
        Path | None,
        typer.Option("--leash", hidden=True, help="Stop the stack when no process holds this pipe open."),
    ] = None,
) -> None:
    """Start the stack of this folder: Kafka, Postgres and the services.

    Its data is in ./.trackside and stays when the stack stops. Without a catalogue the worker runs the tasks
    of the example search. The first start downloads Kafka; later ones take seconds. Where
    TRACKSIDE_KAFKA_BOOTSTRAP or TRACKSIDE_POSTGRES_DSN is set, that server is used and none is started.

    With --secure the first start makes an authority, certificates, and a password for each service and user,
    in ./.trackside/secure. Commands in this folder use them. A stack that was started so stays so.

    With --dashboards Prometheus and Grafana are started where their programs are on PATH, or in the folders
    TRACKSIDE_PROMETHEUS_HOME and TRACKSIDE_GRAFANA_HOME, also for a stack that runs already. For one that is
    missing, the command that runs it in a container is printed. What they need is in ./.trackside/dashboards.

    \b
    Examples:
      trackside up
      trackside up --secure
      trackside up --dashboards
      trackside up --catalogue my-tasks/catalogue.yaml --slots 4
      trackside up --foreground
    """
    from trackside.cli.commands import stack

    stack.up(catalogue, slots, foreground, dashboards, leash, secure)


def down() -> None:
    """Stop the stack of this folder; its data stays.

    \b
    Examples:
      trackside down
    """
    from trackside.cli.commands import stack

    stack.down()


def restart(
    services: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SERVICE]...", help="Services to restart; all if none is named."),
    ] = None,
) -> None:
    """Restart the services of the stack of this folder, one after the other, as after an upgrade.

    Tasks run on: the worker hands them over to its next process. Kafka and Postgres are not restarted.

    \b
    Examples:
      trackside restart
      trackside restart worker
    """
    from trackside.cli.commands import restart

    restart.restart(services or [])


def status(as_json: JsonOption = False) -> None:
    """Show the processes of the stack with their readiness and lag, the devices and the queue.

    Exit 1 if a process is not ready or no stack runs.

    \b
    Examples:
      trackside status
      trackside status --json
    """
    from trackside.cli.commands import status as showing

    showing.status(as_json)


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack running at the end.")] = False,
) -> None:
    """Run the example search end to end: start the stack, search, show the best trials, replay the log.

    Trains a small network on scikit-learn's digits, 20 trials, 2 at a time; without torch and scikit-learn
    it fits a curve with NumPy instead. A stack that already runs is used and left running. Exit 0 if the
    search is done and the read models rebuilt from the log equal the live ones.

    \b
    Examples:
      trackside demo
      trackside demo --keep
    """
    from trackside.cli import demo

    demo.demo(keep)
