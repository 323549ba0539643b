"""The cache of classes with which Kafka starts: made once, used by Java, left out where it does not fit."""

import fcntl
import subprocess
from pathlib import Path

import pytest

from trackside.embedded.files import cache_folder
from trackside.embedded.kafka import jars, kafka, kafka_start, make_cache
from trackside.embedded.kafka.kafka import new_id
from trackside.embedded.ports import free_ports
from trackside.embedded.processes import ProcessSpec

REQUIRED = "-XX:AOTMode=on"
"""Java ends with an error then if it can't use its cache."""


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for downloads that has the jars, and nothing else."""
    jars.classpath(lambda _: None)
    maven, own = cache_folder() / "maven", tmp_path / "cache"
    own.mkdir()
    (own / "maven").symlink_to(maven)
    monkeypatch.setenv("TRACKSIDE_CACHE", str(own))
    return own


def broker(folder: Path) -> ProcessSpec:
    port, controller = free_ports(2)
    spec, _ = kafka.prepare(folder / "kafka", port, controller, lambda _: None, cluster=new_id())
    return spec


def run_version(spec: ProcessSpec, *more: str) -> "subprocess.CompletedProcess[str]":
    """Runs the command of a broker up to its version only."""
    java, *arguments = spec.argv
    command = [java, *more, *arguments[: arguments.index("kafka.Kafka") + 1], "--version"]
    return subprocess.run(command, capture_output=True, text=True, cwd=spec.cwd, check=False)


@pytest.mark.long
def test_the_cache_is_made_once_and_java_uses_it(own_cache: Path, tmp_path: Path) -> None:
    before = broker(tmp_path / "before")
    assert [each.name for each in kafka_start.processes(tmp_path, [before], durable=True)] == ["kafka-start"]
    made = make_cache.make()
    assert made is not None and made.parent == own_cache / "kafka-start"
    written = made.stat().st_mtime_ns
    assert make_cache.make() == made and made.stat().st_mtime_ns == written
    assert sorted(path.name for path in made.parent.iterdir()) == [".lock", made.name]
    after = broker(tmp_path / "after")
    assert f"-XX:AOTCache={made}" in after.argv
    assert kafka_start.processes(tmp_path, [after], durable=True) == []
    assert run_version(after, REQUIRED).returncode == 0
    made.write_bytes(b"another Java's")
    assert run_version(after, REQUIRED).returncode != 0
    assert run_version(after).returncode == 0  # without it


def test_nobody_makes_the_cache_while_another_process_does(own_cache: Path) -> None:
    (own_cache / "kafka-start").mkdir()
    with (own_cache / "kafka-start" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert make_cache.make() is None


def test_a_cache_that_cannot_be_made_is_no_error(
    own_cache: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_cache / "kafka-start").touch()
    monkeypatch.setattr(make_cache, "LOWEST_PRIORITY", 0)
    assert make_cache.main() == 0
    assert "Kafka starts without a cache: " in capfd.readouterr().err


def test_a_stack_of_tests_makes_none_nor_one_without_a_kafka(own_cache: Path, tmp_path: Path) -> None:
    assert own_cache.is_dir()
    assert kafka_start.processes(tmp_path, [broker(tmp_path)], durable=False) == []
    assert kafka_start.processes(tmp_path, [ProcessSpec("postgres", ["postgres"], "log")], durable=True) == []
