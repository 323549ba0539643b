"""Tuners and assessors that are separate processes, in any language, asked over topics."""

from trackside.aggregates.search.advice.advice_messages import AnswerAssessment, AnswerSuggestion
from trackside.contracts.envelope.topics import Topics
from trackside.dispatcher.advice.remote_assessors import RemoteAssessors
from trackside.dispatcher.advice.remote_exchange import RemoteExchange
from trackside.dispatcher.advice.remote_tuners import RemoteTuners
from trackside.dispatcher.intake.signatures import SignatureVerifier
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Log


class RemoteAdvisors:
    """Remote tuners and assessors; `limit_s` is their time for an answer unless a search sets another."""

    def __init__(
        self, into: Log, writer: RecordWriter, topics: Topics, signatures: SignatureVerifier, limit_s: float
    ) -> None:
        self._suggestions = RemoteExchange(
            into, writer, signatures, topics.suggestion_requests, topics.suggestions, AnswerSuggestion
        )
        self._assessments = RemoteExchange(
            into, writer, signatures, topics.assessment_requests, topics.assessments, AnswerAssessment
        )
        self.tuners = RemoteTuners(self._suggestions, limit_s)
        self.assessors = RemoteAssessors(self._assessments, limit_s)

    def receive(self, entry: Entry) -> None:
        """Receives a record of a topic of answers; raises UndecodableError for one that is not an answer."""
        is_assessment = entry.topic == self._assessments.answers.name
        (self._assessments if is_assessment else self._suggestions).receive(entry)
