"""What the engine has said of one reply and nobody has taken yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from andes_jax.events import TokenEvent, TokenLogprobs, Usage
from andes_jax.request import FinishReason

LOGPROB_BYTES = 100  # of JSON for each log-probability, roughly


@dataclass(slots=True)
class Piece:
    """Consecutive events of one reply, merged."""

    index: int  # of the choice within its call
    texts: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
    finish: FinishReason | None = None
    message: str | None = None
    usage: Usage | None = None

    @property
    def tokens(self) -> int:
        """How many tokens were drawn in all its events."""
        return len(self.token_ids)

    @property
    def text(self) -> str:
        """The text of all its events."""
        return "".join(self.texts)


@dataclass(slots=True)
class Held:
    """What waits to be taken of all the replies of a call."""

    bytes: int = 0  # of text, without the JSON around it
    since_s: float | None = None  # when the first of it was delivered, on the engine's clock; None: nothing was
    emitted_s: float | None = None  # when the engine had it
    urgent: bool = False  # with a reply's first text, or its end

    def add(self, size: int, *, urgent: bool, emitted_s: float, now_s: float) -> None:
        """An event was delivered."""
        if self.since_s is None:
            self.since_s, self.emitted_s = now_s, emitted_s
        self.bytes += size
        self.urgent = self.urgent or urgent


def size_of(event: TokenEvent) -> int:
    """About the bytes of JSON an event becomes, without what JSON escapes."""
    text = event.text
    size = len(text) if text.isascii() else len(text.encode())
    for each in event.logprobs:
        size += LOGPROB_BYTES * (1 + len(each.top_ids))
    return size


class Mailbox:
    """Merges events until they are taken, so that a slow reader costs the memory of its reply's text and no more."""

    __slots__ = ("_begun", "_index", "_unread", "finish", "first_token_s")

    def __init__(self, index: int) -> None:
        self._index = index
        self._unread: Piece | None = None
        self._begun = False  # text of it was taken
        self.finish: FinishReason | None = None
        self.first_token_s: float | None = None  # on the engine's clock

    @property
    def urgent(self) -> bool:
        """Whether nobody has had text of this reply yet, or it has ended."""
        return not self._begun or self.finish is not None

    def put(self, event: TokenEvent) -> None:
        """Add an event; none may come after one with a finish."""
        piece = self._unread
        if piece is None:
            piece = self._unread = Piece(self._index)
        if event.text:
            piece.texts.append(event.text)
        if event.token_ids:
            piece.token_ids.extend(event.token_ids)
            if self.first_token_s is None:
                self.first_token_s = event.emitted_s
        if event.logprobs:
            piece.logprobs.extend(event.logprobs)
        if event.prompt_logprobs is not None:
            piece.prompt_logprobs = event.prompt_logprobs
        if event.finish is not None:
            self.finish = piece.finish = event.finish
            piece.message = event.message
            piece.usage = event.usage

    def take(self) -> Piece | None:
        """What came since the last time, if anything did."""
        piece, self._unread = self._unread, None
        if piece is not None and piece.texts:
            self._begun = True
        return piece
