"""The command `setup keys`: makes, lists, rotates and revokes the keys that events are signed with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.envelope.trusted_keys import TrustedKey
from trackside.contracts.wire.topic_rights import ADMIN
from trackside.domain.display.text import Column
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.installation_keys import (
    AnotherKeyError,
    KeyChanges,
    Trusts,
    change_keys,
    read_trust,
    set_up_keys,
)
from trackside.eventlog.keys.key_folder import SETUP, BadKeyFileError, KeyFolder, trusted_key


@dataclass(frozen=True, slots=True)
class WantedKeys:
    """What the options ask for."""

    init: bool
    workers: Sequence[str]
    rotate: str
    revoke: str
    require: bool = False
    off: bool = False

    def check(self) -> None:
        """Raises BadUsage for options that do not go together."""
        if self.workers and not self.init:
            raise BadUsage("--worker names a worker that --init makes a key for: add --init")
        if self.require and self.off:
            raise BadUsage("give one of --require and --off")
        if sum(map(bool, (self.init, self.rotate, self.revoke, self.off))) > 1:
            raise BadUsage("give one of --init, --rotate, --revoke and --off")

    @property
    def changes(self) -> bool:
        """Whether anything is to be changed."""
        return bool(self.init or self.rotate or self.revoke or self.require or self.off)


def keys(path: Path, wanted: WantedKeys, *, as_json: bool) -> None:
    """Changes keys as the options say, or lists those that the log trusts."""
    wanted.check()
    try:
        if wanted.changes:
            run(_change(KeyFolder(path), wanted))
        else:
            _show(run(_trusts()), as_json=as_json)
    except (AnotherKeyError, BadKeyFileError) as error:
        raise CommandFailed(str(error)) from error


async def _change(folder: KeyFolder, wanted: WantedKeys) -> None:
    async with _log() as log:
        topics = Topics(prefix=Addresses().prefix)
        if wanted.init:
            count = await set_up_keys(log, topics, folder, wanted.workers, require=wanted.require)
            screen.say(f"{count} events about keys written; the keys are in {folder.path}")
            return
        root = folder.signer(SETUP)
        changes = KeyChanges(mode="require" if wanted.require else "off" if wanted.off else None)
        if wanted.rotate:
            await _rotate(log, topics, folder, wanted.rotate)
            return
        if wanted.revoke:
            _check_known(await read_trust(log, topics), wanted.revoke)
            changes = KeyChanges(revoked=[wanted.revoke], mode=changes.mode)
        count = await change_keys(log, topics, root, changes)
        screen.say(f"{count} events about keys written" if count else "the log has this already")


async def _rotate(log: KafkaLog, topics: Topics, folder: KeyFolder, name: str) -> None:
    """Lets the log trust a new key, which takes the place of the old one in the folder after that."""
    root = folder.signer(SETUP)
    old, new = folder.signer(name), folder.make_next(name)
    key = {new.key_id: trusted_key(name, new)}
    folder.list_keys(key)
    await change_keys(log, topics, root, KeyChanges(key))
    folder.use_next(name)
    whose = "use it for the next change" if name == SETUP else f"restart {name} with {folder.file(name)}"
    screen.say(f"key {new.key_id} of {name} is trusted: {whose},")
    screen.say(f"then run `trackside setup keys --folder {folder.path} --revoke {old.key_id}`")


def _check_known(trusts: Trusts, key_id: str) -> None:
    known = sorted({name for trust in trusts.values() for name in trust.keys})
    if key_id not in known:
        raise BadUsage(f"the log knows no key {key_id!r}; it knows {', '.join(known) or 'none'}")


async def _trusts() -> Trusts:
    async with _log() as log:
        return await read_trust(log, Topics(prefix=Addresses().prefix))


def _log() -> KafkaLog:
    return KafkaLog(Addresses().kafka_as(ADMIN), client_id="trackside-setup")


def _show(trusts: Trusts, *, as_json: bool) -> None:
    """Prints each key with the number of partitions that trust it: all of them, if it is set up."""
    known: dict[str, TrustedKey] = {}
    for trust in trusts.values():
        known |= trust.keys
    required = sum(trust.mode == "require" for trust in trusts.values())
    if as_json:
        screen.emit({"partitions": len(trusts), "require": required, "keys": _objects(known, trusts)})
        return
    rows = [
        (each["key"], each["role"], each["worker"], f"{each['trusted']} of {len(trusts)}", each["revoked"])
        for each in _objects(known, trusts)
    ]
    columns = ("key", "role", "worker", "trusted in", "revoked in")
    if rows:
        screen.show_table([Column(name, keep=True) for name in columns], rows)
    mode = "required" if required == len(trusts) else f"required in {required} of {len(trusts)} partitions"
    screen.say(f"{len(known)} keys; signatures are {mode if required else 'not checked'}")


def _objects(known: Mapping[str, TrustedKey], trusts: Trusts) -> list[dict[str, str | int]]:
    found: list[dict[str, str | int]] = []
    for key_id, key in sorted(known.items(), key=lambda each: (each[1].role, each[1].worker_id, each[0])):
        having = [trust.keys[key_id] for trust in trusts.values() if key_id in trust.keys]
        revoked = sum(each.revoked_at is not None for each in having)
        found.append(
            {
                "key": key_id,
                "role": key.role,
                "worker": key.worker_id,
                "trusted": len(having) - revoked,
                "revoked": revoked,
            }
        )
    return found
