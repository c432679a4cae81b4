"""What a server counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The numbers of one app; two apps in a process do not mix theirs."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.answers = Counter(
            "treefine_answers", "Answers by route and HTTP status.", ["route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "treefine_answer_seconds", "From a request to its answer.", ["route"], buckets=_SECONDS, registry=registry
        )
        self.sentences = Counter("treefine_sentences", "Sentences parsed.", ["model"], registry=registry)
        self.words = Counter("treefine_words", "Words parsed.", ["model"], registry=registry)
        self.queue = Gauge(
            "treefine_open_requests", "Requests that wait or are being parsed.", ["model"], registry=registry
        )
        self.refused = Counter("treefine_refused", "Requests that found the queue full.", ["model"], registry=registry)
        self.round_sentences = Histogram(
            "treefine_round_sentences",
            "Sentences that were parsed together.",
            ["model"],
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            registry=registry,
        )
        self.round_seconds = Histogram(
            "treefine_round_seconds", "How long that took.", ["model"], buckets=_SECONDS, registry=registry
        )

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self._registry)
