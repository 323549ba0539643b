"""The dispatcher that others publish to: the same as for its own tests."""

from tests.integration.dispatcher.conftest import place, publisher

__all__ = ["place", "publisher"]
