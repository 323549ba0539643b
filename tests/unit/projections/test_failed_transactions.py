from prometheus_client import REGISTRY

from trackside.projections.database.failed_transactions import count_failures


def count() -> float:
    series = "trackside_projections_failed_transactions_total"
    return REGISTRY.get_sample_value(series, {"projection": "counted"}) or 0.0


def test_a_retry_is_counted_and_a_success_is_not() -> None:
    reasons: list[str | None] = []
    report = count_failures("counted", reasons.append)
    assert count() == 0
    for reason in ("waiting for Postgres: refused", "waiting for Postgres: refused", None):
        report(reason)
    assert count() == 2
    assert reasons == ["waiting for Postgres: refused", "waiting for Postgres: refused", None]
