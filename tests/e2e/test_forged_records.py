"""Forged records are written while searches run: by a stranger to an open stack, by users to a secure one.

Of each record is checked whether the broker takes it, and what the fold and `verify-log` make of it.
Afterwards the searches that were not to be changed have ended as they should, no service has restarted, and
the documented table says the same.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from aiokafka.errors import KafkaError

from tests.e2e.attack import TRIALS, Attack, attack, prepare
from tests.e2e.forged_records import EVENTS, HONEST
from tests.e2e.forgeries import FORGERIES, Forgery, table
from tests.e2e.harness import UserFolder
from tests.e2e.intruders import Intruder, raw_producer
from trackside.contracts.trust import ANOTHER_ROLE, ANOTHER_WORKER, BROKEN_CHAIN, UNKNOWN_KEY, UNSIGNED
from trackside.domain.outcome import Outcome
from trackside.embedded.secure import BROKER, principals_in
from trackside.embedded.stack import load
from trackside.eventlog.decision_signer import new_signer
from trackside.eventlog.kafka_settings import KafkaSettings
from trackside.eventlog.key_folder import PUBLIC, KeyFolder
from trackside.eventlog.secure_folder import KEYS, NAME, settings_of

pytestmark = pytest.mark.timeout(600)

DOCUMENTED = Path(__file__).parents[2] / "docs" / "security.md"
SECURE = Path(".trackside") / NAME
ADMIN, WORKER, OTHER = "admin", "worker-worker", "worker-other"
WITHOUT_A_KEY = "the user "
WITH_ANOTHERS_KEY = "a worker with the key of another one"
WITHOUT_A_VALID_ONE = {UNSIGNED, BROKEN_CHAIN, UNKNOWN_KEY}
TAKEN_OVER = "a worker that was taken over"
WITH_A_KEY_OF_ITS_OWN = "the administrator with a key of its own"


def principal_of(user: str) -> str:
    """Returns the name of a user in the table of rights."""
    return "workers" if user.startswith("worker-") else user


def intruders(home: UserFolder) -> Mapping[Intruder, KafkaSettings]:
    """Returns who attacks a stack, and how each connects.

    An open one is attacked by a stranger; a secure one by each of its users without a key, by workers with
    the key of another worker, and by the administrator with a key that the log does not know.
    """
    stack = load(home.path / ".trackside")
    if not stack.status.secure:
        return {Intruder("a stranger"): KafkaSettings(kafka_bootstrap=stack.bootstrap_servers)}
    secure = home.path / SECURE
    keys = KeyFolder(secure / KEYS)
    users = [each for each in principals_in(secure) if each != BROKER]
    found = [
        *(Intruder(f"{WITHOUT_A_KEY}{each}", each) for each in users),
        Intruder(WITH_ANOTHERS_KEY, WORKER, keys.signer(OTHER)),
        Intruder(TAKEN_OVER, OTHER, keys.signer(OTHER), worker="other"),
        Intruder(WITH_A_KEY_OF_ITS_OWN, ADMIN, new_signer()),
    ]
    return {each: settings_of(secure, stack.bootstrap_servers, each.user) for each in found}


@pytest.fixture(scope="module", params=["open", "secure"])
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, leash: Path
) -> Iterator[UserFolder]:
    folder = UserFolder(tmp_path_factory.mktemp("forged"))
    prepare(folder)
    if request.param == "open":
        folder.run_ok("up", "--leash", str(leash))
    else:
        folder.run_ok("up", "--secure", "--leash", str(leash))
        folder.run_ok("setup", "passwords", OTHER)
        folder.run_ok("setup", "acls", "--apply", "--worker", "worker", "--worker", "other")
        folder.run_ok("setup", "keys", "--folder", str(SECURE / KEYS), "--init", "--worker", "other")
    yield folder
    folder.run_ok("down")


def is_secure(home: UserFolder) -> bool:
    """Returns whether the stack in a folder has users."""
    return (home.path / SECURE).exists()


@pytest.fixture(scope="module")
def attacked(home: UserFolder) -> Attack:
    """Writes all forged records while two searches run, then lets them end."""
    return asyncio.run(attack(home, intruders(home)))


@pytest.mark.parametrize("number", range(len(FORGERIES)), ids=[each.what[:70] for each in FORGERIES])
def test_a_forged_record_has_no_effect_or_is_found(number: int, attacked: Attack, home: UserFolder) -> None:
    forgery: Forgery = FORGERIES[number]
    stopped = is_secure(home) and forgery.signed
    written = attacked.written(number)
    applied = {name: attacked.outcomes.get(place) is Outcome.APPLIED for name, place in written.items()}
    assert applied == dict.fromkeys(written, forgery.effect and not stopped)
    found = set[str]().union(*(attacked.findings.get(place, ()) for place in written.values()))
    expected = set() if stopped else {forgery.found} - {""}
    assert found >= expected and bool(found) == bool(expected)


def test_a_search_that_was_not_to_be_changed_ends_as_it_should(attacked: Attack, home: UserFolder) -> None:
    unchanged = TRIALS if is_secure(home) else {HONEST: TRIALS[HONEST]}
    ends = {name: (attacked.ends[name]["status"], attacked.ends[name]["trials"]) for name in unchanged}
    assert ends == {name: ("DONE", trials) for name, trials in unchanged.items()}


def test_no_service_restarts_and_no_task_ends_before_its_time(attacked: Attack, home: UserFolder) -> None:
    assert (attacked.restarts, attacked.joins) == ({0}, 1)
    unchanged = TRIALS if is_secure(home) else [HONEST]
    assert {name: attacked.attempts[name] for name in unchanged} == dict.fromkeys(unchanged, 1)


def test_nothing_is_found_in_a_stream_that_was_not_changed(attacked: Attack, home: UserFolder) -> None:
    for name in TRIALS if is_secure(home) else [HONEST]:
        report = json.loads(home.run("verify-log", name, "--json").stdout)
        assert [each for each in report["findings"] if each["topic"] == EVENTS] == []
    assert home.run("verify-log").returncode == 1


secure_only = pytest.mark.parametrize("home", ["secure"], indirect=True)


@secure_only
async def test_a_client_without_a_user_is_not_let_in(home: UserFolder, tmp_path: Path) -> None:
    known = settings_of(home.path / SECURE, load(home.path / ".trackside").bootstrap_servers, ADMIN)
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


@secure_only
@pytest.mark.parametrize("number", range(len(FORGERIES)), ids=[each.what[:70] for each in FORGERIES])
def test_the_broker_lets_a_forged_record_be_written_by_the_documented_users(
    number: int, attacked: Attack, home: UserFolder
) -> None:
    users = {each.name: each.user for each in intruders(home)}
    written = {principal_of(users[name]) for name in attacked.written(number)}
    assert written == {*FORGERIES[number].written_by, ADMIN}


@secure_only
@pytest.mark.parametrize("number", range(len(FORGERIES)), ids=[each.what[:70] for each in FORGERIES])
def test_signatures_stop_a_forged_record_where_that_is_documented(number: int, attacked: Attack) -> None:
    """Of who has a key, some records are stopped by the role of that before it is looked at."""
    written = attacked.written(number).items()
    why = {name: attacked.distrust.get(place) for name, place in written if name.startswith(WITHOUT_A_KEY)}
    expected = WITHOUT_A_VALID_ONE if FORGERIES[number].signed else {None}
    assert why and {*why.values()} <= expected, why


@secure_only
def test_each_reason_why_a_record_is_distrusted_is_met_and_logged(attacked: Attack, home: UserFolder) -> None:
    met: dict[str, set[str]] = {}
    for number in range(len(FORGERIES)):
        for name, place in attacked.written(number).items():
            if place in attacked.distrust:
                met.setdefault(name, set()).add(attacked.distrust[place])
    assert met[WITHOUT_A_KEY + WORKER] == WITHOUT_A_VALID_ONE
    assert met[WITH_ANOTHERS_KEY] == {ANOTHER_ROLE, ANOTHER_WORKER, BROKEN_CHAIN, UNKNOWN_KEY}
    assert met[TAKEN_OVER] == {ANOTHER_WORKER, BROKEN_CHAIN, UNKNOWN_KEY}
    assert met[WITH_A_KEY_OF_ITS_OWN] == {BROKEN_CHAIN, UNKNOWN_KEY}
    log = (home.path / ".trackside" / "logs" / "dispatcher.log").read_text()
    lines = [json.loads(line) for line in log.splitlines() if "have no effect" in line]
    assert {line["reason"] for line in lines} == set().union(*met.values())


@secure_only
def test_the_list_of_keys_finds_no_forged_event_and_names_a_key_that_it_lacks(
    attacked: Attack, home: UserFolder, tmp_path: Path
) -> None:
    listed = home.path / SECURE / KEYS / PUBLIC
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
