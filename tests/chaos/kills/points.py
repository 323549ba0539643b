"""The steps of a save, of a resume and of an instruction, and what can be killed at each of them."""

from dataclasses import dataclass
from typing import Literal

from tests.chaos.kills.cluster import TASK_BEGINS
from tests.chaos.kills.pausing import Point

Story = Literal["save", "resume", "instruction"]
WORKER, STORE_PROCESS, TASK, STORE = "worker", "store process", "task", "store"
_WORKER = "trackside.worker."
_SPOOL = f"{_WORKER}child.channel.spool:Spool."
_UPLOADS = f"{_WORKER}artifacts.uploads:"
_CHANNEL = f"{_WORKER}child.channel.worker_channel:WorkerChannel."
_REPORTER = f"{_WORKER}reporting.reporter:Reporter."
_CHECKPOINTS = f"{_WORKER}artifacts.checkpoints:Checkpoints."
_OPERATIONS = f"{_WORKER}artifacts.operations:"
_BLOBS = "trackside.artifacts.blobs.file_blobs:FileBlobs."
_CONVERSATION = f"{_WORKER}attempts.conversation:Conversation."
_INCARNATION = f"{_WORKER}incarnation:Incarnation."


@dataclass(frozen=True)
class Step:
    """A step of a story: the points on the way to it, where the process is held, and the victims.

    The task waits for it unless it is one of its end.
    """

    story: Story
    name: str
    path: tuple[Point, ...]
    victims: tuple[str, ...]
    is_of_end: bool = False


def _before(function: str) -> Point:
    return Point("before", function)


def _after(function: str) -> Point:
    return Point("after", function)


_ALL = (WORKER, STORE_PROCESS, TASK, STORE)
_NO_PROCESS_YET = (WORKER, TASK, STORE)
_NO_TASK_LEFT = (WORKER, STORE_PROCESS, STORE)

_SAVE: tuple[tuple[str, Point, tuple[str, ...]], ...] = (
    ("the task begins to hand over", _before(f"{_SPOOL}add"), _NO_PROCESS_YET),
    ("the copy is in the spool", _after(f"{_SPOOL}_copy"), _NO_PROCESS_YET),
    ("its record is in the spool", _after(f"{_SPOOL}add"), _NO_PROCESS_YET),
    ("the worker knows it", _before(f"{_UPLOADS}Uploads.add"), _NO_PROCESS_YET),
    (
        "the worker asks the store process",
        _before(f"{_WORKER}artifacts.store_client:StoreProcess.request"),
        _NO_PROCESS_YET,
    ),
    ("the store process begins", _before(f"{_OPERATIONS}put_items"), _ALL),
    ("a temporary file is written and read back", _after(f"{_BLOBS}_link"), _ALL),
    ("it is renamed", _after(f"{_BLOBS}_put"), _ALL),
    ("the store process answers", _after(f"{_OPERATIONS}put_items"), _ALL),
    ("the worker has the answer", _before(f"{_UPLOADS}Uploads._publish"), _ALL),
    ("ArtifactSaved is to be sent", _after(f"{_REPORTER}artifact_saved"), _ALL),
    ("ArtifactSaved is in the log", _before(f"{_UPLOADS}Uploads._on_appended"), _ALL),
    ("the file of the spool is removed", _after(f"{_UPLOADS}_remove"), _ALL),
)
_END: tuple[tuple[str, Point, tuple[str, ...]], ...] = (
    ("the task writes its ending", _before(f"{_WORKER}child.phases:_write_ending"), _NO_PROCESS_YET),
    ("the ending is written", _after(f"{_WORKER}child.phases:_write_ending"), _NO_PROCESS_YET),
    ("the worker waits for the last ones", _before(f"{_UPLOADS}Uploads.finish"), _NO_TASK_LEFT),
    ("AttemptEnded is to be sent", _after(f"{_REPORTER}ended"), _NO_TASK_LEFT),
    ("AttemptEnded is in the log", _before(f"{_WORKER}reporting.journal:Journal.remove"), _NO_TASK_LEFT),
)
_RESUME: tuple[tuple[str, Point, tuple[str, ...]], ...] = (
    ("the task asks for its checkpoint", _before(f"{_CHECKPOINTS}fetch"), _ALL),
    ("the worker asks the store process", _before(f"{_CHECKPOINTS}_get"), _ALL),
    ("the store process begins", _before("trackside.artifacts.store:Store.get"), _ALL),
    ("the checkpoint is fetched", _after("trackside.artifacts.store:Store.get"), _ALL),
    ("the worker answers", _after(f"{_CHECKPOINTS}fetch"), _ALL),
    ("the task has the checkpoint", _after(f"{_CHANNEL}fetch_checkpoint"), _ALL),
    ("the task says that it continues", _after(f"{_CHANNEL}resumed"), _ALL),
    ("TaskResumed is to be sent", _after(f"{_REPORTER}resumed"), _ALL),
    ("the first report is to be sent", _before(f"{_REPORTER}reports"), _ALL),
    ("the first report is sent", _after(f"{_REPORTER}reports"), _ALL),
    ("the next checkpoint is in the spool", _after(f"{_SPOOL}add"), _ALL),
)
_INSTRUCTION: tuple[tuple[str, Point, tuple[str, ...]], ...] = (
    ("the dispatcher decides", _before("trackside.domain.folding.task_commands:decide"), _ALL),
    (
        "the scheduler sends it",
        _after("trackside.scheduler.sending.device_commands:_instruction_command"),
        _ALL,
    ),
    ("the worker has it", _before(f"{_INCARNATION}_give_instruction"), _ALL),
    ("it is on its way to the task", _after(f"{_CONVERSATION}give"), _ALL),
    ("the task answers", _before(f"{_CHANNEL}acknowledge"), _ALL),
    ("the task has answered", _after(f"{_CHANNEL}acknowledge"), _ALL),
    ("the worker has the answer", _before(f"{_CONVERSATION}_report"), _ALL),
    ("InstructionAcknowledged is to be sent", _after(f"{_REPORTER}acknowledged"), _ALL),
    ("it is folded", _after("trackside.domain.tasks.task_instructions:acknowledged"), _ALL),
)
_RUNS = _before(f"{_INCARNATION}_run")
STEPS: tuple[Step, ...] = (
    *(Step("save", name, (at,), victims) for name, at, victims in _SAVE),
    *(Step("save", name, (at,), victims, is_of_end=True) for name, at, victims in _END),
    # The second attempt is the one that resumes.
    Step("resume", "RunTask has the checkpoints", (TASK_BEGINS, _RUNS), (WORKER, STORE_PROCESS, STORE)),
    *(Step("resume", name, (TASK_BEGINS, TASK_BEGINS, at), victims) for name, at, victims in _RESUME),
    *(Step("instruction", name, (at,), victims) for name, at, victims in _INSTRUCTION),
)
FUNCTIONS = {point.function for step in STEPS for point in step.path}
