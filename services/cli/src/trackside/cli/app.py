"""The command `trackside`: its sub-commands, and how errors become exit codes.

Nothing but typer is imported before a command runs: the functions of `interface` import what they need in
their bodies, so that `--help` and shell completion are fast.
"""

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from trackside.cli.interface import (
    artifacts,
    backups,
    change,
    convert,
    datasets,
    forgetting,
    inspect,
    log,
    models,
    pipelines,
    publish,
    repairing,
    replay,
    rounds,
    runs,
    services,
    setup,
    setup_keys,
    stack,
    summaries,
    summary_changes,
    summary_directories,
    transfer,
)
from trackside.cli.interface.help_text import help_text
from trackside.cli.runtime.failures import CommandFailed

START = "Start and stop"
PUBLISH = "Publish"
CHANGE = "Change what runs"
RUNS = "Continue and decide runs of pipelines"
ROUNDS = "Incremental jobs"
INSPECT = "Inspect"
LOG = "The log"
SERVE = "Services"
INTERRUPTED = 130
ALLOCATIONS = 200_000
"""Of so many new objects the garbage collector traverses those at once: what is imported is none."""

COMMANDS: Mapping[str, Mapping[str, Callable[..., None]]] = {
    START: {
        "init": stack.init,
        "up": stack.up,
        "down": stack.down,
        "restart": stack.restart,
        "status": stack.status,
        "demo": stack.demo,
    },
    PUBLISH: {"submit": publish.submit, "publish": publish.publish, "stop": publish.stop},
    CHANGE: {
        "pause": change.pause,
        "resume": change.resume,
        "update": change.update,
        "update-space": change.update_space,
        "request-trials": change.request_trials,
        "add-trial": change.add_trial,
        "import-trials": change.import_trials,
        "stop-trial": change.stop_trial,
        "instruct": change.instruct,
        "annotate": change.annotate,
        "drain": change.drain,
        "resume-device": change.resume_device,
        "repair": repairing.repair,
        "forget": forgetting.forget,
        "ping": change.ping,
    },
    RUNS: {
        "retry-failed": runs.retry_failed,
        "restart-from": runs.restart_from,
        "skip": runs.skip,
        "approve": runs.approve,
        "reject": runs.reject,
        "archive": runs.archive,
    },
    ROUNDS: {
        "rounds": rounds.rounds,
        "fire": rounds.fire,
        "rollback": rounds.rollback,
        "update-job": rounds.update_job,
    },
    INSPECT: {
        "ls": inspect.ls,
        "show": inspect.show,
        "watch": inspect.watch,
        "graph": inspect.graph,
        "report": inspect.report,
        "tasks": inspect.tasks,
        "logs": inspect.logs,
        "devices": inspect.devices,
        "estimates": inspect.estimates,
        "importances": inspect.importances,
        "export-trials": inspect.export_trials,
        "mail": inspect.mail,
        "dead-letters": inspect.dead_letters,
    },
    LOG: {
        "backup": backups.backup,
        "restore": backups.restore,
        "clone": backups.clone,
        "upgrade": backups.upgrade,
        "events": log.events,
        "schemas": log.schemas,
        "verify-log": log.verify_log,
        "simulate": log.simulate,
    },
    SERVE: {
        "dispatcher": services.dispatcher,
        "scheduler": services.scheduler,
        "worker": services.worker,
        "summary-indexer": services.summary_indexer,
        "console": services.console,
    },
}
REPLAY_COMMANDS: Mapping[str, Callable[..., None]] = {
    "show": replay.show,
    "diff": replay.diff,
    "why": replay.why,
    "export": transfer.export_stream,
    "import": transfer.import_stream,
    "rebuild": replay.rebuild,
    "whatif": replay.whatif,
    "dry-run": replay.dry_run,
    "rerun": replay.rerun,
    "compare": replay.compare,
    "fork": replay.fork,
}
DATASET_COMMANDS: Mapping[str, Callable[..., None]] = {
    "ls": datasets.ls,
    "show": datasets.show,
    "pause": datasets.pause,
    "resume": datasets.resume,
    "delete": datasets.delete,
}
MODEL_COMMANDS: Mapping[str, Callable[..., None]] = {
    "ls": models.ls,
    "show": models.show,
    "history": models.history,
    "why": models.why,
    "register": models.register,
    "add": models.add,
    "tag": models.tag,
    "stage": models.stage,
    "archive": models.archive,
    "restore": models.restore,
}
PIPELINE_COMMANDS: Mapping[str, Callable[..., None]] = {
    "ls": pipelines.ls,
    "show": pipelines.show,
    "define": pipelines.define,
    "run": pipelines.run,
    "cancel": pipelines.cancel,
    "retire": pipelines.retire,
}
SCHEDULE_COMMANDS: Mapping[str, Callable[..., None]] = {
    "ls": pipelines.schedules_ls,
    "set": pipelines.schedules_set,
    "pause": pipelines.schedules_pause,
    "resume": pipelines.schedules_resume,
    "fire": pipelines.schedules_fire,
    "delete": pipelines.schedules_delete,
}

