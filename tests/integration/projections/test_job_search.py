"""S22: searches over jobs find what plain Python finds, also with names and values that are odd."""

import json
import re
from collections.abc import AsyncIterator
from decimal import Decimal
from functools import partial
from math import inf
from random import Random

import asyncpg
import pytest

from tests.integration.projections.given_jobs import GivenJob, added, write_jobs
from tests.integration.projections.naive_search import matches, random_condition, value_of
from trackside.contracts.envelope.refusals import JOB_SEARCH_CODES
from trackside.projections.database.postgres import Database
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.job_search.expressions import SearchRefused
from trackside.projections.job_search.parsing import parse_condition, parse_name
from trackside.projections.job_search.search import JobSearch, search_jobs
from trackside.projections.summaries.jobs import list_jobs, read_job

ODD = ["x'; DROP TABLE tasks; --", 'a"b', "back\\slash", "$1", "{tag}", "%s", "日本", "a.b", "q?", "x" * 900]


def some_jobs(random: Random) -> list[GivenJob]:
    """Draws jobs of all kinds: tasks with and without metrics, directories, parameters of several types."""
    jobs = []
    for number in range(60):
        params = {
            "lr": random.choice([0.1, 0.01, 1e-5, 3, 2**63 - 1, "auto", None]),
            "opt": random.choice(["adam", "sgd", "10", True, 10, ["sgd"]]),
            "model": {"depth": random.randint(1, 3), "name": random.choice("ab")},
            "data.size": random.randint(1, 3),
            random.choice(ODD): random.choice([1, "odd"]),
        }
        given = {name: params[name] for name in params if random.random() < 0.8}
        reported = {"lr": 0.5, "dropout": random.random()} if random.random() < 0.3 else {}
        metrics = {
            tag: {attempt: some_points(random) for attempt in random.sample([1, 2, 3], random.randint(1, 2))}
            for tag in ["loss", "train/loss", "val.acc", random.choice(ODD)]
            if random.random() < 0.6
        }
        tag, remark = random.choice([None, 0, 3, 10]), random.choice(["", "baseline", "Base"])
        job = GivenJob(f"job-{number}", {}, {}, reported, metrics, tag, remark)
        if number % 3:
            job.params, job.fields = given, some_fields(random, number)
        jobs.append(job)
    return jobs


def some_points(random: Random) -> dict[int, float]:
    # Quarters, so that no mean depends on the order of additions.
    values = [0.25, 1.0, -2.5, 1e300, float("nan"), float("inf"), float("-inf")]
    return {step: random.choice(values[:4] if random.random() < 0.8 else values) for step in range(2)}


def some_fields(random: Random, number: int) -> dict[str, object]:
    over = random.random() < 0.5
    return {
        "stream": f"search-{number % 4}",
        "task_type": random.choice(["digits", "imagenet"]),
        "trial": random.choice([None, number]),
        "name": random.choice([None, "a", "Ab", "ß"]),
        "state": "ended" if over else "active",
        "worker": random.choice([None, "w1"]),
        "ending": random.choice(["finished", "failed"]) if over else None,
        "objective": random.choice([None, 0.5, -1.0]),
        "started_ms": 10_000 + random.randint(0, 5),
        "ended_ms": 20_000 if over else None,
    }


@pytest.fixture(scope="module")
def jobs(seed: int) -> list[GivenJob]:
    return some_jobs(Random(seed))


@pytest.fixture
async def searched(module_tables: str, jobs: list[GivenJob]) -> AsyncIterator[Database]:
    async with opened_database(module_tables) as opened:
        if not await opened.transaction(lambda connection: connection.fetchval("SELECT count(*) FROM tasks")):
            await write_jobs(opened, jobs)
        yield opened


async def ids(database: Database, where: str) -> list[str]:
    return sorted(job["id"] for job in (await search_jobs(database, JobSearch(where, limit=999))).jobs)


async def all_ids(database: Database, search: JobSearch) -> list[str]:
    found: list[str] = []
    while True:
        page = await search_jobs(database, search)
        found += [job["id"] for job in page.jobs]
        if page.cursor is None:
            assert page.total == len(found)
            return found
        search = JobSearch(search.where, search.sort, search.descending, search.limit, page.cursor)


async def test_random_conditions_find_the_jobs_that_python_finds(
    searched: Database, jobs: list[GivenJob], seed: int
) -> None:
    random, found_some = Random(seed + 1), 0
    for _ in range(100):
        text = random_condition(random, jobs)
        condition = parse_condition(text)
        wanted = {job.job_id for job in jobs if matches(condition, job)}
        page = await search_jobs(searched, JobSearch(text, limit=999))
        assert {job["id"] for job in page.jobs} == wanted, text
        assert page.total == len(wanted)
        found_some += bool(wanted)
    assert found_some > 25


