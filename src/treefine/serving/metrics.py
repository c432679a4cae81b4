"""Counters and timings of a server, for Prometheus."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SENTENCES_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServerMetrics:
    """The Prometheus metrics of one app; two apps in a process do not share them."""

    CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()

        def counter(name: str, help_text: str, *labels: str) -> Counter:
            return Counter(f"treefine_{name}", help_text, labels, registry=registry)

        def histogram(name: str, help_text: str, label: str, buckets: Sequence[float] = _SECONDS_BUCKETS) -> Histogram:
            return Histogram(f"treefine_{name}", help_text, [label], buckets=buckets, registry=registry)

        self.answers = counter("answers", "Responses by route and HTTP status.", "route", "status")
        self.seconds = histogram("answer_seconds", "Time from request to response.", "route")
        self.sentences = counter("sentences", "Sentences parsed.", "model")
        self.words = counter("words", "Words parsed.", "model")
        self.queue = Gauge(
            "treefine_open_requests", "Requests that wait or are being parsed.", ["model"], registry=registry
        )
        self.refused = counter("refused", "Requests rejected because the queue was full.", "model")
        self.batch_sentences = histogram("batch_sentences", "Sentences per batch.", "model", _SENTENCES_BUCKETS)
        self.batch_seconds = histogram("batch_seconds", "Seconds per batch.", "model")

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
