"""Connections that end when their peer does, and that never take the worker with them."""

from __future__ import annotations

import asyncio
import socket

import h11
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.h11 import H11Protocol

from server.hypercorn_repairs.config import RepairedConfig
from server.hypercorn_repairs.h2_protocol import FairH2Protocol
from server.link import Link

TCP_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", 18)
TCP_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", 25)
NOTSENT_BYTES = 16 * 1024  # the kernel holds at most so much unsent, so that the order of streams is decided late


class FairTCPServer(TCPServer):
    """One connection of a server with a RepairedConfig."""

    config: RepairedConfig
    link: Link

    async def run(self) -> None:
        self.link = Link(self.writer.get_extra_info("socket"), asyncio.get_running_loop().time)
        self._tune_socket()
        self.config.connections.add(self.writer)
        try:
            await super().run()
        except* Exception as group:
            # Only names: a trace of these quotes whatever the peer has sent.
            names = ", ".join(sorted({type(error).__name__ for error in group.exceptions}))
            await self.config.log.error(f"connection ended by {names}")
        finally:
            self.config.connections.discard(self.writer)

    def _tune_socket(self) -> None:
        peer = self.writer.get_extra_info("socket")
        if peer is None or peer.family not in (socket.AF_INET, socket.AF_INET6):
            return
        options = {TCP_NOTSENT_LOWAT: NOTSENT_BYTES, TCP_USER_TIMEOUT: int(self.config.stall_timeout_s * 1000)}
        for option, value in options.items():
            try:
                peer.setsockopt(socket.IPPROTO_TCP, option, value)
            except OSError:
                continue  # not on this system: streams are still bounded and timed, connections less well

    async def _close(self) -> None:
        """Close in order; a peer that does not take part is cut off."""
        try:
            async with asyncio.timeout(self.config.close_timeout_s) as deadline:
                await super()._close()
            late = deadline.expired()  # the inherited method swallows the cancellation
        except OSError:  # a timeout too: of ours, of the kernel, or of the TLS shutdown
            late = True
        if late:
            self.writer.transport.abort()

    async def protocol_send(self, event: Event) -> None:
        if not isinstance(event, RawData):
            await super().protocol_send(event)
        elif self.writer.is_closing():
            await asyncio.sleep(0)  # an application that does not listen must not spin on a dead connection
        else:
            try:
                async with self.send_lock:
                    self.writer.write(event.data)
                    await self._drain()
            except (OSError, RuntimeError):
                await self.protocol.handle(Closed())

    def offer_chunk(self, data: bytes) -> bool:
        """Write a part of an HTTP/1.1 response's body whose head has left, if nothing waits; else False."""
        protocol, transport = self.protocol.protocol, self.writer.transport
        if not isinstance(protocol, H11Protocol) or self.send_lock.locked() or transport.is_closing():
            return False
        connection = protocol.connection
        if connection.our_state is not h11.SEND_BODY:
            return False
        if transport.get_write_buffer_size() > transport.get_write_buffer_limits()[0]:
            return False
        transport.write(connection.send(h11.Data(data=data)))
        return True

    async def _drain(self) -> None:
        """Wait for room. Raises TimeoutError, the connection aborted, once the peer takes nothing for too long."""
        transport = self.writer.transport
        while (unsent := transport.get_write_buffer_size()) > transport.get_write_buffer_limits()[0]:
            try:
                async with asyncio.timeout(self.config.stall_timeout_s):
                    return await self.writer.drain()
            except TimeoutError:
                if transport.get_write_buffer_size() >= unsent:
                    transport.abort()
                    raise
        await self.writer.drain()

    async def _initiate_server_close(self) -> None:
        if isinstance(self.protocol.protocol, FairH2Protocol):
            await self.protocol.protocol.farewell()
        await super()._initiate_server_close()

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()  # or the descriptor of a gone peer is kept for the whole idle time
