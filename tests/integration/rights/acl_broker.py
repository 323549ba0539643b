"""An embedded broker with an authorizer and passwords, in plain text: for tests of rights."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.polling import poll_until
from trackside.embedded.kafka import kafka
from trackside.embedded.ports import HOST, held_ports
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.settings.kafka_settings import KafkaSettings

ROOT = "root"
"""The user who may do everything."""
SETTINGS = """\
listeners=SASL_PLAINTEXT://{host}:{port},PLAINTEXT://{host}:{inner},CONTROLLER://{host}:{controller}
advertised.listeners=SASL_PLAINTEXT://{host}:{port},PLAINTEXT://{host}:{inner}
listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=\\
 org.apache.kafka.common.security.plain.PlainLoginModule required {users};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:root;User:ANONYMOUS
"""


def settings_of(bootstrap: str, user: str, folder: Path) -> KafkaSettings:
    """Returns the settings of a user of the broker, whose password is its name, in a file in a folder."""
    password = folder / f"{user}.password"
    password.touch(0o600)
    password.write_text(user)
    return KafkaSettings(
        kafka_bootstrap=bootstrap,
        kafka_security_protocol="SASL_PLAINTEXT",
        kafka_sasl_mechanism="PLAIN",
        kafka_user=user,
        kafka_password_file=password,
    )


@contextmanager
def acl_broker(folder: Path, users: list[str]) -> Iterator[str]:
    """Yields the address of a broker that knows these users, and root."""
    with held_ports(3) as (port, inner, controller):
        spec, _ = kafka.prepare(
            folder / "kafka", port, controller, lambda _: None, cluster="k" * 22, short_lived=True
        )
        known = " ".join(f'user_{user}="{user}"' for user in [ROOT, *users])
        settings = SETTINGS.format(host=HOST, port=port, inner=inner, controller=controller, users=known)
        properties = folder / "kafka" / "server.properties"
        kept = [
            line
            for line in properties.read_text().splitlines()
            if not line.startswith(("listeners=", "advertised.listeners="))
        ]
        properties.write_text("\n".join(kept) + "\n" + settings)
    with Path(spec.log).open("wb") as output:
        broker = subprocess.Popen(
            spec.argv, env={**os.environ, **spec.env}, cwd=spec.cwd, stdout=output, stderr=output
        )
    try:
        root = settings_of(f"{HOST}:{port}", ROOT, folder)
        asyncio.run(poll_until(lambda: _answers(root), within_s=120))
        yield f"{HOST}:{port}"
    finally:
        broker.kill()
        broker.wait()


async def _answers(kafka: KafkaSettings) -> bool:
    async with KafkaLog(kafka, "test") as log:
        try:
            await log.cluster_id()
        except TransientError:
            return False
    return True
