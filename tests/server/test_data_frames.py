"""Frames of DATA are what the library would have made, in the order in which they were made."""

from __future__ import annotations

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset

from server.hypercorn_repairs.data_frames import DataFrames

HEAD = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "x")]


def connected(*stream_ids: int) -> tuple[H2Connection, H2Connection]:
    """A client and a server with these streams open, whose responses have begun."""
    client, server = H2Connection(), H2Connection(H2Configuration(client_side=False))
    client.initiate_connection()
    server.initiate_connection()
    for stream_id in stream_ids:
        client.send_headers(stream_id, HEAD, end_stream=True)
    server.receive_data(client.data_to_send())
    for stream_id in stream_ids:
        server.send_headers(stream_id, [(":status", "200")])
    client.receive_data(server.data_to_send())
    return client, server


@pytest.mark.parametrize("size", [1, 200, 255, 256, 16384])
def test_a_frame_is_the_library_s(size):
    ours, theirs = connected(1, 3), connected(1, 3)
    frames = DataFrames(ours[1])
    assert frames.add(3, b"x" * size)
    theirs[1].send_data(3, b"x" * size)
    assert frames.take() == theirs[1].data_to_send()
    for stream_id in (1, 3):
        assert ours[1].local_flow_control_window(stream_id) == theirs[1].local_flow_control_window(stream_id)


@pytest.mark.parametrize("last", [b"", b"last"])
def test_a_stream_ends_after_its_data(last):
    client, server = connected(1)
    frames = DataFrames(server)
    frames.add(1, b"first")
    server.send_data(1, last, end_stream=True)
    events = client.receive_data(frames.take())
    assert b"".join(event.data for event in events if isinstance(event, DataReceived)) == b"first" + last
    assert isinstance(events[-1], StreamEnded) and frames.take() == b""


def test_what_the_library_made_before_goes_before():
    client, server = connected(1)
    client.send_headers(3, HEAD, end_stream=True)
    server.receive_data(client.data_to_send())
    frames = DataFrames(server)
    server.send_headers(3, [(":status", "200")])
    frames.add(3, b"text")
    server.reset_stream(3)
    kinds = [type(event) for event in client.receive_data(frames.take())]
    assert kinds == [ResponseReceived, DataReceived, StreamReset]


def test_streams_that_are_not_open_are_the_library_s_business():
    client, server = connected(1, 3)
    frames = DataFrames(server)
    client.reset_stream(1)
    server.receive_data(client.data_to_send())
    server.send_data(3, b"all", end_stream=True)
    assert not any(frames.add(stream_id, b"more") for stream_id in (1, 3, 5))
    assert [type(event) for event in client.receive_data(frames.take())] == [DataReceived, StreamEnded]
