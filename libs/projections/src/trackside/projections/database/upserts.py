"""Writes the rows of a table: inserts them, or updates those whose key exists."""

from trackside.domain.rows.table import Table, TableWrite
from trackside.projections.database.postgres import Connection


async def upsert(connection: Connection, write: TableWrite) -> None:
    """Inserts rows, or updates those with the same key as `Table.merged` does."""
    table = write.table
    if table.grouped:
        statement = f"DELETE FROM {table.name} WHERE {table.key[0]} = ANY($1)"  # noqa: S608 - our names
        await connection.execute(statement, write.groups)
    if write.rows:
        await connection.executemany(upsert_sql(table), write.rows)


def upsert_sql(table: Table) -> str:
    """Returns the statement that inserts a row of a table or updates the existing one."""
    names = ", ".join(table.columns)
    values = ", ".join(f"${at}" for at in range(1, len(table.columns) + 1))
    changes = ", ".join(_change(table, name) for name in table.columns[table.key_width :])
    action = "NOTHING" if table.insert_only else f"UPDATE SET {changes}"
    key = ", ".join(table.key)
    return f"INSERT INTO {table.name} ({names}) VALUES ({values}) ON CONFLICT ({key}) DO {action}"  # noqa: S608


def _change(table: Table, name: str) -> str:
    if name in table.keeps_first:
        return f"{name} = coalesce({table.name}.{name}, excluded.{name})"
    return f"{name} = excluded.{name}"
