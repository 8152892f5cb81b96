"""An explain record in plain words: what became of a request, when, and why it waited. journal.py makes the records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from andes_jax.request import FinishReason, Tier
from andes_jax.scheduling.journal import LINES
from andes_jax.scheduling.record import Event, Record, Wait

INSTANT_S = 0.0005  # no wait to speak of

CAUSES = {
    "slots": "because all slots were taken",
    "pages": "because pages were short",
    "tokens": "because steps were full",
    "others": "for others to end that cannot lose their place either",
    "nothing": "for its turn, with nothing short",
}
CARRIERS = {"interactivity": "its reader's need", "waited": "its wait", "resource": "how little work it is"}
ENDS = {
    FinishReason.STOP: "complete",
    FinishReason.LENGTH: "at its greatest length",
    FinishReason.CANCELLED: "cancelled, as its client had left",
    FinishReason.REFUSED: "refused",
    FinishReason.FAILED: "failed",
}


class Happening(NamedTuple):
    """A moment of the timeline."""

    at_s: float  # from arrival
    words: str
    details: tuple[str, ...] = ()


class Story(NamedTuple):
    """A request's life in words."""

    title: str
    timeline: tuple[Happening, ...]
    summary: str  # one sentence


def tell(record: Mapping[str, Any]) -> Story:
    """A record in words. Raises ValueError for what is no record."""
    try:
        known = Record.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'record'}: {first['msg']}") from error
    waits = waits_of(known.events) if known.waits is None else known.waits
    return _Teller(known, waits).story()


def waits_of(events: Iterable[Event]) -> list[Wait]:
    """The stretches without a slot, as the journal counts them, but without their causes."""
    waits: list[Wait] = []
    since: float | None = None
    for event in events:
        if event.event in ("arrived", "displaced", "resumed") and since is None:
            since = event.at_s
        elif event.event in ("admitted", "finished", "paused") and since is not None:
            waits.append(Wait(from_s=since, until_s=event.at_s))
            since = None
    return waits


def seconds(value: float) -> str:
    """A time as people read it."""
    return f"{value * 1e3:.0f} ms" if value < 0.1 else f"{value:.2f} s"


def wait_words(waits: Sequence[Wait]) -> str:
    """How long some waits were together, and for what: `3.21 s: 2.90 s because …, 0.31 s because …`."""
    total = sum(wait.until_s - wait.from_s for wait in waits)
    lacked: dict[str, float] = {}
    for wait in waits:
        for cause, lasted_s in wait.lacked.items():
            lacked[cause] = lacked.get(cause, 0.0) + lasted_s
    causes = sorted(lacked.items(), key=lambda each: -each[1])
    causes = [each for each in causes if each[1] >= INSTANT_S] or causes[:1]
    told = [(lasted_s, CAUSES.get(cause, f"for {cause}")) for cause, lasted_s in causes]
    if not told:
        return f"{seconds(total)}, for what is not recorded"
    if len(told) == 1:
        return f"{seconds(total)} {told[0][1]}"
    return f"{seconds(total)}: " + ", ".join(f"{seconds(lasted_s)} {words}" for lasted_s, words in told)


def terms_words(terms: Mapping[str, float | None], tier: str | None, first: bool) -> Iterator[str]:
    """What a policy went by when it took a request; `first`: none of its tokens were drawn yet."""
    weighed = {name: value for name in CARRIERS if (value := terms.get(name)) is not None}
    if "priority" in terms and weighed:
        rank, own = terms.get("tier"), tier and Tier.__members__.get(tier.upper())
        if rank is not None and isinstance(own, Tier) and rank < own:
            yield f"its wait had lifted it into tier {Tier(int(rank)).name.lower()}"
        carrier = max(weighed, key=lambda name: weighed[name])
        parts = " + ".join(f"{name} {value:.3f}" for name, value in weighed.items())
        yield f"priority {sum(weighed.values()):.3f} = {parts}; carried by {carrier}: {CARRIERS[carrier]}"
        slack_s = terms.get("slack_s")
        token = "first" if first else "next"
        if slack_s is None or not math.isfinite(slack_s):
            yield "nobody reads along"
        elif slack_s < 0:
            yield f"its reader had needed the {token} token {seconds(-slack_s)} before"
        else:
            yield f"its reader needed the {token} token within {seconds(slack_s)}"
    elif (arrival := terms.get("arrival")) is not None:
        yield f"first come, first served: it was arrival {arrival:.0f}"
    elif (waited_s := terms.get("waited_s")) is not None:
        yield f"longest wait first: it had waited {seconds(waited_s)}"
    elif (gain := terms.get("gain_per_token")) is not None:
        yield f"greatest gain of quality for a token of context first: {gain:.4f}"
    if (remaining := terms.get("remaining")) is not None and math.isfinite(remaining):
        yield f"{_count(round(remaining), 'token')} of it expected to come"


