from pathlib import Path

import pytest

from trackside.contracts.topics import Topics
from trackside.eventlog.log_id import AnotherLogError, claim_folder, log_id_of
from trackside.eventlog.memory import MemoryLog


async def test_logs_of_one_cluster_with_other_prefixes_have_other_ids() -> None:
    log = MemoryLog()
    assert await log_id_of(log, Topics()) == "memory"
    assert await log_id_of(log, Topics(prefix="b.")) == "memory/b."


def test_a_folder_that_belongs_to_a_log_is_refused_to_another_one_and_stays_as_it_was(tmp_path: Path) -> None:
    claim_folder(tmp_path, "first")
    claim_folder(tmp_path, "first")
    with pytest.raises(AnotherLogError, match=r"belongs to the log first, but this log is second.*remove"):
        claim_folder(tmp_path, "second")
    claim_folder(tmp_path, "first")
    assert [path.name for path in tmp_path.iterdir()] == ["log-id"]
