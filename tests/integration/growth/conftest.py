"""Fixtures: a directory that is read into a log."""

from tests.integration.summary_indexer.conftest import log, own_runs, sandbox, sandbox_and_log

__all__ = ["log", "own_runs", "sandbox", "sandbox_and_log"]
