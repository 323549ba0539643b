"""Checks of topics before a service starts; the same for Kafka and the log in memory."""

from collections.abc import Mapping

from trackside.contracts.envelope.topics import Topic
from trackside.eventlog.errors import PreflightError


def check_partitions(topic: Topic, found: int | None) -> None:
    """Compares the number of partitions, None for a topic that isn't there; raises PreflightError."""
    if found is None:
        raise PreflightError(
            f"topic {topic.name} does not exist; create it with `trackside up`, or on a cluster of your own "
            "with `python -m trackside.cli.setup`"
        )
    if found != topic.partitions:
        raise PreflightError(
            f"topic {topic.name} has {found} partitions, expected {topic.partitions}: "
            "the number is fixed when the topic is created, since keys would move"
        )


def check_settings(topic: Topic, found: Mapping[str, str | None]) -> None:
    """Compares the settings that our guarantees rest on; raises PreflightError."""
    for name, wanted in topic.settings.items():
        if found.get(name) != wanted:
            raise PreflightError(
                f"topic {topic.name}: {name} is {found.get(name)}, expected {wanted}; "
                "set it with your Kafka tools and start again"
            )
