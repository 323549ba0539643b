"""A server that reads requests as an inference service does, and gives each the same answer: its ceiling.

Writes its address as a line, and serves until it is ended.
"""

import asyncio
import json
import sys

from aiohttp import web

from trackside.incremental.serving.http_front import HEADERS, HOST

ANSWER = json.dumps({"outputs": [64.0] * 10, "model": "linear", "version": 1, "sha256": "0" * 64}).encode()


async def _predict(request: web.Request) -> web.Response:
    json.loads(await request.read())
    return web.Response(body=ANSWER, content_type="application/json", headers=HEADERS)


async def serve() -> None:
    """Serves on a port of loopback that is free."""
    app = web.Application()
    app.router.add_post("/predict", _predict)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, HOST, 0).start()
    sys.stdout.write(f"http://{HOST}:{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
