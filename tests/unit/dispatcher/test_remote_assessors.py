"""What a request to a remote assessor has of a search, from its past alone; the time of one to a tuner."""

import asyncio

import pytest

from tests.unit.domain.given import search_running
from trackside.aggregates import documents
from trackside.aggregates.search.advice.advice_messages import AnswerSuggestion, SuggestionRequested
from trackside.aggregates.search.messages import Assessor
from trackside.aggregates.search.space.builtin_assessors import check_assessor
from trackside.aggregates.search.state import FeedRow, Search
from trackside.aggregates.search.trials.verdicts import last_report_of, still_counts
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.dispatcher.advice.advisor_process import AdvisorTimeout
from trackside.dispatcher.advice.remote_assessors import POINTS_MAX, TrialCurves, request_of
from trackside.dispatcher.advice.remote_exchange import REQUEST_BYTES_MAX, RemoteExchange
from trackside.dispatcher.intake.signatures import SignatureVerifier
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.memory import MemoryLog

ROWS: list[FeedRow] = [
    (0, 0, 0.5),
    (1, 0, "nan"),
    (0, 1, 0.25),
    (2, None, None),
    (1, None, None),
    (1, 0, 0.75),
    (0, "EARLY_STOPPED", 0.25),
    (3, "FAILED", None),
]


def search() -> Search:
    return search_running(assessor=Assessor(name="mine", remote=True, time_limit_s=5)).search


def taken(rows: list[FeedRow]) -> TrialCurves:
    courses = TrialCurves()
    courses.extend(rows)
    return courses


def test_trials_are_told_newest_first_each_with_the_reports_of_its_attempt_from_the_past_alone() -> None:
    request = request_of(search(), taken(ROWS), 30.0)
    assert request.running == [{"number": 1, "steps": [0], "values": [0.75], "omitted": 0}]
    first, second = request.ended
    assert first == {"number": 3, "steps": [], "values": [], "omitted": 0, "status": "FAILED", "value": None}
    assert (second["number"], second["values"], second["status"]) == (0, [0.5, 0.25], "EARLY_STOPPED")
    assert (request.rows, request.time_limit_s, request.omitted) == (8, 5, 0)
    asked = search()
    piecewise = TrialCurves()
    for row in ROWS:
        piecewise.extend([row])
    assert request_of(asked, piecewise, 30.0) == request_of(asked, taken(ROWS), 30.0)
    before = request_of(asked, piecewise, 30.0).request_id
    asked.assessor_failures.count += 1
    assert request_of(asked, piecewise, 30.0).request_id != before


def test_of_very_many_reports_and_trials_the_oldest_are_left_out() -> None:
    request = request_of(search(), taken([(0, step, 0.5) for step in range(POINTS_MAX + 3)]), 30.0)
    [trial] = request.running
    assert (trial["omitted"], trial["steps"][0], len(trial["values"])) == (3, 3, POINTS_MAX)
    rows: list[FeedRow] = [(0, 0, 0.5)]
    rows += [(trial, "SUCCEEDED", 0.123456789) for trial in range(1, 10_000)]
    request = request_of(search(), taken(rows), 30.0)
    assert len(request.running) == 1
    assert request.ended[0]["number"] == 9_999
    assert request.omitted == 9_999 - len(request.ended) > 0
    assert REQUEST_BYTES_MAX // 2 < len(request.model_dump_json()) < REQUEST_BYTES_MAX * 1.2


def test_the_options_of_an_assessor_elsewhere_are_for_it_to_judge() -> None:
    assert check_assessor({"name": "mine", "remote": True, "options": {"anything": 1}}) == []
    assert check_assessor({"name": "no name", "remote": True})
    assert check_assessor({"name": "mine"})


def test_a_trial_that_resumes_is_told_with_the_reports_that_count_again_with_their_verdicts() -> None:
    rows: list[FeedRow] = [(0, 0, 0.5), (0, 1, "nan"), (0, 2, 0.75), (0, None, None)]
    assert taken(rows).running == {}
    resumed = taken([*rows, (0, "RESUMED", 2)])
    assert resumed.running == {0: {"number": 0, "steps": [0, 1], "values": [0.5, "nan"], "omitted": 0}}
    begun_anew = taken([*rows, (0, 0, 0.25), (0, None, None), (0, "RESUMED", 1)])
    assert begun_anew.running[0]["values"] == [0.25]
    told = search()
    first: list[FeedRow] = [(0, 0, 0.5), (0, 1, 0.25), (1, 0, 0.5)]
    cases: list[tuple[list[FeedRow], tuple[bool, bool], int]] = [
        ([], (True, True), 1),
        ([(1, None, None)], (True, True), 1),
        ([(0, None, None)], (False, False), -1),
        ([(0, None, None), (0, "RESUMED", 1)], (True, False), 0),
        ([(0, None, None), (0, "RESUMED", 2)], (True, True), 1),
        ([(0, None, None), (0, 0, 0.75)], (False, False), 4),
        ([(0, None, None), (0, "RESUMED", 1), (0, None, None), (0, "RESUMED", 2)], (True, False), 0),
        ([(0, None, None), (0, 0, 0.75), (0, None, None), (0, "RESUMED", 1)], (False, False), 4),
    ]
    for later, counts, last in cases:
        told.assessor_feed = [*first, *later]
        assert (still_counts(told, 0), still_counts(told, 1)) == counts, later
        assert last_report_of(told, 0, len(told.assessor_feed)) == last, later


TOPICS = Topics()
EXAMPLE = documents.examples()[SuggestionRequested.wire_type()]


class Slow(MemoryLog):
    def __init__(self) -> None:
        super().__init__()
        self.asked, self.open = asyncio.Event(), asyncio.Event()

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Appended:
        self.asked.set()
        await self.open.wait()
        return await super().publish(topic, partition, record)


async def test_the_time_of_a_request_begins_when_it_is_in_the_log() -> None:
    log, requests = Slow(), TOPICS.suggestion_requests
    await log.ensure([requests])
    assert isinstance(EXAMPLE, SuggestionRequested)
    request = EXAMPLE.model_copy(update={"time_limit_s": 0.01})
    writer = RecordWriter("dispatcher", "1")
    verifier, answers = SignatureVerifier(), TOPICS.suggestions
    exchange = RemoteExchange(log, writer, verifier, requests, answers, AnswerSuggestion)
    asking = asyncio.create_task(exchange.ask(request, "a tuner"))
    await log.asked.wait()
    over, _ = await asyncio.wait({asking}, timeout=20 * request.time_limit_s)
    assert not over, "nobody could have read it"
    log.open.set()
    with pytest.raises(AdvisorTimeout, match=r"no answer to .* in 0\.01 s"):
        await asking
    place = (requests.name, partition_of(request.search_id, requests.partitions))
    assert len(await log.reader({place: 0}).read(1.0)) == 1
