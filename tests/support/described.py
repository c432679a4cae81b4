"""Fuzz a server with requests generated from its API description and with requests that reach the model.

Schemathesis generates valid and invalid requests from /openapi.json; most do not get far. Our own generators make valid
requests with odd text, broken CoNLL-U and contradictory decisions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from schemathesis.engine import events, from_schema

from treefine.serving.schema import ERRORS, ErrorJson, ParseAnswer, RefineAnswer, StepsAnswer
from treefine.serving.udpipe_api import ProcessAnswer

ODD = " \n\r\t\x00\x0b\x85\u2028\u00a0\u200d\u0301\ufeff\x1b|\\_#.'ab1İ中😀\ud800"
CONLLU_ROWS = (
    "1\ta\t_\tX\t_\t_\t2\tdep\t_\t_",
    "1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_",
    "2\tb\t_\t_\t_\t_\t0\troot\t_\tHead=yes",
)
ANSWERS: dict[str, type[BaseModel]] = {
    "parse": ParseAnswer,
    "refine": RefineAnswer,
    "steps": StepsAnswer,
    "process": ProcessAnswer,
}
SECONDS = 120  # timeout of a request; longer than the server's own limit
JSON, FORM = "application/json", "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Fuzzed:
    """The answers of a server."""

    statuses: Mapping[str, Counter[int]]  # by route
    faults: tuple[str, ...]  # answers that differ from the API description, each with its request

    @property
    def n_requests(self) -> int:
        """The number of requests."""
        return sum(each.total() for each in self.statuses.values())

    @property
    def n_errors(self) -> int:
        """The number of requests answered with a 500."""
        return sum(each[500] for each in self.statuses.values())


def fuzz_described(address: str, *, max_examples: int, random_seed: int = 0) -> Fuzzed:
    """Send requests that the description allows and requests that it forbids; the server must reject the latter."""
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    schema.config.generation.max_examples = max_examples
    schema.config.generation.database = "none"  # examples of earlier runs must not affect this one
    schema.config.seed = random_seed
    schema.config.request_timeout = SECONDS
    schema.config.checks.negative_data_rejection.expected_statuses = ["400", "404", "405", "413", "422"]
    schema.config.phases.stateful.enabled = False  # requests do not depend on each other
    schema.config.checks.positive_data_acceptance.enabled = False  # the description does not define CoNLL-U
    statuses: dict[str, Counter[int]] = {}
    faults: list[str] = []
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            faults.append(str(getattr(event, "info", event)))
        elif isinstance(event, events.ScenarioFinished):
            found = event.recorder
            counted = statuses.setdefault(found.label, Counter())
            for each in found.interactions.values():
                counted[each.response.status_code if each.response is not None else 0] += 1
            for case, checks in found.checks.items():
                failed = [check.failure_info.failure for check in checks if check.failure_info is not None]
                sent = found.interactions[case].request
                faults += [f"{sent.method} {sent.uri} {sent.body!r}: {each.title}. {each.message}" for each in failed]
    return Fuzzed(statuses, tuple(faults))


def fuzz_deeply(address: str, *, max_examples: int, random_seed: int = 0) -> Fuzzed:
    """Send requests that reach the model."""
    statuses: dict[str, Counter[int]] = {}
    faults: list[str] = []

    @seed(random_seed)
    @settings(
        max_examples=max_examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(request=st.one_of(_json_requests(), _udpipe_requests(), _raw_requests()))
    def ask(request: tuple[str, str, bytes]) -> None:
        route, content_type, body = request
        headers = {"Content-Type": content_type}
        answer = session.post(f"{address}{route}", data=body, headers=headers, timeout=SECONDS)
        statuses.setdefault(f"POST {route}", Counter())[answer.status_code] += 1
        fault = _fault(route, answer)
        if fault:
            faults.append(f"{route} {content_type} {body!r}: {fault}")

    with requests.Session() as session:
        ask()
    return Fuzzed(statuses, tuple(faults))


def _fault(route: str, answer: requests.Response) -> str:
    """Return what is wrong with an answer, or an empty string."""
    if answer.status_code not in (200, *ERRORS):
        return f"status {answer.status_code}: {answer.text[:200]}"
    if answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/plain"):
        return ""
    expected = ANSWERS[route.rpartition("/")[2]] if answer.status_code == 200 else ErrorJson
    try:
        expected.model_validate_json(answer.content, strict=True)
    except ValidationError as error:
        return f"status {answer.status_code}, and {error}"
    return ""


def _texts() -> st.SearchStrategy[str]:
    return st.text(st.one_of(st.sampled_from(ODD), st.characters()), max_size=60)


def _conllu() -> st.SearchStrategy[str]:
    """Return sentences whose rows are valid or have one cell replaced."""
    cell = st.one_of(st.sampled_from(["_", "0", "1", "9", "-1", "1.1", "2-1", "", "NeverHead=1|Keep=Yes"]), _texts())
    changed = st.tuples(st.sampled_from(CONLLU_ROWS), st.integers(0, 9), cell).map(
        lambda each: "\t".join([*each[0].split("\t")[: each[1]], each[2], *each[0].split("\t")[each[1] + 1 :]])
    )
    rows = st.lists(st.one_of(changed, st.sampled_from([*CONLLU_ROWS, "# sent_id = 1", "# text = a b"])), max_size=4)
    right = st.just(["# text = ab", CONLLU_ROWS[1], CONLLU_ROWS[0], CONLLU_ROWS[2]])
    end = st.sampled_from(["\n", "\n", "\r\n"])
    sentence = st.tuples(st.one_of(right, right, rows), end).map(lambda each: each[1].join([*each[0], "", ""]))
    return st.lists(sentence, max_size=3).map("".join)


def _json_requests() -> st.SearchStrategy[tuple[str, str, bytes]]:
    number = st.integers(0, 4)
    word = number.map(str)
    label = st.sampled_from(["root", "dep", "nsubj", "no label", "é"])
    decided = st.fixed_dictionaries(
        {},
        optional={
            "sentence": number,
            "heads": st.dictionaries(word, number, max_size=3),
            "labels": st.dictionaries(word, label, max_size=3),
            "not_heads": st.dictionaries(word, st.lists(number, max_size=5), max_size=3),
            "not_labels": st.dictionaries(word, st.lists(label, max_size=3), max_size=3),
        },
    )
    options: dict[str, st.SearchStrategy[Any]] = {
        "model": st.sampled_from(["", "", "", "en", "../en"]),
        "steps": st.integers(1, 20),
        "tags": st.sampled_from(["given", "predicted", "none"]),
        "keep": st.sampled_from(["marked", "given", "nothing"]),
        "projective": st.booleans(),
        "k": st.integers(1, 20),
        "stop_above": st.floats(0, 1),
        "constraints": st.lists(decided, max_size=2),
        "initial": st.sampled_from(["own", "empty", "given"]),
        "format": st.sampled_from(["json", "conllu"]),
    }
    words = st.lists(st.lists(_texts(), max_size=4), max_size=3)
    conllu = st.fixed_dictionaries({"conllu": _conllu()})
    one = st.one_of(st.fixed_dictionaries({"text": _texts()}), st.fixed_dictionaries({"words": words}), conllu)
    return st.one_of(
        _json_request("/v1/parse", one, options),
        _json_request("/v1/steps", one, {name: each for name, each in options.items() if name != "format"}),
        _json_request("/v1/refine", conllu, {name: each for name, each in options.items() if name != "initial"}),
    )


def _json_request(
    route: str, given_: st.SearchStrategy[dict[str, Any]], options: dict[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[tuple[str, str, bytes]]:
    chosen = st.fixed_dictionaries({}, optional=options)
    return st.tuples(given_, chosen).map(lambda each: (route, JSON, json.dumps(each[0] | each[1]).encode()))


def _udpipe_requests() -> st.SearchStrategy[tuple[str, str, bytes]]:
    stage = st.sampled_from(["", "none", "x"])
    options = {
        "model": st.sampled_from(["", "english", "en_ewt-ud-2.5", "cs", "../en"]),
        "tokenizer": st.sampled_from(["", "ranges", "presegmented;ranges", "normalized_spaces"]),
        "tagger": stage,
        "parser": stage,
        "input": st.sampled_from(["conllu", "horizontal", "vertical", "generic_tokenizer=ranges", "epe"]),
        "output": st.sampled_from(["conllu", "horizontal=paragraphs", "vertical", "plaintext", "matxin"]),
    }
    data = {"data": st.one_of(_texts(), _conllu())}
    return st.fixed_dictionaries(data, optional=options).map(
        lambda params: ("/process", FORM, urlencode(params, errors="surrogatepass").encode())
    )


def _raw_requests() -> st.SearchStrategy[tuple[str, str, bytes]]:
    """Return requests with malformed bodies."""
    routes = st.sampled_from([f"/v1/{name}" for name in ("parse", "refine", "steps")] + ["/process"])
    types = st.sampled_from([JSON, FORM, "multipart/form-data; boundary=b", "multipart/form-data", "text/plain", "é"])
    part = b'--b\r\nContent-Disposition: form-data; name="data"\r\n\r\n'
    nested = st.sampled_from(
        [b"[" * 50_000, b'{"text":' * 5_000, b'{"text": "a", "k": 1e999}', b'{"text": 1' + b"0" * 5000]
    )
    return st.tuples(routes, types, st.one_of(st.binary(), st.binary().map(lambda body: part + body), nested))
