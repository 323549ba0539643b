"""The command `trackside`: its sub-commands, and how what goes wrong becomes an exit code."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence

import typer

from trackside.cli import demo
from trackside.cli.commands import change as changing
from trackside.cli.commands import estimates as estimating
from trackside.cli.commands import importances as weighing
from trackside.cli.commands import logs, services
from trackside.cli.commands import mail as mailing
from trackside.cli.commands import publish as publishing
from trackside.cli.commands import show as reading
from trackside.cli.commands import simulate as simulating
from trackside.cli.commands import stack as stacking
from trackside.cli.commands import submit as submitting
from trackside.cli.commands import tasks as listing
from trackside.cli.commands import trials as trading
from trackside.cli.commands import verify as verifying
from trackside.cli.commands import watch as looking
from trackside.cli.commands.replay import app as replaying
from trackside.cli.render import screen
from trackside.cli.runtime.run import INTERRUPTED, explained
from trackside.telemetry.logs import configure_logs

START = "Start and stop"
PUBLISH = "Publish"
CHANGE = "Change a running search"
LOOK = "Look"
LOG = "The log"
SERVE = "Services"

app = typer.Typer(
    name="trackside",
    help="Searches and tasks whose whole life is a log. Exit 0 done, 1 failed, 2 bad usage or refused.",
    epilog="Begin with `trackside demo`, or with `trackside up` and `trackside submit SPEC.yaml`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: Mapping[str, Mapping[str, Callable[..., None]]] = {
    START: {"up": stacking.up, "down": stacking.down, "status": stacking.status, "demo": demo.demo},
    PUBLISH: {"submit": submitting.submit, "publish": publishing.publish, "stop": submitting.stop},
    CHANGE: {
        "pause": changing.pause,
        "resume": changing.resume,
        "update": changing.update,
        "update-space": changing.update_space,
        "request-trials": changing.request_trials,
        "add-trial": changing.add_trial,
        "import-trials": trading.import_trials,
        "stop-trial": changing.stop_trial,
        "ping": changing.ping,
    },
    LOOK: {
        "ls": reading.ls,
        "export-trials": trading.export_trials,
        "importances": weighing.importances,
        "show": reading.show,
        "watch": looking.watch,
        "tasks": listing.tasks,
        "devices": listing.devices,
        "estimates": estimating.estimates,
        "report": listing.report,
        "mail": mailing.mail,
        "logs": logs.logs,
        "dead-letters": reading.dead_letters,
    },
    LOG: {
        "events": looking.events,
        "schemas": looking.schemas,
        "verify-log": verifying.verify_log,
        "simulate": simulating.simulate,
    },
    SERVE: {
        "dispatcher": services.dispatcher,
        "scheduler": services.scheduler,
        "worker": services.worker,
        "summary-indexer": services.summary_indexer,
    },
}
for _panel, _commands in COMMANDS.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_panel)(_command)
app.add_typer(replaying.replay, name="replay", rich_help_panel=LOG)


def call(arguments: Sequence[str]) -> int:
    """Runs one command and gives its exit code; logs go to stderr, and only what is wrong."""
    return _written(_called(arguments))


def _written(code: int) -> int:
    """Gives the exit code behind the last byte of output: on a full disk a command has failed."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if code == 0 and not isinstance(error, BrokenPipeError):
            screen.complain(f"trackside: {explained(error) or error}")
            code = 1
        # What is left in the buffer would be tried again, and complained about, when Python ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return code


def _called(arguments: Sequence[str]) -> int:
    configure_logs(json_logs=False, level="error")
    try:
        app(args=list(arguments), prog_name="trackside")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except KeyboardInterrupt:
        screen.complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return 0
    except Exception as error:
        failure = explained(error)
        if failure is None:
            raise
        if str(failure):
            screen.complain(f"trackside: {failure}")
        return failure.exit_code
    return 0


def main() -> None:
    """Runs the command of this process."""
    sys.exit(call(sys.argv[1:]))
