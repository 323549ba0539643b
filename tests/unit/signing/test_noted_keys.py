from tests.unit.signing.given import STREAM, beginning, decoded, received, requiring
from trackside.aggregates.registry import AGGREGATES
from trackside.domain.folding.streams import Streams, dump
from trackside.eventlog.keys.decision_signer import new_signer
from trackside.eventlog.keys.noted_keys import NotedKeys


def test_a_reader_of_one_stream_folds_it_as_a_service_does() -> None:
    log, keys, alone = requiring(), NotedKeys(), Streams(AGGREGATES)
    log.decide(received())
    log.decide(beginning(), signer=new_signer())
    log.set_mode("off")
    log.set_mode("require")
    for _ in range(2):  # it may read again from the beginning
        alone = Streams(AGGREGATES)
        for entry in log.entries:
            record = decoded(entry)
            found = keys.noted(entry, record if record.envelope.stream == STREAM else None)
            if found is not None:
                alone.fold(found)
    assert dump(alone.by_id[STREAM]) == dump(log.stream)
    assert log.stream.root is None
