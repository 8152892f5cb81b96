from __future__ import annotations

import pytest

from andes_jax.request import FinishReason, Refusal, Tier
from tests.fakes import Rig, expected_ids, make_request


def test_one_request_alone():
    rig = Rig()
    request = make_request("a", [1, 2, 3], 5)
    rig.add(request)
    rig.run()
    assert tuple(rig.got["a"]) == expected_ids(request)
    assert [advance.finish for advance in rig.advances["a"]] == [None] * 4 + [FinishReason.LENGTH]
    computed = [(part.first, part.count, part.token_ids) for plan in rig.runner.plans for part in plan.slices]
    assert computed == [(0, 3, (1, 2, 3)), (3, 1, None), (4, 1, None), (5, 1, None), (6, 1, None)]


def test_steps_without_lag_carry_their_ids():
    rig = Rig()
    request = make_request("a", [1, 2, 3], 3)
    rig.add(request)
    while rig.plan().slices:
        rig.commit()
    ids = expected_ids(request)
    assert [part.token_ids for plan in rig.runner.plans for part in plan.slices] == [(1, 2, 3), ids[:1], ids[1:2]]


def test_long_prompts_come_in_chunks_and_running_sequences_get_their_token_every_step():
    rig = Rig(step_tokens=10, prefill_chunk=8)
    short, long = make_request("short", [1], 30), make_request("long", range(50), 4)
    rig.add(short)
    rig.step()
    rig.add(long)
    counts = []
    while not rig.got.get("long"):
        plan = rig.step()
        assert plan.tokens <= 10
        assert [part.count for part in plan.slices if part.slot != 0 or part.first < 1 or part.count == 1][:1] == [1]
        counts += [part.count for part in plan.slices if part.count > 1]
    assert counts == [8, 8, 8, 8, 8, 8, 2]
    rig.run()
    assert tuple(rig.got["short"]) == expected_ids(short) and tuple(rig.got["long"]) == expected_ids(long)


def test_stop_ids_end_the_reply_and_are_part_of_it():
    free = expected_ids(make_request("a", [1, 2, 3], 20))
    stop = free[6]
    assert stop not in free[:6]
    rig = Rig()
    rig.add(make_request("a", [1, 2, 3], 20, stop_ids=(stop,)))
    rig.run()
    assert tuple(rig.got["a"]) == free[:7]
    assert rig.advances["a"][-1].finish is FinishReason.STOP


def test_what_is_in_flight_for_an_ended_sequence_is_dropped_and_its_place_kept_until_then():
    rig = Rig(slots=1)
    rig.add(make_request("a", [1, 2, 3], 20))
    rig.plan()
    rig.commit()
    rig.plan()
    assert rig.scheduler.cancel("a") and not rig.scheduler.cancel("a")
    rig.add(make_request("b", [4, 5], 2))
    assert rig.pool.live and rig.scheduler.roster.free_slots == []
    assert rig.plan().slices == (), "the slot is still in use"
    assert rig.commit() == []
    assert rig.pool.live == 0 and rig.scheduler.roster.free_slots == [0]
    rig.run()
    assert tuple(rig.got["b"]) == expected_ids(make_request("b", [4, 5], 2)) and len(rig.got["a"]) == 1


def test_finish_and_cancel_in_the_same_step_release_once():
    rig = Rig()
    rig.add(make_request("a", [1, 2, 3], 1))
    rig.plan()
    (advance,) = rig.commit()
    assert advance.finish is FinishReason.LENGTH
    assert not rig.scheduler.cancel("a") and not rig.scheduler.finish("a", FinishReason.STOP)
    rig.run()


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "param", "numbers"),
    [(65, 0, "prompt", ("64", "65")), (64, 1, "prompt", ("64", "65")), (60, 5, "max_tokens", ("64", "65", "60"))]
    + [(128, 0, "prompt", ("64", "128")), (1, 10**8, "max_tokens", ("64", "100000001"))],
)
def test_what_exceeds_the_context_is_refused_with_the_numbers(prompt, max_tokens, param, numbers):
    rig = Rig(max_model_len=64)
    with pytest.raises(Refusal) as refused:
        rig.add(make_request("a", [1] * prompt, max_tokens))
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", param)
    assert all(number in refused.value.message for number in numbers)
    rig.add(make_request("b", [1] * 60, 4))
    rig.run()


