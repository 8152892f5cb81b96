from __future__ import annotations

from andes_jax.scheduling.draft import Draft
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request


def seated(prompt: int, max_tokens: int, *, known: int, computed: int, capacity: int = 64, **sampling) -> Sequence:
    sequence = Sequence(make_request("a", range(prompt), max_tokens, **sampling), 1)
    sequence.slot, sequence.known, sequence.computed, sequence.capacity = 3, known, computed, capacity
    sequence.table = (5, 6)
    return sequence


def test_a_decode_of_a_token_on_the_device_carries_no_id():
    sequence = seated(4, 10, known=6, computed=5)
    draft = Draft()
    assert draft.decode([sequence]) == []
    (part,) = draft.slices
    assert (part.slot, part.first, part.count, part.token_ids, part.pages) == (3, 5, 1, None, (5, 6))
    assert part.sample and part.generated == 2
    assert (sequence.computed, sequence.known, sequence.in_flight) == (6, 7, 1)


def test_who_has_no_page_or_has_drawn_all_is_left_out():
    full = seated(4, 10, known=6, computed=5, capacity=5)
    done = seated(4, 2, known=6, computed=5)
    drawing = seated(4, 10, known=6, computed=6)
    draft = Draft()
    assert draft.decode([full, done, drawing]) == [] and draft.slices == []


def test_prompts_are_behind_until_their_end_draws():
    sequence = seated(10, 5, known=10, computed=0)
    draft = Draft()
    assert draft.decode([sequence]) == [sequence]
    assert draft.prefill(sequence, 7) == 7 and draft.prefill(sequence, 7) == 3
    assert [(part.first, part.token_ids, part.sample) for part in draft.slices] == [
        (0, tuple(range(7)), False),
        (7, (7, 8, 9), True),
    ]
    assert sequence.known == 11


def test_one_token_prompts_are_prefilled_and_score_only_requests_draw_nothing():
    sequence = seated(1, 0, known=1, computed=0, prompt_logprobs=True)
    draft = Draft()
    assert draft.decode([sequence]) == [sequence]
    draft.prefill(sequence, 5)
    assert not draft.slices[0].sample and draft.slices[0].score_ids == ()


def test_scores_are_asked_of_the_prompt_alone():
    sequence = seated(6, 5, known=6, computed=0, prompt_logprobs=True)
    draft = Draft()
    draft.prefill(sequence, 4)
    draft.prefill(sequence, 4)
    assert [part.score_ids for part in draft.slices] == [(1, 2, 3, 4), (5,)]