class _Teller:
    """Goes through a record's events once, and remembers what later ones refer to."""

    def __init__(self, record: Record, waits: Sequence[Wait]) -> None:
        self._record = record
        self._waits = waits
        self._ended_waits = iter(waits)
        self._waiting = False
        self._starts = 0
        self._displaced = 0
        self._pauses = 0
        self._paused_since: float | None = None
        self._paused_s = 0.0
        self._lost: Event | None = None  # saved or dropped since it last ran
        self._tier = record.events[0].tier

    def story(self) -> Story:
        """All of it; to be called once."""
        record = self._record
        first, last = record.events[0], record.events[-1]
        timeline = [self._happening(event) for event in record.events]
        if len(record.events) >= LINES:
            note = "so many events are not all kept: those that followed are missing, and the first wait may be shorter"
            timeline[0] = timeline[0]._replace(details=(note,))
        still = next(self._ended_waits, None) if self._waiting else None
        if still is not None:
            lasts = still.until_s - still.from_s >= INSTANT_S
            timeline.append(
                Happening(still.until_s, "still waits" + (f", so far {wait_words([still])}" if lasts else ""))
            )
        known = [self._tier and f"tier {self._tier}", _given(first.prompt_tokens, "prompt token")]
        title = ", ".join([record.id, *filter(None, known)])
        return Story(title, tuple(timeline), self._summary(last))

    def _happening(self, event: Event) -> Happening:
        if event.event == "admitted":
            return self._admitted(event)
        words = {
            "arrived": self._arrived,
            "displaced": self._displace,
            "paused": self._pause,
            "resumed": self._resume,
            "saved": self._save,
            "dropped": self._drop,
            "finished": self._finish,
        }.get(event.event)
        return Happening(event.at_s, event.event if words is None else words(event))

    def _wait_over(self) -> str | None:
        """What the wait was that this event ends; None: there was none to speak of."""
        wait = next(self._ended_waits, None) if self._waiting else None
        self._waiting = False
        return None if wait is None or wait.until_s - wait.from_s < INSTANT_S else wait_words([wait])

    def _arrived(self, event: Event) -> str:
        self._waiting = True
        return "arrived"

    def _admitted(self, event: Event) -> Happening:
        words = "started again" if self._starts else "started"
        waited = self._wait_over()
        words += " at once" if waited is None else f" after waiting {waited}"
        details = []
        if event.running is not None and event.waiting is not None:
            beside = f"beside {event.running} running" if event.running else "alone"
            details.append(f"{beside}; {_count(event.waiting, 'other') if event.waiting else 'nobody else'} waited")
        details += filter(None, [self._pages(event)])
        details += terms_words(event.terms, self._tier, first=not self._starts)
        self._starts += 1
        self._lost = None
        return Happening(event.at_s, words, tuple(details))

    def _pages(self, event: Event) -> str | None:
        """Where what it had computed was when it started, if there was anything."""
        cached, lost = event.computed, self._lost
        if event.kept:
            return "its pages had been kept in place"
        if lost is None:
            return f"{_count(cached, 'token')} were in the prefix cache" if cached else None
        if lost.event == "saved":
            if event.loaded_pages:
                rest = ", the others were still in the cache" if event.loaded_pages < (lost.pages or 0) else ""
                return f"{_count(event.loaded_pages, 'page')} copied back from host memory{rest}"
            return "its pages were still in the cache" if cached else "its copy is gone; all is computed again"
        again = max((lost.tokens or 0) - cached, 0)
        still = f"{_count(cached, 'token')} were still in the cache" if cached else None
        left = f"{_count(again, 'token')} to be computed again" if again else None
        return ", ".join(filter(None, [left, still])) or None

    def _displace(self, event: Event) -> str:
        self._displaced += 1
        self._waiting = True
        return f"lost its place to {event.by or 'another'}{_after(event.tokens)}"

    def _pause(self, event: Event) -> str:
        waited = self._wait_over()
        self._pauses += 1
        self._paused_since = event.at_s
        words = f"paused{_after(event.tokens)}, as its client left the stream unread"
        return words if waited is None else f"{words}; it had waited {waited}"

    def _resume(self, event: Event) -> str:
        self._waiting = True
        lasted_s = self._pause_over(event.at_s)
        return "its client reads again" + ("" if lasted_s is None else f", after {seconds(lasted_s)}")

    def _pause_over(self, at_s: float) -> float | None:
        if self._paused_since is None:
            return None
        lasted_s = at_s - self._paused_since
        self._paused_s += lasted_s
        self._paused_since = None
        return lasted_s

    def _save(self, event: Event) -> str:
        self._lost = event
        return f"others needed its place: {_given(event.pages, 'page') or 'its pages'} copied to host memory"

    def _drop(self, event: Event) -> str:
        self._lost = event
        return f"others needed its place: {_given(event.tokens, 'token') or 'what it had'} to be computed again"

    def _finish(self, event: Event) -> str:
        waited = self._wait_over()
        self._pause_over(event.at_s)
        words = f"ended: {_end(event)}"
        return words if waited is None else f"{words}; it had waited {waited}"

    def _summary(self, last: Event) -> str:
        over = last.event == "finished"
        stretches = [wait for wait in self._waits if wait.until_s - wait.from_s >= INSTANT_S]
        parts = ["waited " + wait_words(stretches) if stretches else "did not wait"]
        if self._displaced:
            parts.append(f"lost its place {_times(self._displaced)}")
        if self._pauses:
            lasted = f" for {seconds(self._paused_s)}" if self._paused_since is None else ""
            parts.append(f"paused {_times(self._pauses)}{lasted}, as its client left the stream unread")
        if over:
            parts.append(f"ended after {seconds(last.at_s)}: {_end(last)}")
        elif self._paused_since is not None:
            parts.append("is still paused")
        else:
            parts.append("still waits" if self._waiting else "still runs")
        return "; ".join(parts) + "."


def _end(event: Event) -> str:
    words = ENDS.get(FinishReason(event.reason)) if event.reason in set(FinishReason) else event.reason
    return ", ".join(filter(None, [words or "for a reason that is not recorded", _given(event.tokens, "token")]))


def _after(tokens: int | None) -> str:
    return "" if tokens is None else f" after {_count(tokens, 'token')}"


def _given(number: int | None, noun: str) -> str | None:
    return None if number is None else _count(number, noun)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
