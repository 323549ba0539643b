from functools import partial

from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.replay.rebuild.parallel_fold import FoldRange, ProcessPool, balance_partitions

OPEN = partial(KafkaLog, "127.0.0.1:1", client_id="test")


def test_partitions_are_dealt_out_so_that_all_have_about_as_many_records() -> None:
    sizes = {("events", 0): 50, ("events", 1): 30, ("events", 2): 20, ("fleet", 0): 1}
    assert balance_partitions(sizes, 2) == [[("events", 0), ("fleet", 0)], [("events", 1), ("events", 2)]]
    assert balance_partitions({("events", 0): 5}, 4) == [[("events", 0)]], "nobody gets nothing"


def test_a_short_log_is_folded_by_one_process_and_a_part_has_its_own_partitions_only() -> None:
    processes = ProcessPool(8, OPEN)
    assert [processes.count(records) for records in (0, 99_999, 150_000, 10**9)] == [1, 1, 3, 8]
    cuts = {"scheduler": {("events", 0): 7, ("events", 1): 9}, "dispatcher": {("events", 1): 3}}
    fold_range = FoldRange(Topics(), {("events", 0): 2, ("events", 1): 0}, cuts)
    part = fold_range.part_of([("events", 1)])
    assert part.starts == {("events", 1): 0}
    assert part.cuts == {"scheduler": {("events", 1): 9}, "dispatcher": {("events", 1): 3}}
    assert fold_range.sizes() == {("events", 0): 5, ("events", 1): 9}
