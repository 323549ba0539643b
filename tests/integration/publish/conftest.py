"""The dispatcher that others publish to: the same as for its own tests."""

from tests.integration.dispatcher.conftest import dispatcher, publisher

__all__ = ["dispatcher", "publisher"]
