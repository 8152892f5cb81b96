"""An engine in another process, as front ends see engines: connected again whenever it comes back."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, cast

import grpc
import orjson

from andes_jax.clock import Clock, WallClock
from andes_jax.engine import EngineStatistics, Limits
from andes_jax.engine.contract import EngineAway, EngineState
from andes_jax.engine.door import SHUTTING_DOWN
from andes_jax.events import EventSink
from andes_jax.failure import UserError
from andes_jax.remote.clock import RemoteClock
from andes_jax.remote.description import Description, unpack_description, unpack_statistics
from andes_jax.remote.link import FIRST_PAUSE_S, LONGEST_PAUSE_S, LinkSettings, open_channel
from andes_jax.remote.protocol import andes_pb2 as pb
from andes_jax.remote.protocol import andes_pb2_grpc
from andes_jax.remote.session import Session
from andes_jax.request import Refusal, Request

logger = logging.getLogger("andes_jax.remote")

ASK_S = 5.0  # that the engine gets to answer a question
GONE = "the engine is gone"
_FINAL = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED)  # trying again does not help


class EngineMismatch(UserError):
    """The engine is not the one that this front end can serve: one line with both."""


class RemoteEngine:
    """Follows andes_jax.engine.contract. Every accepted request gets exactly one finish event, whatever happens."""

    def __init__(self, link: LinkSettings, expected: Description, clock: Clock | None = None) -> None:
        """`expected` has the version, model and identity that the engine must have. Raises OSError for `authority`."""
        self.clock = RemoteClock(clock or WallClock())  # the engine's
        self.address = link.address
        self._expected = expected
        self._metadata = [] if link.key is None else [("authorization", f"Bearer {link.key}")]
        self._channel = open_channel(link)
        self._stub = andes_pb2_grpc.EngineStub(self._channel)
        self._changed = threading.Condition()  # guards what follows
        self._session: Session | None = None  # while connected
        self._call: Any = None  # of the session, also while it is being made
        self._known: tuple[Description, Limits] | None = None  # since the first connection
        self._problem: UserError | None = None  # why there is no session, if that will not pass by itself
        self._trouble = ""  # why the last connection ended or was not made
        self._compiles_after_ready = 0
        self._draining = self._closing = self._stopped = False
        self._thread = threading.Thread(target=self._run, name="remote-engine", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def wait_connected(self, waiting: Callable[[str], None] = lambda why: None, every_s: float = 5.0) -> Description:
        """Wait for the first connection, telling why there is none yet; what the engine says of itself.

        Raises EngineMismatch for an engine that cannot be served, or that does not let this front end in.
        """
        with self._changed:
            while self._known is None and self._problem is None:
                if not self._changed.wait_for(lambda: self._known or self._problem, every_s):
                    waiting(self._trouble)
            if self._known is None:
                assert self._problem is not None
                raise self._problem
            return self._known[0]

    @property
    def state(self) -> EngineState:
        """The engine's, or failed while it is away."""
        if self._stopped:
            return "stopped"
        if self._draining:
            return "draining"
        session = self._session
        if session is None:
            return "starting" if self._known is None else "failed"
        return session.state

    @property
    def limits(self) -> Limits:
        """What the engine can serve at most, as it last said. Raises EngineAway before the first connection."""
        if self._known is None:
            raise EngineAway(f"the engine at {self.address} has not been reached yet")
        return self._known[1]

    @property
    def room(self) -> int:
        """How many requests would be accepted now, about: other front ends may be asking too."""
        session = self._session
        return 0 if session is None else session.room

    def submit_all(self, requests: Sequence[Request], sink: EventSink) -> Future[None]:
        """Ask for all of the requests; the answer ends with a Refusal if none is taken. Or raises one at once."""
        session = self._session
        if self._draining:
            raise Refusal(SHUTTING_DOWN, "shutting_down")
        if session is None:
            raise Refusal(GONE, "engine_failed")
        return session.submit(requests, sink)

    def cancel(self, request_id: str) -> None:
        """End a request early; one that is not live is ignored, as in the next two."""
        if (session := self._session) is not None:
            session.wish("cancelled", request_id)

    def pause(self, request_id: str) -> None:
        """Stop working on a request until `resume`."""
        if (session := self._session) is not None:
            session.wish("paused", request_id)

    def resume(self, request_id: str) -> None:
        """Go on with a paused request."""
        if (session := self._session) is not None:
            session.wish("resumed", request_id)

    def explain(self, request_id: str) -> dict[str, Any] | None:
        """What became of a request and why; waits for the engine. Raises EngineAway."""
        reply = self._ask(self._stub.Explain, pb.ExplainRequest(id=request_id))
        return orjson.loads(reply.record) if reply.HasField("record") else None

    def statistics(self) -> EngineStatistics:
        """The engine's figures; waits for them. Raises EngineAway."""
        figures = self._ask(self._stub.Statistics, pb.StatisticsRequest())
        self._compiles_after_ready = figures.compiles_after_ready
        return unpack_statistics(figures)

    def compiles_after_ready(self) -> int:
        """Programs the engine had compiled after it was ready, when its statistics were last asked for."""
        return self._compiles_after_ready

    def drain(self) -> None:
        """Accept nothing more here; the engine goes on for other front ends."""
        with self._changed:
            self._draining = True

    def stop(self, timeout_s: float) -> bool:
        """Drain, for `timeout_s` seconds at most, then end what is left and leave; True when nothing was left."""
        self.drain()
        session = self._session
        clean = session is None or session.wait_idle(timeout_s)
        with self._changed:
            self._closing = True
            call, session = self._call, self._session
            self._changed.notify_all()
        if session is not None:
            session.end(SHUTTING_DOWN)
        if call is not None:
            call.cancel()
        if self._thread.is_alive():
            self._thread.join()
        self._channel.close()
        self._stopped = True
        return clean

    def _ask(self, call: Any, request: Any) -> Any:
        if self._session is None:
            raise EngineAway(f"{GONE}: {self._trouble or 'it has not been reached yet'}")
        try:
            return call(request, metadata=self._metadata, timeout=ASK_S)
        except (grpc.RpcError, ValueError) as error:  # ValueError: the channel was closed
            raise EngineAway(f"{GONE}: {_details(error)}") from error

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._closing:
            session = Session(self.clock)
            trouble = self._serve(session)
            met = self._session is session
            with self._changed:
                self._session = None
                self._trouble = trouble
                self._changed.notify_all()
            session.end(SHUTTING_DOWN if self._closing else GONE)
            if met and not self._closing:
                logger.warning("the engine at %s is gone: %s", self.address, trouble)
            pause_s = FIRST_PAUSE_S if met else min(2 * pause_s, LONGEST_PAUSE_S)
            with self._changed:  # not all front ends at once
                self._changed.wait_for(lambda: self._closing, pause_s * random.uniform(0.5, 1.0))

    def _serve(self, session: Session) -> str:
        """Hold one connection as long as it lasts; why it ended."""
        with self._changed:
            if self._closing:
                return SHUTTING_DOWN
            self._call = call = self._stub.Connect(session.outgoing(), metadata=self._metadata)
        try:
            for message in call:
                if message.HasField("welcome"):
                    self._meet(session, message)
                else:
                    session.receive(message, cast(EngineState, message.state))
        except grpc.RpcError as error:
            details = _details(error)
            if _code(error) in _FINAL:
                self._give_up(EngineMismatch(f"the engine at {self.address} does not let us in: {details}"))
            return details
        except EngineMismatch as error:
            self._give_up(error)
            return str(error)
        except ValueError as error:
            logger.error("the engine at %s speaks another protocol: %s", self.address, error)
            return str(error)
        finally:
            call.cancel()
        return "it has ended the connection"

    def _meet(self, session: Session, message: pb.EngineMessage) -> None:
        """Take up an engine that has just said what it is. Raises EngineMismatch."""
        known = unpack_description(message.welcome)
        found, expected = known[0], self._expected
        for what, theirs, ours in (
            ("version", found.version, expected.version),
            ("model", found.model, expected.model),
            ("decoder and vocabulary", found.identity, expected.identity),
        ):
            if theirs != ours:
                raise EngineMismatch(
                    f"the engine at {self.address} has {what} {theirs!r}, but this front end has {ours!r}: "
                    "start both from the same release and with the same MODEL and --model-name"
                )
        self.clock.set_by(lambda: self._stub.Describe(pb.DescribeRequest(), metadata=self._metadata).now_s)
        session.receive(message, cast(EngineState, message.state))
        with self._changed:
            self._known = known
            self._problem = None
            self._session = session
            self._changed.notify_all()
        logger.info("connected to the engine at %s: %s", self.address, found.text)

    def _give_up(self, problem: UserError) -> None:
        """Say what keeps us from the engine: loudly if that is new. It is tried again, for engines get replaced."""
        with self._changed:
            if self._known is not None and str(problem) != str(self._problem):
                logger.error("%s", problem)
            self._problem = problem
            self._changed.notify_all()


def _code(error: BaseException) -> Any:
    return error.code() if isinstance(error, grpc.Call) else None


def _details(error: BaseException) -> str:
    return (error.details() if isinstance(error, grpc.Call) else None) or str(error) or type(error).__name__
