import json
from pathlib import Path

import pytest

from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.keys.installation_keys import (
    AnotherKeyError,
    KeyChanges,
    change_keys,
    read_trust,
    set_up_keys,
)
from trackside.eventlog.keys.key_folder import BadKeyFileError, KeyFolder, read_public_keys, trusted_key
from trackside.eventlog.memory import MemoryLog

TOPICS = Topics()
PLACES = 13
"""Partitions of the events and the fleet."""


@pytest.fixture
async def log() -> MemoryLog:
    made = MemoryLog()
    await made.ensure(TOPICS.shared)
    return made


async def test_every_partition_trusts_the_keys(log: MemoryLog, tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path / "keys")
    assert await set_up_keys(log, TOPICS, folder, ["w1"], require=True) == PLACES * (5 + 1)
    trusts = await read_trust(log, TOPICS)
    assert len(trusts) == PLACES
    for trust in trusts.values():
        assert trust.mode == "require"
        others = [(role, "") for role in ("dispatcher", "scheduler", "setup", "summary-indexer")]
        assert sorted((key.role, key.worker_id) for key in trust.keys.values()) == [*others, ("worker", "w1")]
    listed = read_public_keys(folder.path / "keys.json")
    assert listed.keys() == trusts[TOPICS.fleet.name, 0].keys.keys()
    assert {path.stat().st_mode & 0o777 for path in folder.path.iterdir()} == {0o600}
    assert folder.path.stat().st_mode & 0o777 == 0o700


async def test_what_is_there_is_not_written_again(log: MemoryLog, tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path)
    await set_up_keys(log, TOPICS, folder, ["w1"])
    before = folder.file("dispatcher").read_bytes()
    assert await set_up_keys(log, TOPICS, folder, ["w1"]) == 0
    assert await set_up_keys(log, TOPICS, folder, ["w2"], require=True) == PLACES * 2
    assert folder.file("dispatcher").read_bytes() == before


async def test_a_key_is_rotated(log: MemoryLog, tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path)
    await set_up_keys(log, TOPICS, folder)
    root = folder.signer("setup")
    old, new = folder.signer("dispatcher"), folder.make_next("dispatcher")
    assert folder.make_next("dispatcher").key_id == new.key_id  # also if the first try was interrupted
    changes = KeyChanges({new.key_id: trusted_key("dispatcher", new)})
    assert await change_keys(log, TOPICS, root, changes) == PLACES
    assert await change_keys(log, TOPICS, root, KeyChanges(revoked=[old.key_id])) == PLACES
    folder.use_next("dispatcher")
    assert folder.signer("dispatcher").key_id == new.key_id
    for trust in (await read_trust(log, TOPICS)).values():
        assert trust.keys[old.key_id].revoked_at is not None
        assert trust.keys[new.key_id].revoked_at is None


async def test_another_installations_key_is_refused(log: MemoryLog, tmp_path: Path) -> None:
    await set_up_keys(log, TOPICS, KeyFolder(tmp_path / "one"))
    with pytest.raises(AnotherKeyError, match="use the folder of keys that the installation was set up with"):
        await set_up_keys(log, TOPICS, KeyFolder(tmp_path / "two"))


def test_keys_have_the_names_of_those_who_write_events(tmp_path: Path) -> None:
    for name in ("console", "worker-", "worker-a/b"):
        with pytest.raises(BadKeyFileError, match=f"no key is called '{name}'"):
            KeyFolder(tmp_path).make(name)


def test_a_list_of_keys_that_is_none_is_refused(tmp_path: Path) -> None:
    path, more = tmp_path / "keys.json", {"public": "00", "role": "dispatcher", "more": 1}
    for text, reason in (
        ("[", "not JSON"),
        ("[]", "expected an object of keys by id, got list"),
        (json.dumps({"k": {"public": "00"}}), "key 'k': expected"),
        (json.dumps({"k": more}), "key 'k': expected"),
    ):
        path.write_text(text)
        with pytest.raises(BadKeyFileError, match=reason):
            read_public_keys(path)
