"""The console counts what users do with it, and lets in the users of its file, as in a container."""

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import aiohttp

from tests.integration.installed import prepared, variables_of
from tests.integration.metrics.scraping import values
from tests.polling import poll_until
from tests.service_processes import service_process
from tests.stack import Servers
from trackside.embedded.ports import free_ports
from trackside.eventlog.settings.settings import StackSettings

PUBLISHED = "trackside_console_published_commands_total"
PING, PAUSE = "trackside.ping.v1", "trackside.pause-search.v1"
ACCEPTED, UNANSWERED, REFUSED = 200, 202, 409


def users_and_key(folder: Path) -> tuple[str, dict[str, str]]:
    """Writes the files of a console, and returns the token of its admin and the variables."""
    token, users, key = secrets.token_hex(24), folder / "console_users.yaml", folder / "console_session_key"
    users.write_text(f"- {{name: admin, role: admin, sha256: {sha256(token.encode()).hexdigest()}}}\n")
    key.write_text(secrets.token_hex(24) + "\n")
    return token, {
        "TRACKSIDE_CONSOLE_TOKENS_FILE": str(users),
        "TRACKSIDE_CONSOLE_SESSION_KEY_FILE": str(key),
    }


class Visitor:
    """A program that uses the console with a token."""

    def __init__(self, client: aiohttp.ClientSession, port: int, health_port: int) -> None:
        self._client, self._address, self._health_port = client, f"http://127.0.0.1:{port}", health_port

    async def is_ready(self) -> bool:
        try:
            async with self._client.get(f"http://127.0.0.1:{self._health_port}/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def status_of_page(self, headers: Mapping[str, str] | None = None) -> int:
        async with self._client.get(f"{self._address}/", headers=headers) as answer:
            return answer.status

    async def publish(self, kind: str) -> int:
        """Publishes a command by a form, and returns the status of the answer."""
        form = {"type": kind, "command_id": secrets.token_hex(8)}
        async with self._client.post(f"{self._address}/commands/some-search", data=form) as answer:
            return answer.status

    @asynccontextmanager
    async def open_page(self) -> AsyncIterator[None]:
        """Keeps the first page open for the duration of the block, with its content received."""
        async with self._client.get(f"{self._address}/live", params={"page": "/"}) as answer:
            while b"event: fragment" not in await answer.content.readline():
                pass
            yield

    async def counts(self) -> dict[str, list[float]]:
        return await values(self._health_port)


@asynccontextmanager
async def visiting(settings: StackSettings, folder: Path) -> AsyncIterator[Visitor]:
    token, files = users_and_key(folder)
    port, health_port = free_ports(2)
    ports = {"TRACKSIDE_CONSOLE_PORT": str(port), "TRACKSIDE_HEALTH_PORT": str(health_port)}
    headers = {"Authorization": f"Bearer {token}"}
    with service_process("console", {**variables_of(settings), **files, **ports}, folder):
        async with aiohttp.ClientSession(headers=headers) as client:
            visitor = Visitor(client, port, health_port)
            await poll_until(visitor.is_ready)
            yield visitor


async def test_a_console_counts_pages_what_it_sends_them_and_commands_by_their_answer(
    stack: Servers, tables: str, tmp_path: Path
) -> None:
    settings = prepared(stack, tables)
    async with visiting(settings, tmp_path) as visitor:
        assert await visitor.status_of_page() == 200
        assert await visitor.status_of_page({"Authorization": "Bearer unknown"}) == 401
        found = await visitor.counts()
        assert found["trackside_console_render_seconds_count"] == [1]
        assert found[PUBLISHED] == [0, 0, 0]
        async with visitor.open_page():
            found = await visitor.counts()
            assert found["trackside_console_open_pages"] == [1]
            assert found["trackside_console_render_seconds_count"][0] >= 2
            assert found["trackside_console_pushed_fragments_total"][0] >= 1

        async def is_closed() -> bool:
            return (await visitor.counts())["trackside_console_open_pages"] == [0]

        await poll_until(is_closed)
        assert await visitor.publish(PING) == UNANSWERED, "no dispatcher runs yet"
        with service_process("dispatcher", variables_of(settings), tmp_path):
            while await visitor.publish(PING) == UNANSWERED:
                pass  # it starts
            assert await visitor.publish(PING) == ACCEPTED
            assert await visitor.publish(PAUSE) == REFUSED
        accepted, refused, unanswered = (await visitor.counts())[PUBLISHED]
        assert (accepted, refused) == (2, 1)
        assert unanswered >= 1
