"""Steps of runs as web pages show them: filtered, sorted and cut by Postgres, and as the nodes of a graph."""

from dataclasses import dataclass

from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.read_pool import SnapshotModels

STEP_SORTS = {
    "number": "number",
    "step": "step",
    "state": "state",
    "ready": "ready_at",
    "waited": "waited_s",
    "took": "took_s",
}
"""What steps may be sorted by, with the column."""


@dataclass(frozen=True, slots=True)
class StepFilter:
    """Which steps of a run are shown: those whose name contains `text`, in this state (empty: in any)."""

    run_id: str
    text: str = ""
    state: str = ""
    sort: str = "number"
    descending: bool = False
    limit: int = 50
    offset: int = 0


_WHERE = (
    "run_id = $1 AND ($2 = '' OR strpos(lower(step), lower($2)) > 0 OR strpos(lower(what), lower($2)) > 0) "
    "AND ($3 = '' OR state = $3)"
)


async def read_steps(models: SnapshotModels, wanted: StepFilter) -> list[ViewRow]:
    """Returns the rows of steps of a run, in the order that is wanted; missing times are last."""
    order = f"{STEP_SORTS[wanted.sort]} {'DESC' if wanted.descending else 'ASC'} NULLS LAST, number"
    statement = f"SELECT * FROM steps WHERE {_WHERE} ORDER BY {order} LIMIT $4 OFFSET $5"  # noqa: S608 - our columns
    return await models.fetch(
        statement, wanted.run_id, wanted.text, wanted.state, wanted.limit, wanted.offset
    )


async def count_steps(models: SnapshotModels, wanted: StepFilter) -> int:
    """Returns how many steps the filter admits."""
    statement = f"SELECT count(*) AS steps FROM steps WHERE {_WHERE}"  # noqa: S608 - our columns
    found = await models.fetch(statement, wanted.run_id, wanted.text, wanted.state)
    return int(found[0]["steps"])


async def count_step_states(models: SnapshotModels, run_id: str) -> dict[str, int]:
    """Returns how many steps of a run are in each state that some are in."""
    rows = await models.fetch(
        "SELECT state, count(*) AS steps FROM steps WHERE run_id = $1 GROUP BY state", run_id
    )
    return {row["state"]: row["steps"] for row in rows}


async def read_step(models: SnapshotModels, run_id: str, step: str) -> ViewRow | None:
    """Returns the row of a step of a run, with `spec`, its definition; None if there is no such step."""
    found = await models.fetch(
        "SELECT steps.*, (SELECT definition.value FROM runs CROSS JOIN LATERAL "
        "jsonb_array_elements(runs.spec -> 'steps') AS definition (value) "
        "WHERE runs.run_id = $1 AND definition.value ->> 'name' = $2) AS spec "
        "FROM steps WHERE run_id = $1 AND step = $2",
        run_id,
        step,
    )
    return found[0] if found else None


async def read_named_steps(models: SnapshotModels, run_id: str, names: list[str]) -> list[ViewRow]:
    """Returns name and state of steps of a run by their names, in the order of the definition."""
    return await models.fetch(
        "SELECT step, state FROM steps WHERE run_id = $1 AND step = ANY($2::text[]) ORDER BY number",
        run_id,
        names,
    )


async def read_dependents(models: SnapshotModels, run_id: str, step: str, limit: int) -> list[ViewRow]:
    """Returns name and state of steps that need a step, in the order of the definition."""
    return await models.fetch(
        "SELECT step, state FROM steps WHERE run_id = $1 AND needs ? $2 ORDER BY number LIMIT $3",
        run_id,
        step,
        limit,
    )


async def read_graph_steps(models: SnapshotModels, run_id: str) -> list[ViewRow]:
    """Returns what a graph and a timeline show of all steps of a run, in the order of the definition."""
    return await models.fetch(
        "SELECT number, step, what, kind, state, stage, needs, items, begun, open, ready_at, started_at, "
        "ended_at, waited_s, took_s, duration_s FROM steps WHERE run_id = $1 ORDER BY number",
        run_id,
    )


async def read_gates(models: SnapshotModels, run_id: str, state: str, limit: int) -> list[ViewRow]:
    """Returns gates of a run in a state such as open, those first that were opened first."""
    return await models.fetch(
        "SELECT * FROM gates WHERE run_id = $1 AND state = $2 ORDER BY opened_at, step LIMIT $3",
        run_id,
        state,
        limit,
    )


async def read_gate(models: SnapshotModels, run_id: str, step: str) -> ViewRow | None:
    """Returns the gate of a step; None before it was opened."""
    found = await models.fetch("SELECT * FROM gates WHERE run_id = $1 AND step = $2", run_id, step)
    return found[0] if found else None
