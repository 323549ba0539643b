"""The command `mail`: a report by mail when a group of tasks, a batch or a search is over (T21, T22).

It reads the log from its end on, like any other outside reader. How often it writes is decided by
`Letterbox`, which is pure: what comes sooner than the least interval behind a mail goes with the next one.
"""

import asyncio
import smtplib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.commands import tasks as listing
from trackside.cli.render import follow as following
from trackside.cli.render import report_page, screen
from trackside.cli.render.report import Report
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import Failure, Misuse
from trackside.cli.runtime.run import run
from trackside.contracts.batches import BatchEnded, GroupEnded
from trackside.contracts.message import Record
from trackside.contracts.searches import SearchEnded
from trackside.contracts.topics import Topics
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.decode import decode
from trackside.eventlog.kafka import KafkaLog

WRITTEN_S = 30.0
"""How long the rows of what has ended may take to be there."""
READ_S = 1.0
SMTP_S = 30.0
RETRY_S = 5.0


@dataclass(slots=True)
class Letterbox:
    """Streams to write about, with the offset of what ended last, and when.

    `min_interval_s` lies between two mails, also between tries; `left` is how many may still be sent.
    """

    min_interval_s: float
    left: int
    waiting: dict[str, int] = field(default_factory=dict)
    not_before_s: float = 0.0

    def put(self, stream_id: str, offset: int) -> None:
        """Notes that something of a stream is over; told twice, it is written once."""
        self.waiting[stream_id] = max(offset, self.waiting.get(stream_id, 0))

    def due_in_s(self, now_s: float) -> float | None:
        """Gives how long to wait for the next mail; None if there is nothing to write."""
        return max(0.0, self.not_before_s - now_s) if self.waiting and self.left else None

    def take(self, now_s: float) -> dict[str, int]:
        """Gives what the next mail is about, and counts it."""
        taken, self.waiting = self.waiting, {}
        self.left -= 1
        self.not_before_s = now_s + self.min_interval_s
        return taken

    def put_back(self, taken: dict[str, int]) -> None:
        """Takes back what couldn't be sent: it goes with the next mail."""
        self.left += 1
        for stream_id, offset in taken.items():
            self.put(stream_id, offset)


@dataclass(frozen=True, slots=True)
class Post:
    """A server that takes mail, and between whom it goes."""

    host: str
    port: int
    sender: str
    receivers: tuple[str, ...]
    starttls: bool = False
    user: str = ""
    password: str = ""

    def send(self, message: EmailMessage) -> None:
        """Hands a message to the server; raises OSError or SMTPException if it isn't taken."""
        with smtplib.SMTP(self.host, self.port, timeout=SMTP_S) as server:
            if self.starttls:
                server.starttls()
            if self.user:
                server.login(self.user, self.password)
            server.send_message(message)


def letter(post: Post, reports: list[Report], left: int) -> EmailMessage:
    """Writes a mail: a line a group in the text, each report whole as an HTML file beside it."""
    message = EmailMessage()
    names = ", ".join(f"{found.kind} {found.id}: {found.status}" for found in reports)
    message["Subject"] = f"Trackside: {names}"[:200].replace("\n", " ").replace("\r", " ")
    message["From"] = post.sender
    message["To"] = ", ".join(post.receivers)
    message.set_content("\n".join([line for found in reports for line in _lines(found)] + _last(left)))
    for found in reports:
        page = report_page.page(found)
        message.add_attachment(page, subtype="html", filename=f"{found.id}.html")
    return message


def _lines(found: Report) -> list[str]:
    lines = [f"{found.kind} {found.id} {found.name}".rstrip() + f": {found.status}"]
    for section in found.sections:
        counts = f"{len(section.finished)} finished, {len(section.failed)} did not finish"
        lines.append(f"  {section.name}: {section.status}, {counts}")
        lines += [f"    {task.name}: {task.ending} {task.message}"[:300] for task in section.failed[:20]]
    return [*lines, ""]


def _last(left: int) -> list[str]:
    return [] if left else ["This is the last mail of this run: it has written as many as it may."]


