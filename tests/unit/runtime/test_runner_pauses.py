"""Sequences that leave the device and come back: their tokens are those of sequences that stayed."""

from __future__ import annotations

import pytest

from andes_jax.request import SamplingParams
from andes_jax.runtime.compile_watch import CompileCounter
from andes_jax.runtime.runner import DeviceRunner
from andes_jax.scheduling.plan import Admission, PageCopy, Slice, StepPlan
from tests.unit.runtime.test_runner import GREEDY, IDS, runner_of

PAGES, OTHER_PAGES = (9, 2, 5, 7, 3), (1, 11, 15, 17, 6)
HOSTS = (3, 0, 8, 5, 1)
PROMPT, OTHER = IDS[:43], IDS[::-1][:60]
TOKENS, BEFORE = 20, 6  # in all, and before the pause


@pytest.fixture(scope="module")
def warmed():
    """A runner, what it said while it was warmed, and a count of compilations since then."""
    runner, told = runner_of(pages=20, host_pages=16), []
    runner.warm(lambda *news: told.append(news))
    compiles = CompileCounter()
    compiles.mark_ready()
    return runner, told, compiles


@pytest.fixture
def runner(warmed):
    runner, _, compiles = warmed
    runner.reset()
    yield runner
    assert compiles.after_ready() == 0


class Steps:
    """Dispatches plans one step ahead, as the engine does, and keeps the tokens that each step drew."""

    def __init__(self, runner: DeviceRunner) -> None:
        self.runner = runner
        self.drawn: dict[int, list[int]] = {}
        self.number = 0
        self.in_flight = 0

    def __call__(self, *slices: Slice, **parts: tuple) -> int:
        self.number += 1
        self.runner.dispatch(StepPlan(self.number, slices, **parts))
        self.in_flight += 1
        if self.in_flight == 2:
            self.collect()
        return self.number

    def collect(self) -> None:
        result = self.runner.collect()
        assert result.finite.all()
        self.drawn[result.number] = result.token_ids.tolist()
        self.in_flight -= 1

    def token(self, number: int) -> int:
        while number not in self.drawn:
            self.collect()
        return self.drawn[number][0]


def _decodes(steps: Steps, first: int, count: int, pages: tuple[int, ...], generated: int) -> list[int]:
    """Numbers of steps that decode from the token at `first` on."""
    return [steps(Slice(0, first + i, 1, None, pages, True, generated + i)) for i in range(count)]


def _start(steps: Steps, sampling: SamplingParams, count: int) -> list[int]:
    """Compute the prompt and draw `count` tokens; the last one is known, but not in any page."""
    prompt = steps(Slice(0, 0, len(PROMPT), PROMPT, PAGES, True), admissions=(Admission(0, sampling, PROMPT),))
    numbers = [prompt, *_decodes(steps, len(PROMPT), count - 1, PAGES, 1)]
    return [steps.token(number) for number in numbers]


def _resume(steps: Steps, sampling: SamplingParams, drawn: list[int], pages: tuple[int, ...], **parts) -> list[int]:
    first = len(PROMPT) + len(drawn) - 1
    again = Slice(0, first, 1, (drawn[-1],), pages, True, len(drawn))
    numbers = [steps(again, admissions=(Admission(0, sampling, PROMPT, tuple(drawn)),), **parts)]
    numbers += _decodes(steps, first + 1, TOKENS - len(drawn) - 1, pages, len(drawn) + 1)
    return drawn + [steps.token(number) for number in numbers]


def _copy(device_pages: tuple[int, ...], host_pages: tuple[int, ...] = HOSTS) -> tuple[PageCopy, ...]:
    return (PageCopy(device_pages, host_pages),)


VARIED = SamplingParams(max_tokens=50, temperature=1.5, seed=11, repetition_penalty=1.3)


