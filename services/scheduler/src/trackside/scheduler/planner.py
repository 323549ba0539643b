"""When and where the scheduler looks for places: round after round, only at what has changed. Pure."""

from trackside.scheduler.asks import Asks
from trackside.scheduler.board import Board
from trackside.scheduler.lines import Line, Turn, turn_of
from trackside.scheduler.moves import Move
from trackside.scheduler.placement import least_on_gpu
from trackside.scheduler.rounds import Busy, Crew, Kept, Round, Shadow

NOTE_MS = 500
"""How often it is looked who was overtaken."""


class Planner:
    """Plans round after round; remembers which places are kept, and for how long tasks were overtaken."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._kept: Kept = {}
        self._shadows: set[Shadow] = set()
        self._review_ms = 0
        self._hold_ms: int | None = None
        self._judge_ms: int | None = None
        self._note_ms = 0
        self._latest: dict[Crew, Turn] = {}
        self._version = -1

    def plan(self, now_ms: int, busy: Busy) -> list[Move]:
        """Gives what is to be decided now; `busy` says which streams can't be decided about."""
        board = self._board
        board.advance(now_ms)
        board.settle(busy)
        self._review(now_ms)
        self._hand_on_gained()
        one = Round(board, self._kept, now_ms, busy)
        moves = one.run()
        for worker_id, _, _ in sorted(self._shadows - one.shadows):
            board.hosts.gained[worker_id] = None
        self._shadows = one.shadows
        for crew, turn in one.latest.items():
            self._latest[crew] = max(self._latest.get(crew, turn), turn)
        if self._latest and now_ms >= self._note_ms:
            self._note_ms = now_ms + NOTE_MS
            self._note_overtaken(now_ms)
        return moves

    def next_due_ms(self) -> int | None:
        """Gives when there is something to decide without any news, ms since 1970."""
        board = self._board
        moments = [board.later.next_ms(), board.hosts.avoided.next_ms(), self._hold_ms, self._judge_ms]
        if len(board.waiting):
            moments.append(self._review_ms)
        if self._latest:
            moments.append(self._note_ms)
        if board.hosts.gained:
            moments.append(board.now_ms)
        moments += [kept[0] for kept in self._kept.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    def _review(self, now_ms: int) -> None:
        board = self._board
        if now_ms >= self._review_ms:
            self._review_ms = now_ms + max(1, min(10_000, board.policy.ageing_ms // 10))
            board.waiting.review(now_ms)
            board.behind.review(now_ms)
        judge_due = self._judge_ms is not None and now_ms >= self._judge_ms
        if board.hosts.version != self._version or judge_due:
            self._version = board.hosts.version
            self._judge_ms = board.hosts.next_judgement_ms(now_ms)
            board.fleet_changed()
        if self._hold_ms is not None and now_ms >= self._hold_ms:
            self._hold_ms = None
            for line in board.waiting.by_asks.values():
                self._mind_overtaken(line, now_ms)
        for task_id in [name for name, kept in self._kept.items() if kept[0] <= now_ms]:
            del self._kept[task_id]

    def _mind_overtaken(self, line: Line, now_ms: int) -> None:
        """Opens a line that was overtaken for too long, or sets the timer for that."""
        if not line.overtaken_ms or line.held:
            return
        due_ms = line.overtaken_ms + self._board.policy.hold_after_ms
        if due_ms <= now_ms:
            line.fresh = True
        else:
            self._hold_ms = due_ms if self._hold_ms is None else min(self._hold_ms, due_ms)

    def _hand_on_gained(self) -> None:
        """Tells each line which hosts it must look at again."""
        board = self._board
        if not board.hosts.gained:
            return
        hosts = [(name, board.hosts.by_id[name]) for name in board.hosts.gained]
        gained = [(name, host, host.openings) for name, host in hosts if host.open]
        board.hosts.gained.clear()
        for lines, look_ahead in ((board.waiting, board.policy.look_ahead), (board.behind, 0)):
            for line in lines.by_asks.values():
                if line.fresh:
                    continue
                least = least_on_gpu(line.asks, board.want(line))
                for name, host, openings in gained:
                    if openings.may_suit(line.asks, least, look_ahead) and host.serves(line.asks):
                        line.pending[name] = None

    def _note_overtaken(self, now_ms: int) -> None:
        board = self._board
        for line in board.waiting.by_asks.values():
            if line.overtaken_ms or line.is_open or line.never or not line.size:
                continue
            best = board.waiting.best(line, [], lambda _: False)
            if (
                best is not None
                and best.key is not None
                and self._has_overtaken(turn_of(best.key), line.asks)
            ):
                line.overtaken_ms = now_ms
                self._mind_overtaken(line, now_ms)
        self._latest.clear()

    def _has_overtaken(self, turn: Turn, asks: Asks) -> bool:
        """Says whether a task whose turn was later was placed where such tasks may go."""
        return any(
            latest > turn and asks.task_type in types and asks.queue in queues
            for (types, queues), latest in self._latest.items()
        )
