"""A package index on loopback with one small wheel of a fake uv, a shell script."""

import hashlib
import io
import json
import ssl
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CERTIFICATE = Path(__file__).with_name("loopback.pem")
UV = """#!/bin/sh
if [ "$1" = --version ]; then echo "uv 0.13.8 (fake)"; exit 0; fi
mkdir -p "$UV_PROJECT_ENVIRONMENT/bin" && : > "$UV_PROJECT_ENVIRONMENT/bin/python"
echo "$@" >> "$UV_PROJECT_ENVIRONMENT/../uv-was-asked"
exit ${FAKE_UV_EXIT:-0}
"""
WHEEL_NAMES = [
    "uv-0.13.8-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "uv-0.13.8-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.whl",
    "uv-0.13.8-py3-none-macosx_11_0_arm64.whl",
    "uv-0.13.8-py3-none-musllinux_1_1_x86_64.whl",
]


def wheel(script: str = UV) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("uv-0.13.8.data/scripts/uv", script)
        archive.writestr("uv-0.13.8.dist-info/METADATA", "Name: uv\n")
    return content.getvalue()


@dataclass
class Index:
    """What the server serves, over HTTP or HTTPS, and the requests it got."""

    content: bytes = field(default_factory=wheel)
    sha256: str = ""
    as_html: bool = False
    tls: bool = False
    url: str = ""
    asked: list[str] = field(default_factory=list)

    def page(self) -> tuple[bytes, str]:
        digest = self.sha256 or hashlib.sha256(self.content).hexdigest()
        if self.as_html:
            links = "".join(f'<a href="../files/{name}#sha256={digest}">{name}</a>\n' for name in WHEEL_NAMES)
            return links.encode(), "text/html"
        files = [{"filename": n, "url": f"../files/{n}", "hashes": {"sha256": digest}} for n in WHEEL_NAMES]
        return json.dumps({"files": files}).encode(), "application/vnd.pypi.simple.v1+json"


@contextmanager
def serve_index(index: Index) -> Iterator[Index]:

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append(self.path)
            body, kind = index.page() if self.path == "/simple/uv/" else (index.content, "application/zip")
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if index.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        index.url = f"http{'s' * index.tls}://127.0.0.1:{server.server_address[1]}/simple"
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()