@pytest.mark.parametrize("sampling", [GREEDY, VARIED], ids=["greedy", "drawn and penalised"])
@pytest.mark.parametrize("between", [0, 1, 4], ids=lambda steps: f"{steps} steps later")
def test_a_paused_sequence_goes_on_as_if_it_had_stayed(runner, sampling, between):
    """Another one takes its slot and pages in the very step that saves them; it comes back to other pages."""
    steps = Steps(runner)
    expected = _start(steps, sampling, TOKENS)
    runner.reset()

    steps = Steps(runner)
    drawn = _start(steps, sampling, BEFORE)
    intruder = Slice(0, 0, len(OTHER), OTHER, PAGES, True)
    steps(intruder, saves=_copy(PAGES), admissions=(Admission(0, GREEDY, OTHER),))
    _decodes(steps, len(OTHER), between, PAGES, 1)
    assert _resume(steps, sampling, drawn, OTHER_PAGES, loads=_copy(OTHER_PAGES)) == expected


def test_two_sequences_change_places_in_one_step(runner):
    """One is saved and the other loaded into its pages, while decodes go on; then back."""
    steps = Steps(runner)
    expected = _start(steps, GREEDY, TOKENS)
    runner.reset()

    steps, others = Steps(runner), (8, 10, 12, 13, 14)
    drawn = _start(steps, GREEDY, BEFORE)
    other = steps(Slice(1, 0, len(OTHER), OTHER, OTHER_PAGES, True), admissions=(Admission(1, GREEDY, OTHER),))
    alone = steps(Slice(1, len(OTHER), 1, None, OTHER_PAGES, True, 1))
    steps(saves=_copy(OTHER_PAGES, (10, 11, 12, 13, 14)))
    swap = steps(
        Slice(1, len(OTHER), 1, (steps.token(other),), PAGES, True, 1),
        saves=_copy(PAGES),
        loads=_copy(PAGES, (10, 11, 12, 13, 14)),
        admissions=(Admission(1, GREEDY, OTHER, (steps.token(other),)),),
    )
    assert steps.token(swap) == steps.token(alone)
    assert _resume(steps, GREEDY, drawn, others, loads=_copy(others)) == expected


def test_a_step_of_copies_alone_is_a_step(runner):
    steps = Steps(runner)
    drawn = _start(steps, GREEDY, BEFORE)
    saved = steps(saves=_copy(PAGES))
    loaded = steps(loads=_copy(OTHER_PAGES))
    for number in (saved, loaded):
        while number not in steps.drawn:
            steps.collect()
        assert steps.drawn[number] == []
    assert len(_resume(steps, GREEDY, drawn, OTHER_PAGES)) == TOKENS


def test_a_reset_forgets_what_was_saved(runner):
    steps = Steps(runner)
    _start(steps, GREEDY, BEFORE)
    steps(saves=_copy(PAGES))
    runner.reset()
    with pytest.raises(ValueError, match="host page 3 .* not saved"):
        runner.dispatch(StepPlan(1, loads=_copy(PAGES)))
    runner.reset()
    assert _start(Steps(runner), GREEDY, 2)


def test_copies_are_warmed_and_compile_nothing_later(warmed, runner):
    """Of every size, from the host's memory and from what is still on the device."""
    assert warmed[1][3:] == [
        ("copies of 1 page", 3, 6),
        ("copies of 4 pages", 4, 6),
        ("copies of 16 pages", 5, 6),
        ("done", 6, 6),
    ]
    steps = Steps(runner)
    drawn = _start(steps, GREEDY, BEFORE)
    for count in (1, 3, 5, 12, 16):
        pages, hosts = tuple(range(1, count + 1)), tuple(range(count))
        steps(saves=_copy(pages, hosts))
        steps(loads=_copy(pages, hosts))
        for _ in range(3):
            steps()
        steps(loads=_copy(pages, hosts))
    assert len(_resume(steps, GREEDY, drawn, PAGES)) == TOKENS
