"""What the service tells Prometheus of itself."""

import time
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rnnlm.serving.service import Service

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ServiceFigures(Collector):
    """Read when asked, so that no token waits for a counter."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Metric]:
        batcher, keeper = self.service.batcher, self.service.keeper
        for name, text, value in (
            ("rnnlm_prompts_running", "Prompts stepped together now", len(batcher.running)),
            ("rnnlm_prompts_waiting", "Prompts that wait for a place", len(batcher.waiting)),
            ("rnnlm_texts_waiting", "Texts that wait to be scored", self.service.texts_waiting),
        ):
            yield GaugeMetricFamily(name, text, value=value)
        for name, text, value in (
            ("rnnlm_tokens_generated", "Tokens drawn", batcher.tokens),
            ("rnnlm_steps", "Calls of a model that gave tokens: tokens / steps is the mean batch", batcher.steps),
            ("rnnlm_texts_scored", "Texts scored", self.service.texts_scored),
            ("rnnlm_model_swaps", "Models exchanged while serving", keeper.swaps),
            ("rnnlm_registry_failures", "Looks at the registry that failed", keeper.failures),
        ):
            yield CounterMetricFamily(name, text, value=value)
        model = GaugeMetricFamily("rnnlm_model", "1 for the model that new requests get", labels=["model"])
        model.add_metric([keeper.current.label], 1)
        yield model


class Metrics:
    """One a service, none global: two services in one process do not mix."""

    def __init__(self, service: Service, paths: Iterable[str]) -> None:
        self.registry = CollectorRegistry()
        self.paths = frozenset(paths)
        self.requests = Counter("rnnlm_requests", "Answered requests", ["path", "status"], registry=self.registry)
        self.seconds = Histogram(
            "rnnlm_request_seconds", "Until the last byte", ["path"], buckets=SECONDS, registry=self.registry
        )
        self.registry.register(ServiceFigures(service))

    def text(self) -> bytes:
        return generate_latest(self.registry)


class Measured:
    """Counts and times every request, the refused ones too."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noting)
        finally:
            # A label for each path that somebody invents would fill the memory.
            path = scope["path"] if scope["path"] in self.metrics.paths else "other"
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - start)
