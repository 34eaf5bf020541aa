"""The service's metrics for Prometheus."""

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rnnlm.extensions.serving.model_service import Service

BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ServiceMetrics(Collector):
    """Metrics that are read from the service on request, so that sampling does not wait for a counter's lock."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Metric]:
        batcher, reloader = self.service.batcher, self.service.reloader
        for name, text, value in (
            ("rnnlm_prompts_running", "Prompts being continued", len(batcher.running)),
            ("rnnlm_prompts_waiting", "Prompts in the queue", len(batcher.waiting)),
            ("rnnlm_texts_waiting", "Texts in the queue, to score or explain", self.service.texts_waiting),
        ):
            yield GaugeMetricFamily(name, text, value=value)
        for name, text, value in (
            ("rnnlm_tokens_generated", "Tokens sampled", batcher.tokens),
            ("rnnlm_steps", "Model calls that sampled tokens: tokens / steps is the mean batch size", batcher.steps),
            ("rnnlm_texts_scored", "Texts scored or explained", self.service.texts_scored),
            ("rnnlm_model_swaps", "Models reloaded while serving", reloader.swaps),
            ("rnnlm_registry_failures", "Failed checks of the registry", reloader.failures),
        ):
            yield CounterMetricFamily(name, text, value=value)
        model = GaugeMetricFamily("rnnlm_model", "1 for the model that new requests use", labels=["model"])
        model.add_metric([reloader.current.label], 1)
        yield model


class Metrics:
    """The metrics of one service, in a separate registry.

    In the global registry, the metrics of two services in one process would be mixed.
    """

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("rnnlm_requests", "Answered requests", ["path", "status"], registry=self.registry)
        self.seconds = Histogram(
            "rnnlm_request_seconds",
            "Seconds until the last byte",
            ["path"],
            buckets=BUCKETS_SECONDS,
            registry=self.registry,
        )
        self.registry.register(ServiceMetrics(service))

    def text(self) -> bytes:
        return generate_latest(self.registry)


class MeasuringMiddleware:
    """Middleware that counts and times every request, including refused ones."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: frozenset[str]) -> None:
        self.app, self.metrics, self.paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        finally:
            # All unknown paths share one label, because a client could otherwise fill the memory with new labels.
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - start)
