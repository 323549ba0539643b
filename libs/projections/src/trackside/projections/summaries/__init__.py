"""Reads summaries from Postgres: jobs, their tags, curves and other values. Nothing is locked or written.

The functions take a connection whose search path is the schema of the tables, and all queries of one
transaction see one snapshot if it was opened with `repeatable_read`.
"""
