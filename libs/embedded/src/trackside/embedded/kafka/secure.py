"""The secrets of a broker with TLS: an authority, the broker's certificate, a password for each principal.

Every file is readable by its owner only. What is there stays: a second start has the same authority and
passwords.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path

from trackside.contracts.wire.topic_rights import ADMIN, PUBLISHER, VIEWER
from trackside.embedded.files import write_whole
from trackside.embedded.kafka.certificates import Certificate, issue, new_authority
from trackside.embedded.options import StackOptions
from trackside.embedded.ports import HOST
from trackside.eventlog.settings.secure_folder import CA, NAME, password_file

CA_KEY, BROKER_PEM = "ca.key", "broker.pem"
BROKER = "broker"
"""The principal of the broker itself, by its password and by its certificate."""
ALWAYS = (BROKER, ADMIN, PUBLISHER, VIEWER)
PASSWORD_BYTES = 24


def is_secure(folder: Path) -> bool:
    """Returns whether a stack was started in a folder with users and TLS."""
    return (folder / NAME).is_dir()


def prepare_secrets(folder: Path, options: StackOptions) -> Path | None:
    """Makes the certificates and passwords of a stack that is to be secure, or was; None for an open one."""
    if not (options.secure or is_secure(folder)):
        return None
    found = folder / NAME
    make_secrets(found, [*(each.principal for each in options.services), *options.users])
    return found


def make_secrets(folder: Path, principals: Sequence[str]) -> None:
    """Makes the files that are missing in a folder: for the broker, and for principals."""
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    if not (folder / CA).exists():
        authority = new_authority("trackside up --secure")
        _write(folder / CA_KEY, authority.key)
        _write(folder / CA, authority.certificate)
    if not (folder / BROKER_PEM).exists():
        renew_certificate(folder)
    for principal in {*ALWAYS, *principals}:
        if not password_file(folder, principal).exists():
            write_password(folder, principal, new_password())


def new_password() -> str:
    """Returns a password of letters, digits, `-` and `_`."""
    return secrets.token_urlsafe(PASSWORD_BYTES)


def write_password(folder: Path, principal: str, password: str) -> None:
    """Replaces the file with the password of a principal."""
    write_whole(password_file(folder, principal), f"{password}\n")


def renew_certificate(folder: Path) -> None:
    """Makes the broker a new certificate of the folder's authority, which it reads at its next start."""
    authority = Certificate((folder / CA).read_bytes(), (folder / CA_KEY).read_bytes())
    made = issue(authority, BROKER, ["localhost", HOST])
    _write(folder / BROKER_PEM, made.key + made.certificate)


def principals_in(folder: Path) -> list[str]:
    """Returns the principals that have a password in a folder, sorted."""
    return sorted(path.stem for path in folder.glob("*.password"))


def scram_options(folder: Path) -> str:
    """Returns the arguments by which Kafka's storage is formatted with all users, one a line."""
    lines = []
    for principal in principals_in(folder):
        password = password_file(folder, principal).read_text("utf-8").strip()
        lines += ["--add-scram", f"SCRAM-SHA-512=[name={principal},password={password}]"]
    return "\n".join(lines) + "\n"


def broker_settings(folder: Path, relative: str, port: int, controller_port: int) -> str:
    """Returns the broker's settings in place of its open listeners; `relative` is the folder as it sees it.

    The controller's listener takes only the certificate of the broker itself.
    """
    password = password_file(folder, BROKER).read_text("utf-8").strip()
    return f"""\
listeners=SASL_SSL://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}
advertised.listeners=SASL_SSL://{HOST}:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=SASL_SSL
listener.security.protocol.map=CONTROLLER:SSL,SASL_SSL:SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={relative}/{BROKER_PEM}
ssl.truststore.type=PEM
ssl.truststore.location={relative}/{CA}
listener.name.controller.ssl.client.auth=required
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\\
 org.apache.kafka.common.security.scram.ScramLoginModule required username="{BROKER}" password="{password}";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{BROKER};User:CN={BROKER};User:{ADMIN}
"""


def _write(path: Path, content: bytes) -> None:
    write_whole(path, content.decode("ascii"))