def test_what_exceeds_the_pool_is_refused_and_what_just_fits_is_served():
    rig = Rig(pages=6, page_tokens=4)  # 20 tokens
    with pytest.raises(Refusal, match="at most 20 tokens") as refused:
        rig.add(make_request("a", [1] * 10, 12))
    assert refused.value.code == "context_length_exceeded"
    request = make_request("b", [1] * 10, 11)  # the last token needs no place
    rig.add(request)
    rig.run()
    assert tuple(rig.got["b"]) == expected_ids(request)


def test_an_empty_prompt_is_refused():
    with pytest.raises(Refusal, match="empty"):
        Rig().add(make_request("a", [], 5))


def test_nothing_to_generate_ends_at_once():
    rig = Rig()
    sequence = rig.scheduler.add(make_request("a", [1, 2], 0))
    assert sequence.finish is FinishReason.LENGTH and not rig.scheduler.has_work


@pytest.mark.parametrize("max_tokens", [0, 2])
@pytest.mark.parametrize("length", [1, 2, 8, 9, 21])
def test_prompt_scores_come_once_and_whole(max_tokens, length):
    rig = Rig(prefill_chunk=8)
    prompt = [(3 * index) % 7 for index in range(length)]
    rig.add(make_request("warm", prompt, 1))
    rig.run()
    rig.add(make_request("a", prompt, max_tokens, prompt_logprobs=True, top_logprobs=0))
    rig.run()
    told = [advance for advance in rig.advances["a"] if advance.prompt_logprobs is not None]
    assert told == rig.advances["a"][:1]
    none, *scores = told[0].prompt_logprobs
    assert none is None and [score.token_id for score in scores] == prompt[1:]
    assert [score.logprob for score in scores] == [-float(position) for position in range(1, length)]
    assert rig.advances["a"][-1].finish is FinishReason.LENGTH
    assert [len(advance.logprobs) for advance in rig.advances["a"]] == ([1] * max_tokens or [0])


def test_prompt_scores_are_whole_though_the_prompt_was_begun_twice_in_other_chunks():
    rig = Rig(policy="three_tier", step_tokens=6, prefill_chunk=6)
    rig.add(make_request("a", range(13), 0, prompt_logprobs=True, tier=Tier.BATCH))
    rig.plan()
    assert rig.commit() == []
    rig.runner.reset()
    rig.scheduler.restart(0.0)
    rig.add(make_request("urgent", [1], 9, tier=Tier.REALTIME))
    rig.run()
    (advance,) = rig.advances["a"]
    assert [score.token_id for score in advance.prompt_logprobs[1:]] == list(range(1, 13))
    assert [part.count for plan in rig.runner.plans for part in plan.slices if part.score_ids] == [6, 5, 5, 3]


def test_logits_that_are_not_finite_fail_their_sequence_alone_and_nobody_reuses_its_pages():
    rig = Rig()
    rig.runner.not_finite = lambda context: context[:2] == [5, 5] and len(context) == 12
    bad, good = make_request("bad", [5] * 8, 20), make_request("good", [6] * 8, 20)
    rig.add(bad, good)
    rig.run()
    assert rig.advances["bad"][-1].finish is FinishReason.FAILED
    assert "not finite" in rig.advances["bad"][-1].message
    assert tuple(rig.got["bad"]) == expected_ids(bad)[:4] and tuple(rig.got["good"]) == expected_ids(good)
    rig.runner.not_finite = lambda context: False
    before = rig.scheduler.paging.hit_tokens
    rig.add(make_request("again", [5] * 8, 20))
    rig.run()
    assert rig.scheduler.paging.hit_tokens == before
    assert tuple(rig.got["again"]) == expected_ids(bad)


def test_choices_of_one_prompt_share_its_pages():
    rig = Rig(step_tokens=16, prefill_chunk=16)
    choices = [make_request(f"c{index}", range(17), 6, choice=index, seed=index) for index in range(4)]
    rig.add(*choices)
    rig.run()
    for request in choices:
        assert tuple(rig.got[request.id]) == expected_ids(request)
    assert rig.scheduler.paging.hit_tokens == 3 * 16


def test_a_next_turn_reuses_prompt_and_reply():
    rig = Rig(max_model_len=128, pages=128)
    first = make_request("first", range(20), 13)
    rig.add(first)
    rig.run()
    rig.add(make_request("second", [*range(20), *expected_ids(first), 1, 2, 3], 4))
    rig.run()
    assert rig.scheduler.paging.hit_tokens == 32


