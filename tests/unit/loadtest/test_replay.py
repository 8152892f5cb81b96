"""Replays over real sockets: what is sent when, and what becomes of each request, exactly once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from andes_jax.loadtest.connections import Connections, parse_url
from andes_jax.loadtest.dialect import Endpoint
from andes_jax.loadtest.prompts import Prompts
from andes_jax.loadtest.record import Run
from andes_jax.loadtest.replay import Counts, Replay
from andes_jax.request import QoeTarget, Tier
from andes_jax.workload.arrival import Arrival
from andes_jax.workload.outcome import summarise
from tests.unit.loadtest.scripted import LAST_CHUNK, STREAM_HEAD, Peer, answer, chunk, ending, event, scripted_server

READER = QoeTarget(1.0, 5.0)


async def replay(
    script: Callable[[Peer], AbstractAsyncContextManager],
    arrivals: list[Arrival],
    *,
    stop_after_s: float | None = None,
    **options,
) -> Run:
    async with scripted_server(script) as server:
        address = parse_url(server.url)
        connections = Connections(address)
        task = Replay(connections, Endpoint(address, "m", features=frozenset({"token_ids"})), Prompts(1), **options)
        if stop_after_s is not None:
            asyncio.get_running_loop().call_later(stop_after_s, task.stop)
        async with asyncio.timeout(20):
            run = await task.run(arrivals)
        connections.close()
    assert task.counts.running == 0 and task.counts.sent == len(run.records)
    assert task.counts.ended == Counter(record.outcome.finish for record in run.records)
    return run


def finishes(run: Run) -> list[str]:
    return [record.outcome.finish for record in run.records]


async def speak(peer: Peer) -> None:
    """Every reply has a token every 20 ms."""
    while True:
        body = await peer.request()
        peer.send(STREAM_HEAD)
        for _ in range(body["max_tokens"]):
            await asyncio.sleep(0.02)
            peer.send(event("a"))
        peer.send(ending(body["max_tokens"]))


async def test_every_request_is_sent_and_counted_once():
    arrivals = [Arrival(0.01 * number, 3, 1 + number % 4, Tier(number % 3), READER) for number in range(40)]
    run = await replay(speak, arrivals)
    assert [record.index for record in run.records] == list(range(40))
    assert set(finishes(run)) == {"length"} and not any(record.short for record in run.records)
    found = summarise(run.outcomes, run.duration_s)
    assert found["all"].requests == 40 and found["realtime"].requests == 14
    assert found["all"].tokens_per_s * run.duration_s == pytest.approx(sum(each.output_tokens for each in arrivals))
    assert all(record.prompt_tokens == 4 for record in run.records)  # as the server says


async def test_token_times_are_those_of_the_wire_and_count_from_when_a_request_was_due():
    written: list[float] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(STREAM_HEAD, chunk(b": \n\n"))
        for delay_s, text in ((0.15, "a"), (0.05, "b"), (0.1, "c")):
            await asyncio.sleep(delay_s)
            written.append(peer.send(event(text)))
        peer.send(ending(3))

    loop = asyncio.get_running_loop()
    began_s = loop.time()
    run = await replay(script, [Arrival(0.2, 3, 3, qoe=READER)])
    outcome = run.records[0].outcome
    # The server's clock is the client's, so the only difference is the way between them.
    gaps = [second - first for first, second in zip(written, written[1:], strict=False)]
    assert outcome.ttft_s is not None and outcome.ttft_s >= 0.15
    assert written[0] - began_s - 0.2 - 0.1 < outcome.ttft_s <= written[0] - began_s - 0.2 + 0.1
    measured = (outcome.token_times_s[1:] - outcome.token_times_s[:-1]).tolist()
    assert measured == pytest.approx(gaps, abs=0.04)


async def test_arrivals_do_not_wait_for_replies():
    sent: list[float] = []

    async def slow(peer: Peer) -> None:
        body = await peer.request()
        sent.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.6)
        peer.send(STREAM_HEAD, event("a"), ending(body["max_tokens"]))

    run = await replay(slow, [Arrival(0.05 * number, 3, 1) for number in range(5)])
    assert finishes(run) == ["length"] * 5
    assert max(sent) - min(sent) < 0.5  # the first reply was still to come
    assert run.duration_s < 2.0
    assert max(record.late_s for record in run.records) < 0.2


async def test_a_client_that_is_held_up_says_so():
    def hold_up(counts: Counts) -> None:
        if counts.sent == 1:
            end_s = loop.time() + 0.2
            while loop.time() < end_s:  # what a client without enough CPU looks like
                pass

    loop = asyncio.get_running_loop()
    run = await replay(speak, [Arrival(0.0, 3, 5), Arrival(0.15, 3, 5)], on_tick=hold_up)
    assert run.late and run.records[1].late_s > 0.1
    # Its own delay is in the times, not hidden.
    assert run.outcomes[1].ttft_s is not None and run.outcomes[1].ttft_s > run.records[1].late_s


async def test_readers_who_leave_close_their_stream():
    gone: list[int] = []

    async def watched(peer: Peer) -> None:
        await peer.request()
        peer.send(STREAM_HEAD)
        if peer.number == 1:
            peer.send(event("a"), event("b"))
        assert await peer.reader.read(1) == b""
        gone.append(peer.number)

    arrivals = [
        Arrival(0.0, 3, 9, qoe=READER, cancel_after_s=0.2),
        Arrival(0.1, 3, 9, qoe=READER, cancel_after_s=0.2),
    ]
    run = await replay(watched, arrivals)
    assert finishes(run) == ["cancelled", "cancelled"] and sorted(gone) == [0, 1]
    found = summarise(run.outcomes, run.duration_s)["all"]
    assert (found.interrupted, found.cancelled) == (1, 1)
    assert len(run.outcomes[1].token_times_s) == 2
    assert run.duration_s < 1.0


async def test_a_reader_who_would_leave_later_gets_the_whole_reply():
    run = await replay(speak, [Arrival(0.0, 3, 2, qoe=READER, cancel_after_s=5.0)])
    assert finishes(run) == ["length"] and run.duration_s < 2.0


ODD_ENDS = {
    "refused": answer({"error": {"message": "busy", "code": "engine_overloaded"}}, 503),
    "failed": answer({"error": {"message": "broken"}}, 500),
    "failed early": STREAM_HEAD + event("a"),
    "failed tail": STREAM_HEAD + event("a") + LAST_CHUNK,
    "failed event": STREAM_HEAD + event("a") + chunk(b'data: {"error":{"message":"the step failed"}}\n\n') + LAST_CHUNK,
    "failed silent": b"",
    "failed other": b"220 mail\r\n\r\n",
    "stop": STREAM_HEAD + event("a") + ending(1, "stop"),
    "length": STREAM_HEAD + event("a") + event(finish="length"),  # its end has come, its connection's end is rude
}


@pytest.mark.parametrize("kind", ODD_ENDS)
async def test_how_replies_end(kind):
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(ODD_ENDS[kind])

    run = await replay(script, [Arrival(0.0, 3, 3, qoe=READER)] * 3)
    assert finishes(run) == [kind.split()[0]] * 3
    wrong = kind.startswith(("failed", "refused"))
    assert all((record.error is not None) is wrong for record in run.records)
    assert all(outcome.qoe == (0.0 if wrong else 1.0) for outcome in run.outcomes)
    assert all(record.short is not wrong for record in run.records)


async def test_a_server_that_dies_in_mid_run():
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number == 0:
            peer.send(STREAM_HEAD, event("a"), ending(1))
        peer.writer.transport.abort()

    run = await replay(script, [Arrival(0.05 * number, 3, 1) for number in range(4)])
    assert Counter(finishes(run)) == {"length": 1, "failed": 3} or Counter(finishes(run)) == {"failed": 4}
    assert len(run.records) == 4


async def test_stopping_leaves_the_rest_unfinished_or_unsent():
    arrivals = [Arrival(0.0, 3, 2), Arrival(0.1, 3, 400), Arrival(30.0, 3, 2), Arrival(31.0, 3, 2)]
    run = await replay(speak, arrivals, stop_after_s=0.5)
    assert finishes(run) == ["length", "unfinished"] and run.unsent == 2
    assert run.duration_s < 2.0 and len(run.outcomes[1].token_times_s) > 2


async def test_stopping_while_waiting_for_the_last_replies():
    run = await replay(speak, [Arrival(0.0, 3, 400)], stop_after_s=0.3)
    assert finishes(run) == ["unfinished"] and run.unsent == 0 and run.duration_s < 2.0


async def test_replies_have_so_much_time_after_the_last_request():
    run = await replay(speak, [Arrival(0.0, 3, 400, qoe=READER)], drain_s=0.2)
    assert finishes(run) == ["failed"] and "0.2 s after the last request" in (run.records[0].error or "")
    assert run.duration_s < 2.0


async def test_what_the_server_tells_of_a_reply_is_kept():
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "andes": {"qoe": None, "waited_ms": 12.5, "preemptions": 2}}

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(STREAM_HEAD, event("a", "length", usage), LAST_CHUNK)

    record = (await replay(script, [Arrival(0.0, 3, 1)])).records[0]
    assert (record.outcome.waited_s, record.outcome.preemptions) == (0.0125, 2)
    assert record.server == {"waited_ms": 12.5, "preemptions": 2.0}


async def test_no_arrivals():
    run = await replay(speak, [])
    assert run.records == [] and run.unsent == 0
