"""Databases of their own for measurements, next to the one of the stack."""

from urllib.parse import urlsplit, urlunsplit

import asyncpg

from trackside.projections.database.postgres import database
from trackside.projections.writing.migrate import migrate


async def create_database(dsn: str, name: str) -> str:
    """Creates an empty database on the server of `dsn`; returns its DSN."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


async def create_read_models(dsn: str, name: str) -> str:
    """Creates a database with the tables and views of the read models, without rows; returns its DSN."""
    created = await create_database(dsn, name)
    async with database(created) as opened:
        await opened.transaction(migrate)
    return created
