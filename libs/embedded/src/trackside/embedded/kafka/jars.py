"""Kafka's jars: a pinned list, fetched once by jgo into the cache, each checked by size and SHA-256.

The list is pinned rather than resolved because resolving reads 45 POMs over the network each time a cache
is new (10 to 20 s), and because it lets every byte that the broker runs be checked.
`python -m trackside.embedded.kafka.jars VERSION` rewrites the list.
"""

import fcntl
import hashlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackside.embedded.errors import StackError
from trackside.embedded.files import cache_folder

LIST_NAME = "kafka-jars.txt"
INCOMING = ".incoming"  # jars lie here until they are checked
REPORT_EVERY_BYTES = 10_000_000
ReportProgress = Callable[[str], None]


@dataclass(frozen=True)
class Jar:
    """One pinned jar: Maven coordinate `group:artifact:version`, size in bytes, SHA-256 in hex."""

    coordinate: str
    size_bytes: int
    sha256: str

    def path(self, repository: Path) -> Path:
        """Returns the jar's path in a Maven repository folder."""
        group, artifact, version = self.coordinate.split(":")
        return repository.joinpath(*group.split("."), artifact, version, f"{artifact}-{version}.jar")


def parse_list(text: str) -> list[Jar]:
    """Reads the pinned list, one `coordinate bytes sha256` a line; lines that start with # are skipped."""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [Jar(coordinate, int(size), sha256) for coordinate, size, sha256 in rows]


def pinned() -> list[Jar]:
    """Returns the pinned jars of the Kafka server."""
    return parse_list((Path(__file__).parent / LIST_NAME).read_text(encoding="utf-8"))


def classpath(progress: ReportProgress, repository: Path | None = None) -> list[Path]:
    """Returns the paths of all jars, fetching those that the cache lacks; StackError if one can't be had.

    A jar that is there with the right size was checked when it was fetched, so a later start reads nothing.
    """
    repository = repository or cache_folder() / "maven"
    jars = pinned()
    if any(not _is_whole(jar, repository) for jar in jars):
        repository.mkdir(parents=True, exist_ok=True)
        with _alone(repository):
            _fetch([jar for jar in jars if not _is_whole(jar, repository)], repository, progress)
    return [jar.path(repository) for jar in jars]


def _is_whole(jar: Jar, repository: Path) -> bool:
    path = jar.path(repository)
    return path.is_file() and path.stat().st_size == jar.size_bytes


@contextmanager
def _alone(repository: Path) -> Iterator[None]:
    """Holds the repository's lock, so that two starts don't fetch into the same files."""
    with (repository / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(jars: list[Jar], repository: Path, progress: ReportProgress) -> None:
    if not jars:
        return
    total = sum(jar.size_bytes for jar in jars)
    progress(
        f"Kafka: fetching {len(jars)} jars ({total / 1e6:.0f} MB) from Maven Central, once, into {repository}"
    )
    context = _maven(repository / INCOMING)
    done, reported = 0, 0
    with ThreadPoolExecutor(max_workers=8) as pool:
        for jar in pool.map(lambda each: _fetch_one(each, repository, context), jars):
            done += jar.size_bytes
            if done - reported >= REPORT_EVERY_BYTES or done == total:
                reported = done
                progress(f"Kafka: {done / 1e6:.0f} of {total / 1e6:.0f} MB fetched")


def _maven(repository: Path) -> Any:
    from jgo.maven import MavenContext  # imports requests, which a start from a full cache doesn't need

    logging.getLogger("jgo").setLevel(logging.ERROR)
    if certificates := os.environ.get("SSL_CERT_FILE"):  # which uv and urllib read, and requests does not
        os.environ.setdefault("REQUESTS_CA_BUNDLE", certificates)
    return MavenContext(repo_cache=repository, local_repos=[], timeout=60)


def _fetch_one(jar: Jar, repository: Path, context: Any) -> Jar:
    path, incoming = jar.path(repository), jar.path(repository / INCOMING)
    reason: object = None
    for _ in range(3):
        incoming.unlink(missing_ok=True)  # else jgo takes a partial download for the jar
        try:
            fetched = Path(context.create_dependency(jar.coordinate).artifact.resolve())
        except (OSError, RuntimeError, AssertionError) as error:  # requests' errors are OSErrors
            reason = error
            continue
        found = hashlib.sha256(fetched.read_bytes()).hexdigest()
        if found == jar.sha256:
            path.parent.mkdir(parents=True, exist_ok=True)
            incoming.replace(path)
            return jar
        reason = f"its sha256 is {found}, expected {jar.sha256}"
    incoming.unlink(missing_ok=True)
    raise StackError(
        f"Kafka's jar {jar.coordinate} could not be fetched from Maven Central (tried 3 times): {reason}. "
        "Check the network and any proxy (HTTPS_PROXY, its certificates in SSL_CERT_FILE), or put the jar at "
        f"{path}; jars already fetched are kept, so starting again continues from here."
    )


def write_list(version: str, repository: Path, out: Path) -> int:
    """Resolves `kafka_2.13` of a version with jgo and writes the pinned list; returns the number of jars.

    The slf4j binding is added to the resolved jars, in the version of their log4j-core: resolved
    together with Kafka, its parent pins kafka-clients to an older release.
    """
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=repository, local_repos=[], timeout=60)
    inputs, dependencies = context.resolver.resolve(
        [context.create_dependency(f"org.apache.kafka:kafka_2.13:{version}")]
    )
    artifacts = [each.artifact for each in [*inputs, *dependencies] if each.scope in ("compile", "runtime")]
    log4j = next(each.version for each in artifacts if each.artifactId == "log4j-core")
    binding = context.create_dependency(f"org.apache.logging.log4j:log4j-slf4j-impl:{log4j}").artifact
    lines = []
    for artifact in [*artifacts, binding]:
        content = Path(artifact.resolve()).read_bytes()
        coordinate = f"{artifact.groupId}:{artifact.artifactId}:{artifact.version}"
        lines.append(f"{coordinate} {len(content)} {hashlib.sha256(content).hexdigest()}\n")
    head = f"# Apache Kafka {version} and what its server needs: coordinate, bytes, sha256. "
    out.write_text(head + "Written by `python -m trackside.embedded.kafka.jars`.\n" + "".join(sorted(lines)))
    return len(lines)


if __name__ == "__main__":
    count = write_list(sys.argv[1], cache_folder() / "maven", Path(__file__).parent / LIST_NAME)
    sys.stdout.write(f"{count} jars pinned\n")
