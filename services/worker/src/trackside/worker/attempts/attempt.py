"""Runs one attempt: locks, process, messages to and from it, and how it ended."""

import asyncio
import contextlib
import signal
from functools import partial
from typing import Any

import structlog

from trackside.contracts.envelope.message import Json
from trackside.contracts.fleet.fleet import CHECK_ARTIFACTS
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStatus
from trackside.worker.artifacts.store_client import StoreError
from trackside.worker.artifacts.summary_uploads import SummaryUploads
from trackside.worker.attempts.artifacts_in_use import ArtifactsInUse
from trackside.worker.attempts.attempt_secrets import AttemptSecrets
from trackside.worker.attempts.checkpoint_exchange import CheckpointExchange
from trackside.worker.attempts.conversation import Conversation
from trackside.worker.attempts.forkservers.descriptors import close_all, send_with_descriptors
from trackside.worker.attempts.forkservers.forkserver_connection import ForkserverGoneError, TaskProcess
from trackside.worker.attempts.memory.memory_at_end import MemoryAtEnd, memory_at_end
from trackside.worker.attempts.outcome import Ending, determine_ending, finished, load_failure, start_failure
from trackside.worker.attempts.output import read_lines
from trackside.worker.attempts.spec import AttemptContext, AttemptListener, AttemptSpec, assignment_of
from trackside.worker.attempts.task_messages import TaskMessages
from trackside.worker.child.channel.summary_spool import summaries_below
from trackside.worker.child.process.orphans import MAX_NAMED
from trackside.worker.messages.process_messages import (
    FROM_TASK,
    AnswerTaken,
    AttemptEnding,
    AttemptOver,
    ExitCommand,
    FromTask,
    LoadCommand,
    ProcessFree,
    TrainCommand,
    UnreadableMessageError,
    decode,
    encode,
)
from trackside.worker.reporting.journal import INPUTS
from trackside.worker.reporting.reporter import Reporter

log = structlog.get_logger("trackside.worker")

DRAIN_S = 1.0


