"""Forged records are written while searches run: by a stranger to an open stack, by users to a secure one.

Of each record is checked whether the broker takes it, and what the fold and `verify-log` make of it.
Afterwards the searches that were not to be changed have ended as they should, no service has restarted, and
the documented table says the same. The short run has one user write each record.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from aiokafka.errors import KafkaError

from tests.e2e.attack import Attack, attack
from tests.e2e.forged_records import EVENTS
from tests.e2e.forgeries import FORGERIES, Forgery, table
from tests.e2e.intruders import Intruder, raw_producer
from tests.e2e.shared_stack import OTHER, SECURE, StackFolder, folder_below, secure_stack, start
from trackside.contracts.trust.trust import ANOTHER_ROLE, ANOTHER_WORKER, BROKEN_CHAIN, UNKNOWN_KEY, UNSIGNED
from trackside.domain.outcome import Outcome
from trackside.embedded.kafka.secure import BROKER, principals_in
from trackside.eventlog.keys.decision_signer import new_signer
from trackside.eventlog.keys.key_folder import PUBLIC, KeyFolder
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.eventlog.settings.secure_folder import KEYS, settings_of

pytestmark = pytest.mark.timeout(900)

DOCUMENTED = Path(__file__).parents[2] / "docs" / "security.md"
ADMIN, WORKER = "admin", "worker-worker"
WITHOUT_A_KEY = "the user "
WITH_ANOTHERS_KEY = "a worker with the key of another one"
WITHOUT_A_VALID_ONE = {UNSIGNED, BROKEN_CHAIN, UNKNOWN_KEY}
TAKEN_OVER = "a worker that was taken over"
WITH_A_KEY_OF_ITS_OWN = "the administrator with a key of its own"
NUMBERS = pytest.mark.parametrize("number", range(len(FORGERIES)), ids=[each.what[:70] for each in FORGERIES])


def intruders(home: StackFolder) -> dict[Intruder, KafkaSettings]:
    """Returns who attacks a stack, and how each connects.

    An open one is attacked by a stranger; a secure one by its administrator and its other users without a
    key, by workers with the key of another worker, and by the administrator with a key that the log does not
    know.
    """
    bootstrap = home.stack.bootstrap_servers
    if not home.stack.status.secure:
        return {Intruder("a stranger"): KafkaSettings(kafka_bootstrap=bootstrap)}
    secure = home.home / SECURE
    keys = KeyFolder(secure / KEYS)
    users = sorted({*principals_in(secure)} - {BROKER}, key=lambda user: user != ADMIN)
    found = [
        *(Intruder(f"{WITHOUT_A_KEY}{each}", each) for each in users),
        Intruder(WITH_ANOTHERS_KEY, WORKER, keys.signer(OTHER)),
        Intruder(TAKEN_OVER, OTHER, keys.signer(OTHER), worker="other"),
        Intruder(WITH_A_KEY_OF_ITS_OWN, ADMIN, new_signer()),
    ]
    return {each: settings_of(secure, bootstrap, each.user) for each in found}


@pytest.fixture(
    scope="module",
    params=[
        "one user",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("all users", "a stranger")),
    ],
)
def attacked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, leash: Path
) -> Iterator[Attack]:
    """Writes all forged records while two searches run, and lets them end."""
    with ExitStack() as until_the_end:
        if request.param == "a stranger":
            user = start(tmp_path_factory.mktemp("forged"), "--leash", str(leash))
            until_the_end.callback(user.run, "down")
            home = user.path
        else:
            home = secure_stack()
        folder = until_the_end.enter_context(folder_below(home))
        who = intruders(folder)
        if request.param == "one user":
            who = dict([next(iter(who.items()))])
        yield asyncio.run(attack(folder, who))


with_all_users = pytest.mark.parametrize(
    "attacked", [pytest.param("all users", marks=pytest.mark.long)], indirect=True
)


@NUMBERS
def test_a_forged_record_has_no_effect_or_is_found(number: int, attacked: Attack) -> None:
    forgery: Forgery = FORGERIES[number]
    stopped = attacked.secure and forgery.signed
    written = attacked.written(number)
    assert written
    applied = {
        name: attacked.folded.outcomes.get(place) is Outcome.APPLIED for name, place in written.items()
    }
    assert applied == dict.fromkeys(written, forgery.effect and not stopped)
    found = set[str]().union(*(attacked.findings.get(place, ()) for place in written.values()))
    expected = set() if stopped else {forgery.found} - {""}
    assert found >= expected and bool(found) == bool(expected)
    # Of who has a key, some records are stopped by the role of that before it is looked at.
    why = {
        attacked.folded.distrust.get(place)
        for name, place in written.items()
        if name.startswith(WITHOUT_A_KEY)
    }
    assert why <= (WITHOUT_A_VALID_ONE if forgery.signed else {None}), why


def test_a_search_that_was_not_to_be_changed_ends_as_it_should(attacked: Attack) -> None:
    ends = {
        name: (attacked.ends[name]["status"], attacked.ends[name]["trials"]) for name in attacked.unchanged
    }
    assert ends == {name: ("DONE", trials) for name, trials in attacked.unchanged.items()}


def test_no_service_restarts_and_no_task_ends_before_its_time(attacked: Attack) -> None:
    assert (attacked.restarts, attacked.folded.joins) == ({}, 1)
    attempts = {name: attacked.folded.attempts[name] for name in attacked.unchanged}
    assert attempts == dict.fromkeys(attacked.unchanged, 1)


def test_nothing_is_found_in_a_stream_that_was_not_changed(attacked: Attack) -> None:
    for name in attacked.unchanged:
        report = json.loads(attacked.home.run("verify-log", name, "--json").stdout)
        assert [each for each in report["findings"] if each["topic"] == EVENTS] == []
    assert attacked.home.run("verify-log").returncode == 1


async def test_a_client_without_a_user_is_not_let_in(secure_home: StackFolder, tmp_path: Path) -> None:
    bootstrap = secure_home.stack.bootstrap_servers
    known = settings_of(secure_home.home / SECURE, bootstrap, ADMIN)
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text("guessed")
    for changed in (
        {"kafka_security_protocol": "PLAINTEXT"},
        {"kafka_security_protocol": "SSL"},
        {"kafka_user": "stranger", "kafka_password_file": password},
        {"kafka_password_file": password},
    ):
        with pytest.raises(KafkaError):
            async with raw_producer(known.model_copy(update=changed)):
                pass


@with_all_users
@NUMBERS
def test_the_broker_lets_a_forged_record_be_written_by_the_documented_users(
    number: int, attacked: Attack
) -> None:
    users = {each.name: each.user for each in intruders(attacked.home)}
    written = {users[name] for name in attacked.written(number)}
    written = {"workers" if user.startswith("worker-") else user for user in written}
    assert written == {*FORGERIES[number].written_by, ADMIN}


@with_all_users
def test_each_reason_why_a_record_is_distrusted_is_met_and_logged(attacked: Attack) -> None:
    met: dict[str, set[str]] = {}
    for number in range(len(FORGERIES)):
        for name, place in attacked.written(number).items():
            if place in attacked.folded.distrust:
                met.setdefault(name, set()).add(attacked.folded.distrust[place])
    assert met[WITHOUT_A_KEY + WORKER] == WITHOUT_A_VALID_ONE
    assert met[WITH_ANOTHERS_KEY] == {ANOTHER_ROLE, ANOTHER_WORKER, BROKEN_CHAIN, UNKNOWN_KEY}
    assert met[TAKEN_OVER] == {ANOTHER_WORKER, BROKEN_CHAIN, UNKNOWN_KEY}
    assert met[WITH_A_KEY_OF_ITS_OWN] == {BROKEN_CHAIN, UNKNOWN_KEY}
    log = (attacked.home.stack.folder / "logs" / "dispatcher.log").read_text()
    lines = [json.loads(line) for line in log.splitlines() if "have no effect" in line]
    assert {line["reason"] for line in lines} == set().union(*met.values())


@with_all_users
def test_the_list_of_keys_finds_no_forged_event_and_names_a_key_that_it_lacks(
    attacked: Attack, tmp_path: Path
) -> None:
    home = attacked.home
    listed = home.home / SECURE / KEYS / PUBLIC
    said = home.run("verify-log", "--keys", str(listed)).stdout
    assert "0 findings" in said.splitlines()[-1], said
    keys = json.loads(listed.read_text())
    [lacking] = [each for each, fields in keys.items() if fields.get("worker") == "other"]
    shorter = tmp_path / "keys.json"
    shorter.write_text(json.dumps({each: fields for each, fields in keys.items() if each != lacking}))
    said = home.run("verify-log", "--keys", str(shorter)).stdout
    assert f"the log trusts key {lacking}, which is not in the list" in said


def test_the_documented_table_is_that_of_the_test() -> None:
    assert "\n".join(table()) in DOCUMENTED.read_text("utf-8")