def test_results_of_other_steps_are_refused():
    rig = Rig()
    rig.add(make_request("a", [1], 9))
    rig.plan()
    result = rig.runner.collect()
    rig.scheduler.commit(result, 0.0)
    with pytest.raises(ValueError, match="step 1"):
        rig.scheduler.commit(result, 0.0)


def test_restart_computes_everything_again_and_repeats_nothing():
    rig = Rig(slots=2)
    requests = [make_request(f"r{index}", [index] * (5 + index), 9) for index in range(4)]
    rig.add(*requests)
    for _ in range(7):
        rig.step()
    assert any(rig.got.values()) and rig.in_flight
    assert set(rig.scheduler.in_flight()) == {"r0", "r1"}
    rig.runner.reset()
    rig.scheduler.restart(0.0)
    rig.in_flight = 0
    assert rig.pool.free == rig.pool.total and len(rig.scheduler.roster.free_slots) == 2
    rig.run()
    for request in requests:
        assert tuple(rig.got[request.id]) == expected_ids(request)


def test_restricted_to_some_only_these_run():
    rig = Rig()
    rig.add(*[make_request(f"r{index}", [index, 1], 6) for index in range(3)])
    rig.step()
    with pytest.raises(RuntimeError, match="in flight"):
        rig.scheduler.restrict(frozenset(["r1"]), 0.0)
    rig.commit()
    rig.scheduler.restrict(frozenset(["r1"]), 0.0)
    rig.add(make_request("later", [8], 2))
    assert rig.scheduler.next_in_line().id == "r1"
    rig.step()
    assert rig.running() == ["r1"]
    rig.commit()
    rig.scheduler.restrict(None, 0.0)
    rig.run()
    assert all(len(rig.got[f"r{index}"]) == 6 for index in range(3)) and len(rig.got["later"]) == 2


@pytest.mark.parametrize("policy", ["fcfs", "three_tier"])
def test_the_same_history_makes_the_same_plans(policy):
    plans = []
    for _ in range(2):
        rig = Rig(policy=policy, pages=14, slots=3)
        rig.add(*[make_request(f"r{index}", range(3 + index), 12) for index in range(6)])
        rig.run()
        plans.append(rig.runner.plans)
    assert plans[0] == plans[1] and len(plans[0]) > 10


def test_plans_say_why():
    rig = Rig(policy="three_tier", slots=1)
    rig.add(make_request("a", [1, 2], 4), make_request("b", [1], 4))
    why = rig.plan().why
    assert (why["policy"], why["prefills"], why["admissions"], why["waiting"]) == ("three_tier", 1, 1, 1)
    assert (why["decodes"], why["skipped"], why["displaced"]) == (0, 0, [])


def test_each_request_can_be_explained():
    rig = Rig(policy="three_tier", slots=1)
    rig.add(make_request("a", [1], 4), make_request("b", [1, 2], 4))
    while rig.scheduler.has_work:
        rig.step()
        rig.now += 0.5
    first, second = (rig.scheduler.journal.explain(id) for id in "ab")
    assert [line["event"] for line in first["events"]] == ["arrived", "admitted", "finished"]
    admitted = second["events"][1]
    assert set(admitted["terms"]) >= {"tier", "interactivity", "waited", "resource", "priority"}
    assert (admitted["waiting"], admitted["running"], admitted["kept"], admitted["loaded_pages"]) == (0, 0, False, 0)
    assert second["events"][2]["reason"] == "length" and second["events"][2]["tokens"] == 4
    (wait,) = second["waits"]
    assert wait["from_s"] == 0 and wait["until_s"] == admitted["at_s"] > 0
    assert wait["for"] == {"slots": wait["until_s"]}


def test_a_request_is_explained_from_its_arrival_even_where_it_was_taken_in_later():
    rig = Rig(policy="three_tier")
    rig.now = 5.0
    rig.add(make_request("late", [1], 2, arrived_s=4.25), make_request("ahead", [1], 2, arrived_s=9.0))
    rig.step()
    late, ahead = (rig.scheduler.journal.explain(id)["events"] for id in ("late", "ahead"))
    assert [line["at_s"] for line in late[:2]] == [0.0, 0.75]
    assert [line["at_s"] for line in ahead[:2]] == [0.0, 0.0], "nobody comes after being taken in"
