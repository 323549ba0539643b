"""The command `mail`: a report by mail when a group of tasks, a batch, a search or a run ends (T21, T22).

It reads the log from its end on, as any outside reader may. `MailQueue`, which is pure, decides how often a
mail is sent: what ends within the least interval after a mail goes with the next one.
"""

import asyncio
import smtplib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path

from trackside.aggregates.registry import AGGREGATES
from trackside.artifacts.blobs.private_files import PrivateFileError, read_private
from trackside.cli.commands import tasks
from trackside.cli.render import follow, report_page, screen
from trackside.cli.render.report import StreamReport
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.display.text import as_text, one_line
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode

WRITTEN_S = 30.0
"""How long to wait for the rows of what has ended."""
READ_S = 1.0
SMTP_S = 30.0
RETRY_S = 5.0


@dataclass(slots=True)
class MailQueue:
    """Streams whose reports are to be sent, with the offset of what ended last, and when to send them.

    `min_interval_s` is the least time between two mails or attempts; `left` is how many may still be sent.
    """

    min_interval_s: float
    left: int
    waiting: dict[str, int] = field(default_factory=dict)
    not_before_s: float = 0.0

    def put(self, stream_id: str, offset: int) -> None:
        """Adds the end of something of a stream; adding it twice has the effect of once."""
        self.waiting[stream_id] = max(offset, self.waiting.get(stream_id, 0))

    def due_in_s(self, now_s: float) -> float | None:
        """Returns the seconds until the next mail is due; None if there is none to send."""
        return max(0.0, self.not_before_s - now_s) if self.waiting and self.left else None

    def take(self, now_s: float) -> dict[str, int]:
        """Returns the streams of the next mail, each with its offset, and counts the mail."""
        taken, self.waiting = self.waiting, {}
        self.left -= 1
        self.not_before_s = now_s + self.min_interval_s
        return taken

    def put_back(self, taken: dict[str, int]) -> None:
        """Takes back the streams of a mail that was not sent: they go with the next one."""
        self.left += 1
        for stream_id, offset in taken.items():
            self.put(stream_id, offset)


@dataclass(frozen=True, slots=True)
class Mailer:
    """Sends mail through an SMTP server, from one sender to its receivers."""

    host: str
    port: int
    sender: str
    receivers: tuple[str, ...]
    starttls: bool = False
    user: str = ""
    password: str = ""

    def send(self, message: EmailMessage) -> None:
        """Sends a message; raises OSError or SMTPException if the server does not take it."""
        with smtplib.SMTP(self.host, self.port, timeout=SMTP_S) as server:
            if self.starttls:
                server.starttls()
            if self.user:
                server.login(self.user, self.password)
            server.send_message(message)


def compose(mailer: Mailer, reports: list[StreamReport], left: int) -> EmailMessage:
    """Returns a mail: a line for each group in the text, each whole report as an attached HTML file."""
    message = EmailMessage()
    names = ", ".join(f"{found.kind} {found.id}: {found.status}" for found in reports)
    message["Subject"] = f"Trackside: {names}"[:200].replace("\n", " ").replace("\r", " ")
    message["From"] = mailer.sender
    message["To"] = ", ".join(mailer.receivers)
    message.set_content("\n".join([line for found in reports for line in _lines(found)] + _last(left)))
    for found in reports:
        page = report_page.page(found)
        message.add_attachment(page, subtype="html", filename=f"{found.id}.html")
    return message


def _lines(found: StreamReport) -> list[str]:
    lines = [f"{found.kind} {found.id} {found.name}".rstrip() + f": {found.status}"]
    lines += [f"  {name}: {one_line(as_text(value))}"[:300] for name, value in found.page.facts]
    for section in found.sections:
        counts = f"{len(section.finished)} finished, {len(section.failed)} did not finish"
        lines.append(f"  {section.name}: {section.status}, {counts}")
        lines += [f"    {task.name}: {task.ending} {task.message}"[:300] for task in section.failed[:20]]
    return [*lines, ""]


def _last(left: int) -> list[str]:
    return [] if left else ["This is the last mail of this run: --max-mails is reached."]


def mail(mailer: Mailer, min_interval_s: float, max_mails: int) -> None:
    """Sends reports of what ends from now on, until it is stopped or `max_mails` were sent."""
    run(_mail(mailer, MailQueue(min_interval_s, max_mails)))


def host_and_port(server: str) -> tuple[str, int]:
    """Returns host and port of a text HOST:PORT; raises BadUsage."""
    host, _, port = server.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise BadUsage(f"--smtp: expected HOST:PORT such as localhost:25, got {server!r}")
    return host, int(port)


def read_password(path: Path) -> str:
    """Returns the password in a file; raises BadUsage if other users may read it."""
    try:
        return read_private(path).decode().strip()
    except PrivateFileError as error:
        raise BadUsage(f"--password-file {path}: {error}") from error


async def _mail(mailer: Mailer, queue: MailQueue) -> None:
    addresses = Addresses()
    topics = Topics(addresses.prefix)
    async with KafkaLog(
        addresses.kafka_as(VIEWER), client_id="trackside-mail", keys=addresses.keys
    ) as opened:
        async for record in _endings(opened, topics, queue):
            if record is not None:
                queue.put(record.envelope.stream, record.offset)
            if queue.due_in_s(monotonic_s()) == 0:
                await _send(mailer, queue, addresses.dsn, topics)
            if not queue.left:
                screen.complain("trackside mail: --max-mails is reached; exiting")
                return


async def _endings(opened: KafkaLog, topics: Topics, queue: MailQueue) -> AsyncIterator[Record | None]:
    """Yields the end of every aggregate, and of its parts, from now on; None when a mail may be due."""
    mailed = {kind for each in AGGREGATES.types for kind in (each.ends_with, *each.mailed) if kind}
    ends = await opened.ends(topics.events.name)
    reader = opened.reader({(topics.events.name, partition): offset for partition, offset in ends.items()})
    screen.complain("trackside mail: waiting for what ends from now on")
    try:
        while True:
            due_s = queue.due_in_s(monotonic_s())
            for entry in await reader.read(READ_S if due_s is None else min(READ_S, max(0.01, due_s))):
                found = decode(entry)
                if found is not None and type(found.message) in mailed:
                    yield found
            yield None
    finally:
        await reader.close()


async def _send(mailer: Mailer, queue: MailQueue, dsn: str, topics: Topics) -> None:
    taken = queue.take(monotonic_s())
    try:
        for stream_id, offset in taken.items():
            await follow.wait_for_rows(dsn, topics, stream_id, offset, WRITTEN_S)
        reports = [await tasks.report_of(stream_id) for stream_id in taken]
        await asyncio.to_thread(mailer.send, compose(mailer, reports, queue.left))
    except (CommandFailed, OSError, smtplib.SMTPException) as error:
        queue.put_back(taken)
        screen.complain(f"trackside mail: not sent to {mailer.host}:{mailer.port}: {error}")
        queue.not_before_s = max(queue.not_before_s, monotonic_s() + RETRY_S)
    else:
        screen.say(f"mailed: {', '.join(taken)}")
