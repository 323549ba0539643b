"""Commands that read what is there: `ls`, `show`, `watch`, `report`, `logs` and the like."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from trackside.cli.interface.options import AtOption, JsonOption, LimitOption, SearchArgument


def ls(
    limit: LimitOption = 30,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="List only streams with this tag; may be repeated."),
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="List archived streams too, which are left out otherwise.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List searches, runs of pipelines, batches, incremental jobs, datasets and models, the newest first.

    Tags are set, and streams archived, by `trackside annotate`.

    \b
    Examples:
      trackside ls
      trackside ls --tag baseline
      trackside ls --archived
      trackside ls --limit 200 --json
    """
    from trackside.cli.commands import ls as listing

    listing.ls(limit, tags or [], as_json, archived=archived)


def show(
    stream_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="Id of a search, run or batch, or of a task such as digits-1.7."),
    ],
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            max=100_000,
            metavar="N",
            help="List at most N trials, steps or tasks; 50 if not given, with --json all.",
        ),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            "--sort",
            metavar="NAME",
            help="Sort trials by value (the best first), took, ended, reports or trial; steps by waited, "
            "took, ended or step; tasks by value, queued, ended or type.",
        ),
    ] = "",
    status: Annotated[
        str,
        typer.Option(
            "--status",
            metavar="STATUS",
            help="List only trials of this status, such as FAILED, steps in this state, such as failed, or "
            "tasks that ended so, such as oom_host.",
        ),
    ] = "",
    lineage: Annotated[
        bool, typer.Option("--lineage", help="Show the trials of a search as a tree: which continues which.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a search with its trials, a run with its steps, a job with its rounds, a task, or another stream.

    \b
    Examples:
      trackside show digits-1
      trackside show digits-1 --sort value --limit 10
      trackside show digits-1 --status FAILED
      trackside show digits-1 --lineage
      trackside show digits-1.7
      trackside show nightly-1 --sort took
      trackside show digits-1 --json
    """
    from trackside.cli.commands import show
    from trackside.domain.display.selection import Selection

    if lineage:
        show.lineage(stream_id, as_json)
    else:
        show.show(stream_id, Selection(limit, sort, status), as_json)


def watch(
    stream_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the search, run or batch.")],
    as_json: JsonOption = False,
) -> None:
    """Watch a stream until it ends: its progress, its best value, its steps or its groups, its devices.

    Exit 0 if it is done or was stopped, 1 if it or one of its tasks failed, or if there is none of this id.

    \b
    Examples:
      trackside watch digits-1
      trackside watch digits-1 --json      (only the end, as one line)
    """
    from trackside.cli.commands import watch

    watch.watch(stream_id, as_json)


def graph(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File to write: .svg for the graph; .html for a page with graph, flow and parameters; .json "
            "for the flow as a figure of Plotly.",
        ),
    ],
    at: AtOption = "now",
) -> None:
    """Write a picture of the steps of a run, with their states and times, as it is or was.

    \b
    Examples:
      trackside graph nightly-1 --out nightly-1.svg
      trackside graph nightly-1 --out nightly-1.html --at 10m
      trackside graph nightly-1 --out flow.json      (plotly.io.read_json reads it)
    """
    from trackside.cli.commands import graph

    graph.graph(run_id, out, at)


def tasks(
    stream: Annotated[
        str, typer.Option("--stream", metavar="ID", help="List only the tasks of this stream.")
    ] = "",
    state: Annotated[
        str,
        typer.Option(
            "--state",
            metavar="STATE",
            help="List only the tasks in this state: queued, placed, active or ended.",
        ),
    ] = "",
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List tasks with their state, device and result, the newest first.

    \b
    Examples:
      trackside tasks
      trackside tasks --state queued
      trackside tasks --stream compare-1 --state ended --json
    """
    from trackside.cli.commands import tasks

    tasks.tasks(stream, state, limit, as_json)


def devices(as_json: JsonOption = False) -> None:
    """List the devices of all workers with their memory, reserved and used, and their tasks.

    Use and utilisation come from the newest heartbeat of the device's worker. A GPU of several workers on
    one host is listed for each of them, with the tasks of all.

    \b
    Examples:
      trackside devices
      trackside devices --json
    """
    from trackside.cli.commands import tasks

    tasks.devices(as_json)


def estimates(as_json: JsonOption = False) -> None:
    """List task types with the memory that was requested, used, and learned from finished attempts.

    A task that requests no memory gets the learned amount: 10% more than the maximum of the newest 20
    finished attempts of its type.

    \b
    Examples:
      trackside estimates
      trackside estimates --json
    """
    from trackside.cli.commands import estimates

    estimates.estimates(as_json)


def importances(
    stream_id: SearchArgument,
    method: Annotated[
        Literal["ped-anova", "pearson"],
        typer.Option(
            "--method",
            help="How importance is measured: `ped-anova` by what sets the best tenth of the trials apart, "
            "`pearson` by the linear correlation of a parameter with the value, from -1 to 1.",
        ),
    ] = "ped-anova",
    as_json: JsonOption = False,
) -> None:
    """Show how much each parameter of a search matters for its value, the most important first.

    PED-ANOVA is Optuna's, and needs 10 trials with a value; the correlation needs 3. A search with several
    objectives has a table for each.

    \b
    Examples:
      trackside importances digits-1
      trackside importances digits-1 --method pearson
      trackside importances digits-1 --json
    """
    from trackside.cli.commands import importances

    importances.importances(stream_id, method, as_json)


def export_trials(
    stream_id: SearchArgument,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Write CSV with a column for each parameter.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON; this is the default.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Include trials that have not succeeded or still run.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="File to write; a name in .csv selects CSV."),
    ] = None,
) -> None:
    """Print the trials of a search that succeeded, in the format that `trackside import-trials` reads.

    \b
    Examples:
      trackside export-trials digits-1 > trials.json
      trackside export-trials digits-1 --csv --all
      trackside export-trials imported/digits-1 --out trials.csv
    """
    from trackside.cli.commands import trials

    wants_csv = as_csv or (not as_json and out is not None and out.suffix.lower() == ".csv")
    trials.export_trials(stream_id, out, wants_csv=wants_csv, every=every)


