"""What each event does to a summary job: the guards that every reader folds with."""

from trackside.aggregates.summary.messages import (
    MAX_FILES,
    SummaryFileIndexed,
    SummaryFileQuarantined,
    SummaryFileReplaced,
    SummaryFileRetried,
    SummaryFileStatus,
    SummaryJobAnnotated,
    SummaryJobDeleted,
    SummaryJobFound,
    SummaryJobRestored,
    SummaryJobStatus,
    SummaryJobVanished,
)
from trackside.aggregates.summary.state import Summary, SummaryFile
from trackside.contracts.envelope.message import Record
from trackside.domain.outcome import Outcome

_Change = SummaryJobDeleted | SummaryJobRestored | SummaryJobAnnotated | SummaryFileRetried
_Fact = SummaryFileIndexed | SummaryFileReplaced | SummaryFileQuarantined | SummaryJobVanished


def begin(job_id: str, event: SummaryJobFound, record: Record) -> Summary:
    """Makes the job of a SummaryJobFound event."""
    now_ms = record.append_time_ms
    return Summary(job_id, event.job, now_ms, changed_ms=now_ms, changed_at=record.offset)


def evolve(job: Summary, record: Record) -> Outcome:
    """Folds one event into the job; changes it only if it returns APPLIED."""
    outcome = _evolve(job, record)
    if outcome is Outcome.APPLIED:
        job.changed_at, job.changed_ms = record.offset, record.append_time_ms
    return outcome


def _evolve(job: Summary, record: Record) -> Outcome:
    match event := record.message:
        case SummaryJobFound():
            return Outcome.DUPLICATE
        case SummaryJobDeleted() | SummaryJobRestored() | SummaryJobAnnotated() | SummaryFileRetried():
            return _in_order(job, event)
        case SummaryFileIndexed() | SummaryFileReplaced() | SummaryFileQuarantined() | SummaryJobVanished():
            return _fact(job, event, record.append_time_ms)
        case _:
            return Outcome.OVERTAKEN


def _in_order(job: Summary, event: _Change) -> Outcome:
    if event.change != job.changes + 1:
        return Outcome.DUPLICATE if event.change <= job.changes else Outcome.OVERTAKEN
    outcome = _retried(job, event) if isinstance(event, SummaryFileRetried) else _changed(job, event)
    job.changes += outcome is Outcome.APPLIED
    return outcome


def _fact(job: Summary, event: _Fact, now_ms: int) -> Outcome:
    if event.sequence != job.reported + 1:
        return Outcome.DUPLICATE if event.sequence <= job.reported else Outcome.OVERTAKEN
    if job.spec.task is not None or job.status is SummaryJobStatus.DELETED:
        return Outcome.OVERTAKEN
    match event:
        case SummaryFileIndexed():
            outcome = _indexed(job, event, now_ms)
        case SummaryFileReplaced():
            outcome = _replaced(job, event)
        case SummaryFileQuarantined():
            outcome = _quarantined(job, event)
        case SummaryJobVanished():
            gone = job.status is SummaryJobStatus.VANISHED
            outcome = Outcome.OVERTAKEN if gone else Outcome.APPLIED
    if outcome is Outcome.APPLIED:
        vanished = isinstance(event, SummaryJobVanished)
        job.status = SummaryJobStatus.VANISHED if vanished else SummaryJobStatus.ACTIVE
        job.reported += 1
    return outcome


def _changed(job: Summary, event: SummaryJobDeleted | SummaryJobRestored | SummaryJobAnnotated) -> Outcome:
    deleted = job.status is SummaryJobStatus.DELETED
    match event:
        case SummaryJobAnnotated():
            job.tag, job.remark = event.tag, event.remark
        case SummaryJobDeleted():
            if deleted and (job.purged or not event.purge):
                return Outcome.OVERTAKEN
            job.status, job.purged = SummaryJobStatus.DELETED, event.purge
        case SummaryJobRestored():
            if not deleted:
                return Outcome.OVERTAKEN
            job.status = SummaryJobStatus.ACTIVE
            if job.purged:
                job.files.clear()  # their points are read again, under new numbers
                job.purged = False
    return Outcome.APPLIED


def _indexed(job: Summary, event: SummaryFileIndexed, now_ms: int) -> Outcome:
    file = job.files.get(event.file)
    if file is None:
        if event.begin != 0 or event.end < 0 or len(job.files) >= MAX_FILES:
            return Outcome.OVERTAKEN
        job.numbered += 1
        file = job.files[event.file] = SummaryFile(job.numbered)
    elif event.begin != file.end or event.end < file.end:
        return Outcome.OVERTAKEN
    elif event.end == file.end and not file.code and job.status is SummaryJobStatus.ACTIVE:
        return Outcome.OVERTAKEN  # else it says that the file, or the directory, is there again as it was
    if event.end > file.end:
        file.fingerprint = event.fingerprint
    file.end, file.indexed_ms = event.end, now_ms
    file.records += event.records
    file.status, file.code, file.message, file.again_at_ms = SummaryFileStatus.INDEXED, "", "", 0
    return Outcome.APPLIED


def _replaced(job: Summary, event: SummaryFileReplaced) -> Outcome:
    if event.file not in job.files:
        return Outcome.OVERTAKEN
    job.numbered += 1
    job.files[event.file] = SummaryFile(job.numbered)
    return Outcome.APPLIED


def _quarantined(job: Summary, event: SummaryFileQuarantined) -> Outcome:
    file = job.files.get(event.file)
    if file is None or event.offset != file.end:
        return Outcome.OVERTAKEN
    file.status, file.code, file.message = SummaryFileStatus.QUARANTINED, event.code, event.message
    file.again_at_ms = event.again_at_ms
    return Outcome.APPLIED


def _retried(job: Summary, event: SummaryFileRetried) -> Outcome:
    file = job.files.get(event.file)
    if (
        job.status is SummaryJobStatus.DELETED
        or file is None
        or file.status is not SummaryFileStatus.QUARANTINED
        or not file.again_at_ms
    ):
        return Outcome.OVERTAKEN
    file.again_at_ms = 0
    return Outcome.APPLIED
