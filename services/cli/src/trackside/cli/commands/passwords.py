"""The command `setup passwords`: new passwords for users of a Kafka that this folder's stack runs."""

from collections.abc import Sequence
from pathlib import Path

from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.ids import is_identifier
from trackside.contracts.wire.topic_rights import ADMIN
from trackside.embedded import stack
from trackside.embedded.kafka.secure import BROKER, new_password, write_password
from trackside.eventlog.kafka.kafka_users import set_password
from trackside.eventlog.settings.secure_folder import password_file


def set_new(users: Sequence[str]) -> None:
    """Sets a new password for each user, at the broker first: whoever reads its file later is let in."""
    for user in users:
        if not is_identifier(user):
            raise BadUsage(f"{user!r} is not a name of a user: expected letters, digits, '.', '_' and '-'")
        if user == BROKER:
            raise BadUsage(f"{BROKER} is the broker itself: its password is set when its log is made")
    found = stack.find()
    if not found.status.secure:
        raise CommandFailed(
            f"the stack in {found.folder} runs without --secure: set passwords of another Kafka with its "
            "kafka-configs.sh"
        )
    folder = Path(found.status.secure)
    for user in users:
        password = new_password()
        run(set_password(Addresses().kafka_as(ADMIN), user, password))
        write_password(folder, user, password)
        screen.say(f"{user} has a new password, in {password_file(folder, user)}")
