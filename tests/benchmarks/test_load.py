"""The clients of the server benchmarks notice all faults, and docs/serving.md shows the measurements."""

import asyncio
import json
from collections import Counter
from contextlib import suppress

import pytest

from benchmarks.pages.serving import SERVING_PAGE, fuzzed, outages, soaked
from benchmarks.pages.serving import loads as load_table
from benchmarks.pages.targets import SERVED, targets
from benchmarks.rows import read_rows
from benchmarks.server import load, loads, soak
from benchmarks.server.clients import Answer, Connection, Outcome, Request, ask_all, get
from benchmarks.server.load import growth, wrong_answers
from benchmarks.server.loads import LOADS, asked
from benchmarks.server.outages import LOAD, summed_up
from tests.benchmarks.test_speed_page import row_of
from tests.support.tiny import sample, tiny_parser
from treefine import write_treebank

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
BUSY = b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"


async def with_stand_in(answers, use):
    """Call `use` with the port of a server that gives these answers; None closes the connection."""
    left = iter(answers)
    answering = []

    async def answer(reader, writer):
        answering.append(asyncio.current_task())
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                data = next(left)
                if data is None:
                    break
                for start in range(0, len(data), 7):  # in small chunks, as over a network
                    writer.write(data[start : start + 7])
                    await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        try:
            return await use(server.sockets[0].getsockname()[1])
        finally:
            await asyncio.sleep(0)
            await asyncio.gather(*answering)


def outcomes_of(answers, **options):
    requests = iter([Request(number, get("/")) for number in range(2)])
    return asyncio.run(with_stand_in(answers, lambda port: ask_all(port, requests, clients=1, **options)))


def test_a_client_keeps_its_connection_and_records_each_answer():
    outcomes, surplus = outcomes_of([OK + b"a1", OK + b"b2"])

    assert [each.answer.body for each in outcomes] == [b"a1", b"b2"]
    assert [each.refusals for each in outcomes] == [[], []]
    assert surplus == 0


def test_a_client_that_may_retry_does_so_after_a_lost_connection_and_a_503():
    outcomes, _ = outcomes_of([None, OK + b"a1", BUSY, OK + b"b2"], retries=True)

    assert [each.answer.body for each in outcomes] == [b"a1", b"b2"]
    assert [[refusal.reason for refusal in each.refusals] for each in outcomes] == [["ConnectionResetError"], ["503"]]


def test_a_client_that_may_not_retry_accepts_any_answer():
    outcomes, _ = outcomes_of([None, BUSY])

    assert outcomes[0].answer is None
    assert outcomes[1].answer.status == 503


def test_an_answer_that_comes_twice_is_noticed():
    _, surplus = outcomes_of([OK + b"a1" + OK + b"a1", OK + b"b2"])

    assert surplus == len(OK) + 2


def test_a_closed_connection_cannot_send_requests():
    async def ask(port):
        connection = await Connection.to(port)
        connection.close()
        await connection.ask(get("/"))

    with pytest.raises(ConnectionResetError):
        asyncio.run(with_stand_in([], ask))


def conllu(*words):
    rows = (f"{number}\t{word}\t_\t_\t_\t_\t{number - 1}\tdep\t_\t_" for number, word in enumerate(words, start=1))
    return "".join(f"{row}\n" for row in rows) + "\n"


def test_an_answer_to_another_request_or_with_another_tree_is_noticed():
    texts = [conllu("a", "b"), conllu("c", "d")]
    given = asked(LOAD, texts, [loads.trees_of_conllu(text) for text in texts])
    right, mixed_up, other = texts[0], texts[0], texts[1].replace("\tdep", "\tobj")
    outcomes = [
        Outcome(number, Answer(200, {}, text.encode(), 0.0, 0.1))
        for number, text in ((0, right), (1, mixed_up), (1, other))
    ]

    assert wrong_answers(given, LOAD, outcomes) == 2
    assert summed_up(given, [*outcomes, Outcome(0)], 0)["unanswered"] == 1


