"""A receiver of spans and lines of the log by OTLP over HTTP, as a collector is one."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

KINDS = {
    Span.SPAN_KIND_INTERNAL: "internal",
    Span.SPAN_KIND_PRODUCER: "producer",
    Span.SPAN_KIND_CONSUMER: "consumer",
    Span.SPAN_KIND_CLIENT: "client",
}


@dataclass(frozen=True)
class Received:
    """A span as it was received, with the service that sent it."""

    service: str
    instance: str
    span: Span
    attributes: dict[str, Any]

    @property
    def trace(self) -> str:
        return self.span.trace_id.hex()

    @property
    def id(self) -> str:
        return self.span.span_id.hex()

    @property
    def parent(self) -> str:
        return self.span.parent_span_id.hex()

    @property
    def name(self) -> str:
        return self.span.name

    @property
    def kind(self) -> str:
        return KINDS[self.span.kind]

    @property
    def is_error(self) -> bool:
        return bool(self.span.status.code == Status.STATUS_CODE_ERROR)

    @property
    def links(self) -> list[tuple[str, str]]:
        """The trace and the span of each link."""
        return [(link.trace_id.hex(), link.span_id.hex()) for link in self.span.links]

    @property
    def start_s(self) -> float:
        return self.span.start_time_unix_nano / 1e9

    @property
    def end_s(self) -> float:
        return self.span.end_time_unix_nano / 1e9


@dataclass(frozen=True)
class ReceivedLine:
    """A line of a log as it was received, with the service that sent it."""

    service: str
    line: LogRecord
    attributes: dict[str, Any]

    @property
    def text(self) -> str:
        return str(self.line.body.string_value)


class OtlpReceiver:
    """What was received so far; `url` is the endpoint."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.lines: list[ReceivedLine] = []
        self.url = ""

    def receive(self, path: str, body: bytes) -> bytes:
        """Takes in the body of a request; returns that of the response."""
        if path == "/v1/traces":
            self._take_spans(ExportTraceServiceRequest.FromString(body))
            return bytes(ExportTraceServiceResponse().SerializeToString())
        assert path == "/v1/logs", path
        self._take_lines(ExportLogsServiceRequest.FromString(body))
        return bytes(ExportLogsServiceResponse().SerializeToString())

    def _take_spans(self, request: ExportTraceServiceRequest) -> None:
        for of_resource in request.resource_spans:
            resource = values_of(of_resource.resource.attributes)
            sender = resource["service.name"], resource["service.instance.id"]
            for of_scope in of_resource.scope_spans:
                self.spans += [Received(*sender, each, values_of(each.attributes)) for each in of_scope.spans]

    def _take_lines(self, request: ExportLogsServiceRequest) -> None:
        for of_resource in request.resource_logs:
            service = values_of(of_resource.resource.attributes)["service.name"]
            for of_scope in of_resource.scope_logs:
                self.lines += [
                    ReceivedLine(service, each, values_of(each.attributes)) for each in of_scope.log_records
                ]


def values_of(attributes: Any) -> dict[str, Any]:
    """Returns attributes by name, those that are no lists."""
    return {each.key: _value(each) for each in attributes}


def _value(attribute: KeyValue) -> Any:
    return getattr(attribute.value, attribute.value.WhichOneof("value") or "string_value")


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """Runs a receiver on a free port of the loopback while the block does."""
    receiver = OtlpReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            answer = receiver.receive(self.path, body)
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, name="otlp-receiver")
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
