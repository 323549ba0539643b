"""Reads a recorded stream as what it is: a search, a run or an incremental job."""

from trackside.aggregates.rounds.state import job_of
from trackside.aggregates.run.state import run_of
from trackside.replay.history.point_in_time import NOW, PointInTime
from trackside.replay.history.recorded_stream import RecordedStream, read_beginning
from trackside.whatif.job_recording import JobRecording, read_job
from trackside.whatif.recording import Recording, read_recording
from trackside.whatif.run_recording import RunRecording, read_run

AnyRecording = Recording | RunRecording | JobRecording


async def read_stream(recorded: RecordedStream, point: PointInTime = NOW) -> AnyRecording:
    """Reads a stream up to a moment; raises NotRecordedError for one that what-if cannot re-evaluate."""
    begun = await read_beginning(recorded)
    if job_of(begun) is not None:
        return await read_job(recorded, point)
    return await (read_recording if run_of(begun) is None else read_run)(recorded, point)