def test_a_request_that_was_not_answered_with_200_does_not_count_as_served():
    texts = [conllu("a", "b"), conllu("c")]
    given = asked(LOAD, texts, [loads.trees_of_conllu(text) for text in texts])
    outcomes = [
        Outcome(1, Answer(200, {}, texts[1].encode(), 0, 1)),
        Outcome(0, Answer(504, {}, b"", 0, 1)),
        Outcome(0),
    ]
    watched = load.Watched(outcomes, 0, 2.0, [500.0], 0.1, 3.0)

    result = load.load_result(given, LOAD, watched) | load.compared_with_offline(given, watched, [1.0, 3.0])

    assert (result["requests"], result["sentences"], result["words_per_second"]) == (3, 1, 0)
    assert result["sentences_per_second"] == 0.5
    assert result["of_offline"] == 0.25


@pytest.mark.parametrize("kind", LOADS, ids=lambda kind: kind.name)
def test_each_kind_of_request_has_its_content_length(kind):
    head, _, body = kind.request("Grüße").partition(b"\r\n\r\n")

    assert f"Content-Length: {len(body)}".encode() in head
    assert b"HTTP/1.1" in head


def test_memory_growth_is_measured_in_mib_percent_and_per_minute():
    found = growth([100.0 + second for second in range(60)])

    assert found["grown_mib"] == 48
    assert found["grown_percent"] == 45.5
    assert found["slope_mib_per_minute"] == 60


def test_a_row_has_speed_latency_memory_and_the_offline_speed(tmp_path):
    (tmp_path / "en_ewt").mkdir()
    write_treebank(sample(20), tmp_path / "en_ewt" / "dev.conllu.xz")
    tiny_parser().save(tmp_path / "tiny")
    rows = tmp_path / "rows.jsonl"
    options = ["--seconds", "0.5", "--clients", "4", "--threads", "1", "--loads", "JSON", "--rows", str(rows)]

    load.measure_load([*options, "--model", str(tmp_path / "tiny"), "--treebanks", str(tmp_path)])

    (row,) = read_rows("load", path=rows)
    (found,) = row["result"].values()
    assert found["answers_by_status"] == {"200": found["requests"]}
    assert (found["other_trees"], found["surplus_bytes"], found["refusals"]) == (0, 0, {})
    assert found["requests"] % 20 == 0
    assert found["of_offline"] > 0
    assert 0 < found["rounds"]["share_of_time"] < 1.1
    assert found["memory"]["first_mib"] > 10
    assert "a sentence, JSON" in load_table(rows)


MEMORY = {"first_mib": 500.0, "last_mib": 501.0, "grown_mib": 1.0, "grown_percent": 0.2, "slope_mib_per_minute": 1.0}
LATENCY = {"p50": 400.0, "p95": 500.0, "p99": 600.0, "longest": 700.0}
COUNTS = {"requests": 100, "answers_by_status": {"200": 100}, "refusals": {}, "other_trees": 0, "surplus_bytes": 0}


def summed_over(memory):
    of_a_minute = {"requests": 10, "seconds": 60.0, "other_trees": 0}
    statuses = [Counter({"200": 15}), *[Counter({"200": 10})] * 7, Counter({"200": 5})]
    return soak.summed_up(
        [{"memory": each, "statuses": of, **of_a_minute} for each, of in zip(memory, statuses, strict=False)]
    )


def test_requests_of_all_kinds_take_turns_and_keep_their_trees():
    of_kinds = [asked(LOADS[0], ["a", "b", "c"], [["A"], ["B"], ["C"]]), asked(LOADS[1], ["d"], [["D"]])]
    both, kinds = soak.mixed(of_kinds, LOADS[:2])

    assert [kind.name for kind in kinds] == [LOADS[each].name for each in (0, 1, 0, 0)]
    assert both.expected == (["A"], ["D"], ["B"], ["C"])
    assert [each.number for each in both.requests] == [0, 1, 2, 3]
    assert both.requests[1].data == of_kinds[1].requests[0].data


