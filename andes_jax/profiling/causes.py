"""Likely causes of intervals that took too long, in words: what kind it is, a colon, and what is this chunk's alone."""

from __future__ import annotations

from typing import Any, NamedTuple

from andes_jax.profiling.steps import StepNote

_STATES = {
    "displaced": "preempted",
    "paused": "paused, the client left its stream unread",
    "dropped": "its pages were given up and computed again",
    "saved": "its pages were copied to the host and back",
}
_LACKED = {
    "slots": "waited for a slot",
    "pages": "waited for pages of the cache",
    "tokens": "waited for room in a step",
    "others": "waited for others to end",
}


class SendTimes(NamedTuple):
    """Where the time of a send went, in seconds."""

    loop_s: float  # until the event loop took the token from the engine
    earlier_s: float  # then until what left before it was sent
    held_s: float  # then until it was taken to be sent
    send_s: float  # then until it was handed over
    collector_s: float  # of all this, while the garbage collector ran

    @property
    def whole_s(self) -> float:
        """From a token's being known to its being handed over."""
        return self.loop_s + self.earlier_s + self.held_s + self.send_s


def cause_of_generation(longest: StepNote | None) -> str:
    """Why steps took long, by the longest of them."""
    if longest is None:
        return "not known"
    if longest.copied_pages:
        return f"pages were copied in the step: {longest.copied_pages}"
    if longest.prompt_tokens:
        return f"prompts were computed in the step: {longest.prompt_tokens} tokens beside {longest.decodes} replies"
    return f"replies in the step: {longest.decodes}"


def cause_of_send(times: SendTimes) -> str:
    """Why a token left late."""
    if 2 * times.collector_s >= times.whole_s:
        return f"garbage collection: {_ms(times.collector_s)}"
    reading_s = times.earlier_s + times.send_s
    largest = max(times.loop_s, reading_s, times.held_s)
    if largest == times.loop_s:
        return f"the event loop was busy: {_ms(times.loop_s)}"
    if largest == reading_s:
        return f"sending took long, as when the client reads slowly: {_ms(reading_s)}"
    return f"held back for a larger chunk: {_ms(times.held_s)}"


def cause_of_wait(record: dict[str, Any] | None, since_s: float, until_s: float) -> str:
    """Why no step worked on a request, by what the engine says of it (Journal.explain); times from its arrival."""
    if record is None:
        return "not known"
    for event in reversed(record["events"]):
        if since_s <= event["at_s"] <= until_s and event["event"] in _STATES:
            by = f": for {event['by']}" if "by" in event else ""
            return f"{_STATES[event['event']]}{by}"
    lacked: dict[str, float] = {}
    for wait in record["waits"]:
        if wait["from_s"] < until_s and wait["until_s"] > since_s:
            for name, seconds in wait["for"].items():
                lacked[name] = lacked.get(name, 0.0) + seconds
    named = [name for name in sorted(lacked, key=lacked.__getitem__, reverse=True) if name in _LACKED]
    if named:
        return f"{_LACKED[named[0]]}: {_ms(lacked[named[0]])}"
    return "steps without it, for somebody's first token or until the next look at those who wait"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