SUMMARY_COMMANDS: Mapping[str, Callable[..., None]] = {
    "import": summary_directories.import_directory,
    "watch": summary_directories.watch,
    "ls": summaries.ls,
    "show": summaries.show,
    "tags": summaries.tags,
    "scalars": summaries.scalars,
    "images": summaries.images,
    "histograms": summaries.histograms,
    "tensors": summaries.tensors,
    "text": summaries.text,
    "graph": summaries.graph,
    "values": summaries.other,
    "search": summaries.search,
    "lineage": summaries.lineage,
    "annotate": summary_changes.annotate,
    "delete": summary_changes.delete,
    "restore": summary_changes.restore,
    "retry": summary_changes.retry,
    "cache": summary_changes.cache,
    "export": summary_changes.export,
}
SETUP_COMMANDS: Mapping[str, Callable[..., None]] = {
    "acls": setup.acls,
    "passwords": setup.passwords,
    "keys": setup_keys.keys,
}
CONVERT_COMMANDS: Mapping[str, Callable[..., None]] = {"sedna": convert.sedna}
ARTIFACT_COMMANDS: Mapping[str, Callable[..., None]] = {
    "ls": artifacts.ls,
    "show": artifacts.show,
    "get": artifacts.get,
    "put": artifacts.put,
    "verify": artifacts.verify,
    "gc": artifacts.gc,
}


class LoggingCommand(TyperCommand):
    """A command that sets up logging when it runs, not when its help is printed: only errors, on stderr.

    It names misspelt variables first.
    """

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        from trackside.eventlog.settings.variables import warn_of_unknown_variables
        from trackside.telemetry.logs import configure_logs

        configure_logs(json_logs=False, level="error")
        warn_of_unknown_variables()
        return super().invoke(ctx)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"trackside {version('trackside')}\n")
        raise typer.Exit


def trackside(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Run hyper-parameter searches, pipelines and batches of tasks; every step is an event in Kafka.

    Exit codes: 0 done, 1 failed, 2 bad usage or refused, 130 interrupted. For completion of commands and
    options in your shell, run `trackside --install-completion` once.
    """


def make_app() -> typer.Typer:
    """Makes the command with all its sub-commands."""
    settings = {"help_option_names": ["-h", "--help"]}
    made = typer.Typer(
        name="trackside",
        epilog="Start with `trackside demo`, or with `trackside init`, `up` and `submit`.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings=settings,
    )
    made.callback(help=help_text(trackside))(trackside)
    for panel, commands in COMMANDS.items():
        for name, command in commands.items():
            made.command(name, cls=LoggingCommand, help=help_text(command), rich_help_panel=panel)(command)
    said = "Read the log again: past states, causes, copies, rebuilt read models, searches run again."
    made.add_typer(_group(said, REPLAY_COMMANDS), name="replay", rich_help_panel=LOG)
    said = "Find, copy, check and delete the files that tasks have saved."
    made.add_typer(_group(said, ARTIFACT_COMMANDS), name="artifacts", rich_help_panel=INSPECT)
    said = "Curves, images and other values of tasks, and of directories with event files."
    made.add_typer(_group(said, SUMMARY_COMMANDS), name="summaries", rich_help_panel=INSPECT)
    said = "Files that grow at their end: how far each was observed, and what stops that."
    made.add_typer(_group(said, DATASET_COMMANDS), name="datasets", rich_help_panel=INSPECT)
    said = "Versions of trained weights: add them, find them, see where they come from, say which is in use."
    made.add_typer(_group(said, MODEL_COMMANDS), name="models", rich_help_panel=INSPECT)
    said = "Pipelines that are defined by name: their versions, and numbered runs of them."
    made.add_typer(_group(said, PIPELINE_COMMANDS), name="pipelines", rich_help_panel=PUBLISH)
    said = "Turn specifications of other systems into files for `submit`."
    made.add_typer(_group(said, CONVERT_COMMANDS), name="convert", rich_help_panel=PUBLISH)
    said = "Prepare a cluster of your own: who may do what with which topic."
    made.add_typer(_group(said, SETUP_COMMANDS), name="setup", rich_help_panel=SERVE)
    said = "Times at which runs of pipelines begin by themselves."
    made.add_typer(_group(said, SCHEDULE_COMMANDS), name="schedules", rich_help_panel=PUBLISH)
    return made


def _group(said: str, commands: Mapping[str, Callable[..., None]]) -> typer.Typer:
    """Makes a command that has sub-commands of its own."""
    made = typer.Typer(help=said, no_args_is_help=True)
    for name, command in commands.items():
        made.command(name, cls=LoggingCommand, help=help_text(command))(command)
    return made


app = make_app()


@cache
def _command() -> Any:
    return typer.main.get_command(app)


def call(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code; errors are printed on stderr."""
    return _flushed(_called(arguments))


def _flushed(code: int) -> int:
    """Writes what is left of the output and returns the exit code: on a full disk a command has failed."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if code == 0 and not isinstance(error, BrokenPipeError):
            code = _complain(_explain(error) or CommandFailed(str(error)))
        # What is left in the buffer would be written again, and fail again, when Python ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return code


def _called(arguments: Sequence[str]) -> int:
    try:
        _command()(args=list(arguments), prog_name="trackside")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        return 0
    except Exception as error:
        failure = _explain(error)
        if failure is None:
            raise
        return _complain(failure)
    return 0


def _explain(error: Exception) -> CommandFailed | None:
    if isinstance(error, CommandFailed):
        return error
    from trackside.cli.runtime.explain import explain

    return explain(error)


def _complain(failure: CommandFailed) -> int:
    """Prints why a command failed, unless it has done so, and returns its exit code."""
    from trackside.cli.render import screen

    if str(failure):
        screen.complain(f"trackside: {failure}")
    return failure.exit_code


def main() -> None:
    """Runs the command of this process."""
    gc.set_threshold(ALLOCATIONS)
    sys.exit(call(sys.argv[1:]))