def rows_of(tmp_path, *, of_offline=0.9, memory=MEMORY, lost=0, faults=0):
    settings = {"precision": "int8", "T": 3}
    config = {"model": "en", "settings": settings, "file": "en_ewt dev", "sentences": 100, "clients": 50}
    one = COUNTS | {
        "sentences": 1000,
        "sentences_per_second": 100.0,
        "words_per_second": 1200,
        "of_offline": of_offline,
        "latency_milliseconds": LATENCY,
        "memory": memory,
        "rounds": {"rounds": 40, "at_most": {"32": 40}, "share_of_time": 0.95},
        "processor_share": {"clients": 0.03, "server": 1.9},
    }
    outage = COUNTS | {"unanswered": lost, "latency_milliseconds": LATENCY, "refusals": {"503": 7}}
    stop = outage | {"stops": 3, "lost_under_way": lost, "exit_codes": [0], "seconds_to_start": [2.0]}
    speeds = {f"sentences_per_second{when}": 100.0 for when in ("", "_before", "_after")}
    sizes = {f"memory_mib_{when}": 500.0 for when in ("before", "after")}
    ended = {
        "overload": outage | speeds | sizes | {"clients": 600},
        "bad neighbours": outage | {"bad": {"400: 400": 3}},
        "kill -9": stop,
        "SIGTERM": stop,
    }
    asked_for = {
        "operations": 1,
        "requests": 20,
        "answers_by_status": {"POST /v1/parse": {"200": 12, "422": 8}},
        "errors_of_the_server": 0,
        "faults": faults,
    }
    fuzz_config = config | {"packages": {"schemathesis": "4"}}
    rows = [
        row_of("load", config | {"seconds": 60.0}, {"a sentence": one}),
        row_of("load", config | {"seconds": 60.0, "busy_processes": 2}, {"a sentence": one | {"of_offline": 0.2}}),
        row_of("soak", config | {"minutes": 8}, summed_over([400, 500, 600, 600, 600, 600, 601, 603])),
        row_of("outages", config, ended),
        row_of("fuzz", fuzz_config, {"made from its description": asked_for, "is_healthy_afterwards": True}),
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_the_page_shows_the_measurements(tmp_path):
    path = rows_of(tmp_path)

    assert "| a sentence | 50 | 100 | 90% | 400 ms | 600 ms |" in load_table(path)
    assert "| a sentence | 50 | 1,200 | 500 ms | 25 | 500 → 501 MiB |" in load_table(path)
    assert "| a sentence | 50, shared | 100 | 20% | 400 ms | 600 ms |" in load_table(path)
    assert "the memory changed by +0.5% after the first 5 minutes. All 85 responses" in soaked(path)
    assert "| MiB | 400 | 600 | 603 |" in soaked(path)
    assert "| kill -9 | 100 | 0 | 7 | 700 ms |" in outages(path)
    assert "| kill -9 | 100 × 200 | 7 × 503 | 400 ms | 600 ms |" in outages(path)
    assert "| generated from the API description | `POST /v1/parse` | 20 | 12 × 200, 8 × 422 |" in fuzzed(path)
    assert "missed" not in targets(SERVED, path)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"of_offline": 0.84}, "| 84% | a request has a sentence, 50 clients |"),
        (
            {"memory": MEMORY | {"grown_mib": 20.0, "grown_percent": 4.0}},
            "| 4% | a request has a sentence, 50 clients, +20.0 MiB |",
        ),
        ({"lost": 2}, "| 2 | SIGTERM |"),
        ({"lost": 2}, "| 2 | kill -9, of 100 requests |"),
        ({"faults": 1}, "| 1 | generated from the API description, of 20 requests |"),
    ],
)
def test_a_missed_target_is_marked(tmp_path, fault, said):
    lines = targets(SERVED, rows_of(tmp_path, **fault)).splitlines()

    (line,) = [line for line in lines if line.startswith(said)]
    assert line.endswith("| **missed** |")


def test_memory_that_grows_within_the_noise_meets_its_target(tmp_path):
    noise = MEMORY | {"grown_mib": 4.0, "grown_percent": 4.0}

    assert "missed" not in targets(SERVED, rows_of(tmp_path, memory=noise))


@pytest.mark.parametrize("name", SERVING_PAGE)
def test_a_table_without_rows_names_its_command(tmp_path, name):
    assert SERVING_PAGE[name](tmp_path / "none.jsonl").startswith("Not measured yet")