class AttemptRun:
    """The run of one attempt; it trains once it has its devices."""

    def __init__(
        self,
        context: AttemptContext,
        spec: AttemptSpec,
        reporter: Reporter,
        listener: AttemptListener,
        traceparent: str,
    ) -> None:
        self.spec = spec
        self._context = context
        self._reporter = reporter
        self._listener = listener
        self._traceparent = traceparent
        self._process: TaskProcess | None = None
        self._requested_end: AttemptEnd | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._sent_ending: AttemptEnding | None = None
        self.conversation = Conversation(reporter, spec.instruction, spec.unresponsive_s, self.kill)
        loop = asyncio.get_running_loop()
        self._process_free: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[Ending] = loop.create_future()
        self._writer: asyncio.Future[asyncio.StreamWriter] = loop.create_future()
        self._giving_devices: asyncio.Task[None] | None = None
        self._killed, self._is_adopted, self._cut = False, False, b""
        self._unanswered: list[FromTask] = []
        self._exchange = CheckpointExchange(spec.checkpoints, reporter, self._send, self.stop)
        spool, waiting = summaries_below(context.journal.spool(spec.entry)), self.conversation.waiting
        limit_s = context.upload_timeout_s
        self.summaries = SummaryUploads(context.store, spool, reporter, self._send, waiting, limit_s)
        self._secrets = AttemptSecrets(context.secrets, spec)
        self._artifacts = ArtifactsInUse(context.inputs, reporter, self.conversation, self._send)
        said = self.conversation, self._exchange, self._artifacts, self.summaries
        self._messages = TaskMessages(reporter, listener, *said, self._on_over, self._on_free)

    @property
    def phase(self) -> TaskStatus:
        """The last phase that the task has reported."""
        return self._messages.phase

    @property
    def pid(self) -> int | None:
        """The id of the process; None before there is one."""
        return self._process.pid if self._process is not None else None

    async def ended(self) -> Ending:
        """Waits for the ending of the attempt; its process may exist for some more ms."""
        ending = await self._ended
        await self.summaries.finish(is_lost=self._requested_end is AttemptEnd.LOST)
        return ending

    async def run_to_end(self, has_devices: bool) -> None:
        """Runs the task until its process is gone or free; without devices it only loads at first."""
        try:
            ending = await self._run_to_end(has_devices)
        finally:
            self._writer.cancel()
            self._exchange.close()
            if self._giving_devices is not None:
                self._giving_devices.cancel()
            if self._process is None and not self._process_free.done():
                self._listener.gone()
            await self._artifacts.close()
            self._reporter.flow.release()
        if not self._ended.done():
            self._ended.set_result(ending)

    def train(self) -> None:
        """Sends the process TRAIN with its devices, after it began without them or was interrupted."""
        self._giving_devices = asyncio.get_running_loop().create_task(self._give_devices())

    def restore(self, process: TaskProcess, progress: list[FromTask | AnswerTaken]) -> None:
        """Takes over the process of an earlier worker, which the task told its `progress`; call it first."""
        self._process, self._is_adopted, self._cut = process, True, b"\n"
        self._artifacts.hold_inputs(self.spec.inputs)
        self._unanswered, is_usable = self._messages.restore(progress, process.in_log)
        if self.spec.keep_s:  # as long as this worker's host needs for a start
            process.keep_on(self.spec.entry.key, self.spec.keep_s, self.spec.silent_s)
        if not is_usable:
            self.stop(AttemptEnd.LOST, 0)

    def note_in_log(self) -> None:
        """Tells the forkserver how much of the task's progress is in the log."""
        if self._process is not None and self.spec.keep_s:
            self._process.note_in_log(self._reporter.progress.appended)

    def send_parameters(self, request: int, parameters: Json | None, problem: str) -> None:
        """Sends the process the answer to its request, once; reports again an answer that it has received."""
        if self._is_connected and self._messages.needs_parameters(request):
            self._send(encode(self._secrets.answer(request, parameters, problem)))

    def stop(self, end: AttemptEnd, grace_s: float | None = None) -> None:
        """Tells the process to end, and kills its group after `grace_s`; only the first call has an effect.

        `end` is how the attempt ends then, unless it has finished.
        """
        if self._requested_end is not None:
            return
        self._requested_end = end
        self._artifacts.cancel_inputs()
        self._secrets.cancel()
        if self._process is not None:
            if self._is_connected:
                self._send(encode(ExitCommand()))
            self._process.kill(signal.SIGTERM)
            self._kill_after(self._context.stop_grace_s if grace_s is None else grace_s, "SIGTERM")

    def stop_after_checkpoint(self, end: AttemptEnd, seconds: float) -> None:
        """Tells the process to end once it has saved a checkpoint, or after `seconds`."""
        self._exchange.stop_after_checkpoint(end, seconds, self.phase is TaskStatus.TRAINING)

    async def _run_to_end(self, has_devices: bool) -> Ending:
        if self._is_adopted:
            return await self._continue()
        warm_process = self.spec.process
        locks: list[int] = []
        try:
            if (failed := await self._fetch_inputs() or await self._secrets.resolve()) is not None:
                return failed
            if has_devices:
                locks = await self._acquire_locks()
            if warm_process is not None and not warm_process.exited.done():
                self._process, warm_process = warm_process, None
            elif self._requested_end is not None:
                return determine_ending(None, None, self._requested_end, self.phase)
            else:
                self._process = await self._context.forkserver.acquire()
        except OSError as error:
            return start_failure(error)
        except ForkserverGoneError:
            return determine_ending(None, None, self._requested_end, self.phase)
        else:
            self._process.exited.add_done_callback(self._on_exit)
            return await self._follow(self._process, locks, has_devices)
        finally:
            close_all(locks)
            if warm_process is not None:
                warm_process.close()  # it has exited, or does so when its channel closes

    async def _continue(self) -> Ending:
        """Follows the process of an earlier worker, unless its output can't be masked: then it is lost."""
        assert self._process is not None
        process = self._process
        process.exited.add_done_callback(self._on_exit)
        if await self._secrets.resolve() is not None:
            log.error("a task can't be taken over: a secret is missing", task=self.spec.entry.task_id)
            self._requested_end = AttemptEnd.LOST
            process.kill(signal.SIGKILL)
            process.close()
            return determine_ending(None, None, self._requested_end, self.phase)
        return await self._follow(process, [], has_devices=False)

    async def _fetch_inputs(self) -> Ending | None:
        """Fetches the inputs; returns the ending of a check, if that fails, or if the attempt is stopped."""
        is_check = self.spec.task_type.name == CHECK_ARTIFACTS
        if not (self.spec.inputs or is_check) or self._requested_end is not None:
            return None
        folder = self._context.journal.workdir(self.spec.entry) / INPUTS
        try:
            if is_check:
                return finished(await self._artifacts.missing(dict(self.spec.parameters)))
            await self._artifacts.fetch_inputs(self.spec.inputs, folder)
        except StoreError as error:
            return load_failure(error.code, str(error))
        except asyncio.CancelledError:
            if self._requested_end is None:
                raise
            return determine_ending(None, None, self._requested_end, self.phase)
        return None

    async def _acquire_locks(self) -> list[int]:
        device_ids = [host_device.id for host_device in self.spec.host_devices]
        return await self._context.locks.acquire(device_ids, self.spec.shared)

    def _kill_after(self, grace_s: float, what: str) -> None:
        if self._deadline is None:
            kill = partial(self.kill, f"trackside: still there {grace_s:g} s after {what}: killed")
            self._deadline = asyncio.get_running_loop().call_later(grace_s, kill)

    def kill(self, sentence: str) -> None:
        """Kills the processes of the task, if there are any; the sentence gets into its output."""
        if self._process is not None:
            self._killed = True
            self._reporter.output("stderr", [sentence])
            self._process.kill(signal.SIGKILL)

    async def _follow(self, process: TaskProcess, locks: list[int], has_devices: bool) -> Ending:
        code: int | None
        try:
            code = await self._run_in_process(process, locks, has_devices)
        except ForkserverGoneError:
            code = None
        finally:
            self.conversation.close()
            if self._deadline is not None:
                self._deadline.cancel()
            if not self._process_free.done():
                process.close()
        if self._ended.done():
            return self._ended.result()
        if process is self.spec.process and self.phase is TaskStatus.INIT:
            code = None  # it died before it got this task, which is not at fault
        written = self._context.journal.ending(self.spec.entry) or self._sent_ending
        memory = partial(self._memory_at_end, process)
        ending = determine_ending(written, code, self._requested_end, self.phase, memory)
        if self._requested_end is None:
            ending = self.conversation.ending(ending)
        return ending | {"leftovers": [*ending.get("leftovers", []), *process.leftovers][:MAX_NAMED]}

    async def _run_in_process(self, process: TaskProcess, locks: list[int], has_devices: bool) -> int | None:
        """Runs the task in its process; returns the exit code, or None if the process is free."""
        if self._is_adopted:
            self._context.cgroups.follow(process.pid, process.exited)
        else:
            await self._give_task(process, locks, has_devices)
        channel, writer = await process.connected()
        self._writer.set_result(writer)
        for message in self._unanswered:
            self._messages.handle(message)
        self.conversation.open(self._send)
        report, mask, unread = self._reporter.output, self._secrets.mask, process.take_unread()
        readers = [
            asyncio.create_task(self._read_messages(channel)),
            asyncio.create_task(read_lines(process.stdout, partial(report, "stdout"), mask, unread[0])),
            asyncio.create_task(read_lines(process.stderr, partial(report, "stderr"), mask, unread[1])),
        ]
        try:
            over: list[asyncio.Future[Any]] = [process.exited, self._process_free]
            await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
            self._reporter.flow.release()
            code = None if self._process_free.done() else process.exited.result()
            # Processes that have left the group may keep the pipes open: they are not waited for.
            await asyncio.wait(readers, timeout=DRAIN_S)
        finally:
            for task in readers:
                task.cancel()
            failures = await asyncio.gather(*readers, return_exceptions=True)
        task_id = self.spec.entry.task_id
        for failure in (each for each in failures if isinstance(each, Exception)):
            log.warning("messages or output of a task can't be read", task=task_id, reason=repr(failure))
        return code

    async def _give_task(self, process: TaskProcess, locks: list[int], has_devices: bool) -> None:
        """Sends a process the task, and the locks."""
        await self._context.cgroups.enter(process.pid, process.exited, self._listener.memory_cap())
        if self._requested_end is not None:  # stopped while it was forked: no code of the task has run
            process.kill(signal.SIGKILL)
        outputs = process.new_outputs() if process is self.spec.process else []
        if self.spec.keep_s:
            process.hold(self.spec.entry.key, self.spec.keep_s, self.spec.silent_s)
        assignment = assignment_of(self._context, self.spec, self._traceparent, len(outputs))
        messages = encode(self._secrets.given(assignment)) + encode(LoadCommand())
        if has_devices:
            messages += encode(TrainCommand(self.spec.torch_device))
        unsent = send_with_descriptors(process.channel, messages, [*outputs, *locks])
        close_all(outputs)
        close_all(locks)  # from here on the process holds them, until its end
        (await process.connected())[1].write(unsent)

    @property
    def _is_connected(self) -> bool:
        return self._writer.done() and not self._writer.cancelled()

    async def _give_devices(self) -> None:
        writer = await asyncio.shield(self._writer)
        try:
            locks = await self._acquire_locks()
        except OSError as error:
            log.error("a device can't be locked", task=self.spec.entry.task_id, reason=str(error))
            self.stop(AttemptEnd.LOST)
            return
        try:
            assert self._process is not None, "its channel is open"
            await self._context.cgroups.set_limit(self._process.pid, self._listener.memory_cap())
            with contextlib.suppress(OSError):  # it is dead: its exit code is reported
                await writer.drain()
                octets = self._begun_anew() + encode(TrainCommand(self.spec.torch_device))
                writer.write(send_with_descriptors(self._process.channel, octets, locks))
        finally:
            close_all(locks)

    def _send(self, octets: bytes) -> None:
        if self._process is not None and not self._process.exited.done():  # else what it sent would be lost
            self._writer.result().write(self._begun_anew() + octets)

    def _begun_anew(self) -> bytes:
        """Returns the end of the line that an earlier worker may have died in, once."""
        found, self._cut = self._cut, b""
        return found

    async def _read_messages(self, channel: asyncio.StreamReader) -> None:
        is_cut = self._is_adopted  # an earlier worker may have read the beginning of the first message
        try:
            while not self._process_free.done() and (octets := await channel.readline()):
                try:
                    message = decode(octets, FROM_TASK)
                except UnreadableMessageError:
                    if not is_cut:
                        raise
                    continue
                finally:
                    is_cut = False
                self._messages.handle(self._secrets.mask.message(message))
                if self._reporter.flow.is_full:  # the task waits too, once the channel is full
                    with self.conversation.waiting():
                        await self._reporter.flow.room()
        except ConnectionResetError:
            pass  # killed while it wrote
        except UnreadableMessageError as error:
            reason = self._secrets.mask.text(str(error))
            log.error("a task process sent an unreadable message", pid=self.pid, reason=reason)

    def _on_over(self, message: AttemptOver | AttemptEnding) -> None:
        """Ends the attempt before its process: by the ending on disk, or the one that was sent."""
        if self._ended.done():
            return
        if isinstance(message, AttemptEnding):
            self._sent_ending = message
        else:
            self._context.journal.sync_soon(self.spec.entry)
        written = self._context.journal.ending(self.spec.entry) or self._sent_ending
        if written is not None and self._requested_end is None:
            assert self._process is not None, "it sent a message"
            memory = partial(self._memory_at_end, self._process)
            self._ended.set_result(determine_ending(written, 0, None, self.phase, memory))
            self._kill_after(self._context.stop_grace_s, "its end")

    def _memory_at_end(self, process: TaskProcess) -> MemoryAtEnd:
        counted = self._context.cgroups.memory(process.pid)
        pressure, listener = self._context.pressure, self._listener
        return memory_at_end(counted, pressure, listener.peak_bytes(), listener.memory_cap())

    def _on_free(self, free: ProcessFree) -> None:
        """Frees the process for another task, unless a signal for this task is on its way to it."""
        assert self._process is not None, "it sent a message"
        if self._requested_end is not None or self._killed or not self._ended.done():
            self._process.kill(signal.SIGKILL)
            return
        if self._deadline is not None:
            self._deadline.cancel()
        process, self._process = self._process, None
        process.release()
        process.exited.remove_done_callback(self._on_exit)
        self._process_free.set_result(None)
        self._listener.free(process, free)

    def _on_exit(self, _: asyncio.Future[int]) -> None:
        self._listener.gone()