def mail(
    receivers: Annotated[list[str], typer.Option("--to", help="Who gets it; may be repeated.")],
    server: Annotated[
        str, typer.Option("--smtp", metavar="HOST:PORT", help="Who takes it.")
    ] = "localhost:25",
    sender: Annotated[str, typer.Option("--from", help="Who it comes from.")] = "trackside@localhost",
    min_interval_s: Annotated[
        float, typer.Option("--min-interval", min=0, help="Least time between two mails, s.")
    ] = 3_600.0,
    max_mails: Annotated[int, typer.Option("--max-mails", min=1, help="Mails in all; then it ends.")] = 10,
    starttls: Annotated[bool, typer.Option("--starttls", help="Encrypt the connection.")] = False,
    user: Annotated[str, typer.Option("--user", help="Name at the server, if it wants one.")] = "",
    password_file: Annotated[
        Path | None, typer.Option("--password-file", help="File with the password, readable by you alone.")
    ] = None,
) -> None:
    """Send a report by mail when a group of tasks, a batch or a search is over; runs until it is stopped.

    What ends within the least interval behind a mail goes with the next one. A mail that the server doesn't
    take is tried again with the next one. What ended before this command began is not written about.

    \b
    Examples:
      trackside mail --to me@example.org --smtp mail.example.org:587 --starttls --user me --password-file pw
      trackside mail --to a@example.org --to b@example.org --min-interval 600 --max-mails 100
    """
    host, _, port = server.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise Misuse(f"--smtp: expected HOST:PORT such as localhost:25, got {server!r}")
    post = Post(host, int(port), sender, tuple(receivers), starttls, user, _password(password_file))
    run(_mail(post, Letterbox(min_interval_s, max_mails)))


def _password(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        if path.stat().st_mode & 0o077:
            raise Misuse(f"--password-file {path}: others may read it; chmod 600 it")
        return path.read_text("utf-8").strip()
    except OSError as error:
        raise Misuse(f"--password-file {path}: {error.strerror}") from error


async def _mail(post: Post, box: Letterbox) -> None:
    addresses = Addresses()
    topics = Topics(addresses.prefix)
    async with KafkaLog(addresses.bootstrap, client_id="trackside-mail") as opened:
        async for record in _endings(opened, topics, box):
            if record is not None:
                box.put(record.envelope.stream, record.offset)
            if box.due_in_s(monotonic_s()) == 0:
                await _send(post, box, addresses.dsn, topics)
            if not box.left:
                screen.complain("trackside mail: as many mails were written as may be; it ends")
                return


async def _endings(opened: KafkaLog, topics: Topics, box: Letterbox) -> AsyncIterator[Record | None]:
    """Gives every end of a group, batch or search from now on; None when a mail is due, or now and then."""
    ends = await opened.ends(topics.events.name)
    reader = opened.reader({(topics.events.name, partition): offset for partition, offset in ends.items()})
    screen.complain("trackside mail: waiting for what ends from now on")
    try:
        while True:
            due_s = box.due_in_s(monotonic_s())
            for entry in await reader.read(READ_S if due_s is None else min(READ_S, max(0.01, due_s))):
                found = decode(entry)
                if found is not None and isinstance(found.message, GroupEnded | BatchEnded | SearchEnded):
                    yield found
            yield None
    finally:
        await reader.close()


async def _send(post: Post, box: Letterbox, dsn: str, topics: Topics) -> None:
    taken = box.take(monotonic_s())
    try:
        for stream_id, offset in taken.items():
            await following.written(dsn, topics, stream_id, offset, WRITTEN_S)
        reports = [await listing.reported(stream_id) for stream_id in taken]
        await asyncio.to_thread(post.send, letter(post, reports, box.left))
    except (Failure, OSError, smtplib.SMTPException) as error:
        box.put_back(taken)
        screen.complain(f"trackside mail: not sent to {post.host}:{post.port}: {error}")
        box.not_before_s = max(box.not_before_s, monotonic_s() + RETRY_S)
    else:
        screen.say(f"mailed: {', '.join(taken)}")