def report(
    stream_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the batch or search.")],
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the report as an HTML page.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the results, times and failures of the groups of a batch, the trials of a search or a run.

    \b
    Examples:
      trackside report compare-1
      trackside report compare-1 --html compare-1.html
      trackside report digits-1 --json
    """
    from trackside.cli.commands import tasks

    tasks.report(stream_id, html, as_json)


def mail(
    receivers: Annotated[
        list[str], typer.Option("--to", metavar="ADDRESS", help="Address of a receiver; may be repeated.")
    ],
    server: Annotated[
        str, typer.Option("--smtp", metavar="HOST:PORT", help="SMTP server that takes the mail.")
    ] = "localhost:25",
    sender: Annotated[
        str, typer.Option("--from", metavar="ADDRESS", help="Address of the sender.")
    ] = "trackside@localhost",
    min_interval_s: Annotated[
        float,
        typer.Option("--min-interval", min=0, metavar="SECONDS", help="Least time between two mails."),
    ] = 3_600.0,
    max_mails: Annotated[
        int, typer.Option("--max-mails", min=1, metavar="N", help="Number of mails after which it exits.")
    ] = 10,
    starttls: Annotated[
        bool, typer.Option("--starttls", help="Encrypt the connection with STARTTLS.")
    ] = False,
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="User name at the SMTP server.")] = "",
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file", metavar="FILE", help="File of the password; its mode must be 600 or stricter."
        ),
    ] = None,
) -> None:
    """Send a report by mail when a group of tasks, a batch, a search or a run ends; runs until it is stopped.

    What ends within the least interval after a mail is sent with the next one. If the server does not take a
    mail, its reports are sent with the next one. What ended before this command started is not reported.

    \b
    Examples:
      trackside mail --to me@example.org --smtp mail.example.org:587 --starttls --user me --password-file pw
      trackside mail --to a@example.org --to b@example.org --min-interval 600 --max-mails 100
    """
    from trackside.cli.commands import mail

    host, port = mail.host_and_port(server)
    password = "" if password_file is None else mail.read_password(password_file)
    mailer = mail.Mailer(host, port, sender, tuple(receivers), starttls, user, password)
    mail.mail(mailer, min_interval_s, max_mails)


def logs(
    task_id: Annotated[str, typer.Argument(metavar="TASK", help="Id of the task, such as digits-1.7.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines until the task ends.")
    ] = False,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, metavar="N", help="Print only the lines of attempt N.")
    ] = None,
    source: Annotated[
        Literal["stdout", "stderr"] | None,
        typer.Option("--source", help="Print only the lines of one stream."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the lines that a task has written, of all its attempts, in the order of the log.

    Lines are kept for 7 days. Where lines are missing, because a task wrote too fast or because they were
    lost, their number is printed. Exit 1 if there is no such task or all its lines have expired.

    \b
    Examples:
      trackside logs digits-1.7
      trackside logs digits-1.7 --follow
      trackside logs digits-1.7 --attempt 2 --source stderr
      trackside logs digits-1.7 --json | jq -r .text
    """
    from trackside.cli.commands import logs

    logs.logs(task_id, attempt or 0, source, follow=follow, as_json=as_json)


def dead_letters(limit: LimitOption = 30, as_json: JsonOption = False) -> None:
    """List the records that could not be decoded, each with its offset and the reason, the newest first.

    \b
    Examples:
      trackside dead-letters
      trackside dead-letters --json
    """
    from trackside.cli.commands import show

    show.dead_letters(limit, as_json)
