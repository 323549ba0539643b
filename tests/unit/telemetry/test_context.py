import re
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from trackside.contracts.envelope.trace_context import trace_id
from trackside.telemetry import context, spans

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = "0af7651916cd43dd8448eb211c80319c"
DSN = "postgresql://trackside:" + "hunter2@127.0.0.1:5432/trackside"
W3C = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    resource = spans.resource_of("dispatcher", "one")
    context.set_recorder(spans.recorder(resource, SimpleSpanProcessor(exporter)))
    yield exporter
    context.set_recorder(None)


def test_without_an_exporter_a_span_still_continues_its_parents_trace() -> None:
    with context.start("decide", PARENT) as traceparent:
        assert W3C.fullmatch(traceparent)
        assert trace_id(traceparent) == TRACE
        assert traceparent != PARENT
        assert context.current() == traceparent
    assert context.current() is None
    with context.start("decide", "01" + PARENT[2:] + "-more") as traceparent:
        assert trace_id(traceparent) == TRACE, "a later version may have more fields"
    with context.start("decide", PARENT[:-2] + "00") as traceparent:
        assert traceparent.endswith("-00"), "what is not sampled stays so"


def test_a_span_without_a_parent_is_a_child_of_the_open_one_else_of_a_trace_of_its_own() -> None:
    with context.start("outer") as outer, context.start("inner") as inner:
        assert trace_id(inner) == trace_id(outer)
        assert inner != outer
        assert context.current() == inner
        with context.start("given", PARENT) as given:
            assert trace_id(given) == TRACE
    first, second = context.new_traceparent(), context.new_traceparent()
    assert W3C.fullmatch(first)
    assert trace_id(first) != trace_id(second)


@pytest.mark.parametrize(
    "malformed",
    [
        "",
        "nonsense",
        PARENT.upper(),
        PARENT + "\n",
        PARENT + "-more",
        "ff" + PARENT[2:],
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{TRACE}-{'0' * 16}-01",
        PARENT.replace("7", "٧"),  # noqa: RUF001 - a digit that isn't ASCII
    ],
)
def test_a_malformed_parent_starts_a_new_trace_and_raises_nothing(malformed: str) -> None:
    with context.start("decide", malformed) as traceparent:
        assert W3C.fullmatch(traceparent)
        assert trace_id(traceparent) != TRACE


def test_so_many_of_the_traces_that_begin_here_are_sampled() -> None:
    context.set_sampling(0.25)
    try:
        assert 350 < sum(context.new_traceparent().endswith("-01") for _ in range(2_000)) < 650
        assert context.child_of(PARENT).endswith("-01"), "a trace that has begun keeps its decision"
    finally:
        context.set_sampling(1.0)


def test_an_unsampled_span_is_not_exported(exported: InMemorySpanExporter) -> None:
    with context.start("decide", PARENT[:-2] + "00"), context.start("ask"):
        pass
    assert exported.get_finished_spans() == ()


def test_a_kind_and_links_are_exported(exported: InMemorySpanExporter) -> None:
    with context.start("send", PARENT, kind="producer"):
        pass
    context.record(context.Span("trial", PARENT, None, 1, 2, links=(PARENT, "nonsense")))
    send, trial = exported.get_finished_spans()
    assert send.kind is SpanKind.PRODUCER
    (link,) = trial.links
    assert f"{link.context.trace_id:032x}" == TRACE
    assert (trial.start_time, trial.end_time, trial.parent) == (1, 2, None)


def test_an_exception_goes_on_and_is_on_its_span_without_a_secret(exported: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="hunter2"), context.start("connect"):
        raise ValueError(f"no database at {DSN}")
    (span,) = exported.get_finished_spans()
    assert not span.status.is_ok
    assert [event.name for event in span.events] == ["exception"]
    assert "hunter2" not in span.to_json() and "[redacted]" in str(span.status.description)
    assert context.current() is None


def test_an_exported_span_has_the_ids_that_were_yielded(exported: InMemorySpanExporter) -> None:
    with context.start("decide", PARENT, {"stream": "s-1", "events": 2}) as traceparent:
        pass
    (span,) = exported.get_finished_spans()
    assert span.context is not None
    assert span.parent is not None
    assert traceparent == f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert dict(span.attributes or {}) == {"stream": "s-1", "events": 2}
    assert span.resource.attributes["service.name"] == "trackside.dispatcher"
    assert span.resource.attributes["service.instance.id"] == "one"
