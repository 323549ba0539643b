"""The folder of a stack that has a log of its own, while the environment names another Kafka."""

from pathlib import Path

import pytest

from trackside.embedded.errors import StackError
from trackside.embedded.installation import identify


def test_a_folder_with_a_log_is_not_started_on_another_kafka(tmp_path: Path) -> None:
    (tmp_path / "kafka" / "data").mkdir(parents=True)
    (tmp_path / "kafka" / "data" / "meta.properties").write_text("cluster.id=Aown\nnode.id=1\n")
    with pytest.raises(StackError, match="has a log of its own, Aown, but TRACKSIDE_KAFKA_BOOTSTRAP"):
        identify(tmp_path, lambda _: None, has_log=False)
    assert identify(tmp_path, lambda _: None, has_log=True) == "Aown"