async def test_it_finds_the_same_whether_few_or_many_jobs_may_match(
    searched: Database, jobs: list[GivenJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metrics of few jobs are looked up one by one, those of many all at once."""
    conditions = (
        "metrics.loss.last < 1",
        'metrics.loss.mean >= 0.25 and metrics."val.acc".count == 2',
        "metrics.loss.min in (0.25, 1) and (params.lr > 0.001 or not metrics.loss.last == 1)",
        'metrics.loss.max < 0.5 or metrics."val.acc".max > 0.5 and (trial > 3 or metrics.loss.count > 1)',
    )
    for condition in conditions:
        search = JobSearch(condition, sort='metrics."train/loss".max', limit=999)
        monkeypatch.setattr(f"{search_jobs.__module__}.MAX_LIKELY", len(jobs) * 3)
        of_few = await search_jobs(searched, search)
        monkeypatch.setattr(f"{search_jobs.__module__}.MAX_LIKELY", -1)
        assert await search_jobs(searched, search) == of_few
        parsed = parse_condition(condition)
        assert {job["id"] for job in of_few.jobs} == {job.job_id for job in jobs if matches(parsed, job)}


@pytest.mark.parametrize("descending", [False, True])
async def test_pages_follow_each_other_in_the_order_that_python_sorts(
    searched: Database, jobs: list[GivenJob], descending: bool
) -> None:
    for sort in (
        "params.lr",
        "params.opt",
        "metrics.loss.last",
        "metrics.loss.mean",
        "name",
        "ended_at",
        "id",
    ):
        name = parse_name(sort, "sort")
        there = [job for job in jobs if rank(value_of(name, job)) < MISSING]
        wanted = sorted(jobs, key=lambda job: (job.job_id, job.stream))
        wanted = sorted(wanted, key=lambda job: sort_value(value_of(name, job)), reverse=descending)
        wanted = sorted(wanted, key=lambda job: rank(value_of(name, job)))
        found = await all_ids(searched, JobSearch("", sort, descending, limit=7))
        assert found == [job.job_id for job in wanted], sort
        assert len(there) > 5


MISSING = 9


def rank(value: object) -> int:
    """Returns where a value is among those of other types: numbers, texts, booleans, others, none."""
    if value is None:
        return MISSING
    return (
        2 if isinstance(value, bool) else 1 if isinstance(value, str) else 3 if isinstance(value, list) else 0
    )


def sort_value(value: object) -> tuple[float, str]:
    if isinstance(value, str):
        return 0.0, value
    return (float(value), "") if isinstance(value, int | float | Decimal) else (0.0, "")


async def test_a_job_is_shown_with_its_parameters_and_the_metrics_that_are_named(searched: Database) -> None:
    points = {1: {0: 9.0}, 2: {4: 2.0, 5: inf}}
    async with added(searched, GivenJob("shown", reported={"width": 3}, metrics={"shown/loss": points})):
        page = await search_jobs(searched, JobSearch("metrics.shown/loss.min < 3 and params.width == 3"))
    (job,) = page.jobs
    assert (job["id"], job["kind"], job["params"]) == ("shown", "directory", {"width": 3})
    loss = {"last": "inf", "min": 2.0, "max": 2.0, "mean": 2.0, "count": 2, "first_step": 4, "last_step": 5}
    assert job["metrics"] == {"shown/loss": {**loss, "non_finite": 1}}
    assert page.types == {"metrics.shown/loss.min": "float", "params.width": "int", "started_at": "time"}


async def test_a_job_has_the_same_state_in_a_list_and_in_a_search(searched: Database) -> None:
    points = {1: {0: 1.0}}
    async with added(
        searched,
        GivenJob("ended-task", some_fields(Random(1), 1) | {"state": "ended"}, metrics={"loss": points}),
        GivenJob("active-task", some_fields(Random(1), 1) | {"state": "active"}, metrics={"loss": points}),
        GivenJob("vanished", metrics={"loss": points}, status="VANISHED"),
        GivenJob("deleted-directory", metrics={"loss": points}, status="DELETED"),
        GivenJob("deleted-task", some_fields(Random(1), 1), metrics={"loss": points}, status="DELETED"),
    ):
        page = await searched.transaction(lambda connection: list_jobs(connection, 999, deleted=True))
        listed = {job.job_id: job.state for job in page.jobs}
        found = (await search_jobs(searched, JobSearch("state is not null", limit=999))).jobs
        for job in page.jobs:
            assert await searched.transaction(partial(read_job, job_id=job.job_id)) == job
    assert not {"deleted-task", "deleted-directory"} & {job["id"] for job in found}
    times = [job["started_at"] for job in found]
    assert times == sorted(times, reverse=True), "the newest jobs are first"
    assert listed.pop("deleted-directory") == listed.pop("deleted-task") == "deleted"
    assert (listed["ended-task"], listed["active-task"], listed["vanished"]) == (
        "ended",
        "active",
        "vanished",
    )
    assert listed.items() <= {(job["id"], job["state"]) for job in found}


async def test_a_parameter_of_several_types_is_compared_within_each(searched: Database) -> None:
    """S22: numbers are compared with numbers and texts with texts; another type is unknown."""
    given = enumerate([1, 0.5, "10", "9", True, None])
    mixed = [GivenJob(f"mixed-{number}", reported={"mixed": value}) for number, value in given]
    async with added(searched, *mixed):
        assert await ids(searched, "params.mixed < 2") == ["mixed-0", "mixed-1"]
        assert await ids(searched, 'params.mixed < "9"') == ["mixed-2"]
        assert await ids(searched, "params.mixed != true") == []
        assert await ids(searched, "not params.mixed < 2") == []
        assert await ids(searched, 'params.mixed is null and id contains "mixed"') == ["mixed-5"]
        assert await ids(searched, 'not params.mixed in (1, "9")') == ["mixed-1", "mixed-2"]
        for condition, kind in [
            ("points >= 0", "mixed"),
            ("params.mixed > 0", "float"),
            ("params.mixed == 1", "int"),
            ('params.mixed > ""', "text"),
            ("params.mixed == true", "bool"),
            ("params.mixed is null", "missing"),
        ]:
            page = await search_jobs(searched, JobSearch(condition, columns=("params.mixed",)))
            assert page.types["params.mixed"] == kind, condition


@pytest.mark.parametrize("name", [*ODD, "nul\0", "new\nline", "'", '"'])
async def test_names_and_texts_are_never_part_of_the_statement(searched: Database, name: str) -> None:
    quoted, stored = json.dumps(name), name.replace("\0", "\ufffd")
    odd = GivenJob("odd", reported={stored: stored}, metrics={name: {1: {0: 0.5}}})
    async with added(searched, odd):
        for where in (
            f"params.{quoted} == {quoted}",
            f"metrics.{quoted}.last == 0.5",
            f"tags contains {quoted}",
            f"params.{quoted} in ({quoted}, 3)",
            f"params.{quoted} contains {quoted}",
        ):
            assert "odd" in await ids(searched, where), where
            search = JobSearch(where, f"params.{quoted}", columns=(f"metrics.{quoted}.min",))
            assert "odd" in await all_ids(searched, search)
        assert await ids(searched, f"remark == {quoted} or name == {quoted}") == []


@pytest.mark.parametrize(
    ("search", "code", "message"),
    [
        (
            JobSearch("tag >= 3 and metrics.los.min < 1"),
            "unknown_metric",
            "column 14: no job has a metric 'los'; did you mean 'loss'?",
        ),
        (
            JobSearch("params.moddel < 1"),
            "unknown_parameter",
            "column 1: no job has a parameter 'moddel'; did you mean 'model'?",
        ),
        (JobSearch(sort="metrics.valacc.last"), "unknown_metric", "did you mean 'val.acc'?"),
        (JobSearch(sort="tags"), "wrong_type", "sorted by tags"),
        (JobSearch(sort="stat"), "unknown_field", "did you mean 'state'?"),
        (JobSearch(limit=0), "limit_range", "expected 1 to 999, got 0"),
        (JobSearch(limit=1000), "limit_range", "got 1000"),
        (JobSearch(limit=True), "limit_range", "got True"),
        (JobSearch(cursor="x"), "bad_cursor", "not a cursor"),
        (JobSearch(columns=("params.nothing",)), "unknown_parameter", "'nothing'"),
    ],
)
async def test_what_is_wrong_is_refused_with_its_place(
    searched: Database, search: JobSearch, code: str, message: str
) -> None:
    with pytest.raises(SearchRefused, match=re.escape(message)) as refused:
        await search_jobs(searched, search)
    assert refused.value.code == code
    assert code in JOB_SEARCH_CODES


async def test_a_cursor_is_of_one_search_and_refused_if_it_is_damaged(searched: Database, seed: int) -> None:
    page, random = await search_jobs(searched, JobSearch(sort="params.lr", limit=3)), Random(seed)
    assert page.cursor is not None
    for other in (
        JobSearch(sort="params.lr", limit=3, descending=True, cursor=page.cursor),
        JobSearch("points > 0", sort="params.lr", limit=3, cursor=page.cursor),
        JobSearch(sort="id", limit=3, cursor=page.cursor),
    ):
        with pytest.raises(SearchRefused, match="of another search"):
            await search_jobs(searched, other)
    found = await search_jobs(searched, JobSearch(sort="params.lr", limit=5, cursor=page.cursor))
    assert len(found.jobs) == 5
    for _ in range(50):
        at = random.randrange(len(page.cursor))
        damaged = page.cursor[:at] + random.choice("Aa9_-=\x00é") + page.cursor[at + 1 :]
        try:
            await search_jobs(searched, JobSearch(sort="params.lr", limit=3, cursor=damaged))
        except SearchRefused as refused:
            assert refused.code == "bad_cursor"  # noqa: PT017 - some are the cursor of the same page


async def test_a_search_that_takes_too_long_is_refused_with_what_to_do(
    searched: Database, module_tables: str
) -> None:
    connection = await asyncpg.connect(module_tables)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE trackside.metric_totals IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(SearchRefused, match="add a condition on stream") as refused:
                await search_jobs(searched, JobSearch("metrics.loss.min < 1"), limit_s=0.05)
    finally:
        await connection.close()
    assert refused.value.code == "search_too_slow"
    assert await ids(searched, "metrics.loss.min < 1")
