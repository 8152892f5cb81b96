"""The bytes of one stream wait for a peer that reads, and for no other."""

from __future__ import annotations

import asyncio

import pytest
from hypercorn.asyncio.worker_context import EventWrapper
from hypercorn.protocol.h2 import BufferCompleteError

from server.hypercorn_repairs.buffer import STREAM_HIGH, STREAM_LOW, FairStreamBuffer, StalledError


def buffer(stall_timeout_s: float = 5.0) -> FairStreamBuffer:
    made = FairStreamBuffer(EventWrapper)
    made.stall_timeout_s = stall_timeout_s
    return made


async def test_a_writer_waits_until_enough_is_read():
    stream = buffer()
    await stream.push(b"x" * (STREAM_HIGH - 1))
    writer = asyncio.create_task(stream.push(b"xy"))
    for _ in range(5):
        stream.take(0)  # a closed window reads nothing
        await asyncio.sleep(0)
    assert not writer.done()
    left = STREAM_HIGH + 1
    while left >= STREAM_LOW:
        assert not writer.done()
        left -= len(stream.take(1000))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await asyncio.wait_for(writer, 1)


async def test_nothing_is_lost_or_reordered():
    stream = buffer()
    sent = bytes(range(256)) * 2000

    async def write():
        for at in range(0, len(sent), 777):
            await stream.push(sent[at : at + 777])

    writer = asyncio.create_task(write())
    read = b""
    while len(read) < len(sent):
        read += stream.take(1000)
        await asyncio.sleep(0)
    await writer
    assert read == sent
    await stream.drain()


async def test_what_would_have_to_wait_is_not_taken():
    stream = buffer()
    assert stream.offer(b"x" * (STREAM_HIGH - 1)) and not stream.offer(b"y")
    assert stream.take(STREAM_HIGH) == b"x" * (STREAM_HIGH - 1)
    assert stream.offer(b"y")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stream.drain(), 0.01)
    await stream.close()
    assert not stream.offer(b"z")


async def test_a_writer_of_an_unread_stream_gives_up():
    stream = buffer(0.05)
    with pytest.raises(StalledError):
        await stream.push(b"x" * STREAM_HIGH)
    with pytest.raises(StalledError):
        await stream.drain()


@pytest.mark.parametrize("wait", ["push", "drain"])
async def test_a_slow_reader_is_waited_for(wait):
    stream = buffer(0.1)

    async def read():
        while stream.buffer:
            await asyncio.sleep(0.04)
            stream.take(8000)

    push = asyncio.create_task(stream.push(b"x" * STREAM_HIGH))
    await asyncio.sleep(0)
    reader = asyncio.create_task(read())
    await push
    if wait == "drain":
        await stream.drain()
        assert not stream.buffer
    await reader


async def test_closing_frees_the_writer():
    stream = buffer()
    writer = asyncio.create_task(stream.push(b"x" * STREAM_HIGH))
    await asyncio.sleep(0)
    await stream.close()
    with pytest.raises(BufferCompleteError):
        await writer
    with pytest.raises(BufferCompleteError):
        await stream.push(b"more")
    assert not stream.buffer
