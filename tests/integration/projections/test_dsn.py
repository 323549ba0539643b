"""A DSN that can't be read is not repeated: what is wrong with it is often the password."""

import pytest

from trackside.projections.postgres import BadDsnError, connect


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://trackside:" + "hun/ter2@127.0.0.1/trackside",
        "postgresql://trackside:" + "hun?ter2@127.0.0.1/trackside",
        "postgresql://trackside:" + "hun#ter2@127.0.0.1/trackside",
        "postgres//trackside:" + "ter2@127.0.0.1/trackside",
        "postgresql://trackside:" + "ter2@127.0.0.1:ter2/trackside",
    ],
)
async def test_a_malformed_dsn_is_refused_without_an_echo(dsn: str) -> None:
    with pytest.raises(BadDsnError, match="expected postgresql://") as refused:
        await connect(dsn, "trackside")
    assert "ter2" not in str(refused.value)
    assert refused.value.__cause__ is None and refused.value.__suppress_context__
