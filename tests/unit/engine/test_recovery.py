"""Steps that raise: nothing is lost or repeated, and only the request at fault ends."""

from __future__ import annotations

import threading

import pytest

from andes_jax.engine.recovery import BARREN_SEARCHES
from andes_jax.request import FinishReason, Refusal
from tests.fakes import expected_ids, make_request, text_of

FAILED, LENGTH = FinishReason.FAILED, FinishReason.LENGTH


def submit(served, count: int, max_tokens: int = 12) -> list:
    requests = [make_request(f"r{index}", [index, index + 1, 7], max_tokens) for index in range(count)]
    for request in requests:
        served.engine.submit(request, served.inbox)
    return requests


def assert_right(served, requests, failed: tuple[str, ...] = ()) -> None:
    for request in requests:
        ids, expected = served.inbox.ids(request.id), expected_ids(request)
        if request.id in failed:
            assert served.inbox.finishes(request.id) == [FAILED]
            assert ids == expected[: len(ids)]
        else:
            assert served.inbox.finishes(request.id) == [LENGTH]
            assert ids == expected, "a token was lost or repeated"
        assert served.inbox.text(request.id) == text_of(ids)


def poisoned(request, generated: int):
    """Fails whenever the request computes with so many tokens drawn, or more."""
    start, length = list(request.prompt_ids), len(request.prompt_ids) + generated
    return lambda plan, contexts: any(len(context) >= length and context[: len(start)] == start for context in contexts)


@pytest.mark.parametrize("generated", [0, 1, 5])
@pytest.mark.parametrize("culprit", [0, 2, 7])
def test_the_culprit_alone_fails(serve, culprit, generated):
    served = serve(slots=8, step_tokens=64)
    requests = submit(served, 8)
    served.runner.fail_collect = poisoned(requests[culprit], generated)
    served.engine.start()
    assert served.engine.stop(30)
    assert_right(served, requests, failed=(f"r{culprit}",))
    assert len(served.inbox.ids(f"r{culprit}")) == generated
    assert "RuntimeError" in served.inbox.events[f"r{culprit}"][-1].message
    assert served.engine.statistics().step_failures >= 2
    served.assert_at_rest()


def test_two_culprits_fail_and_the_others_are_served(serve):
    served = serve(slots=8, step_tokens=64)
    requests = submit(served, 12)
    one, two = poisoned(requests[1], 3), poisoned(requests[6], 5)
    served.runner.fail_collect = lambda plan, contexts: one(plan, contexts) or two(plan, contexts)
    served.engine.start()
    assert served.engine.stop(30)
    assert_right(served, requests, failed=("r1", "r6"))
    served.assert_at_rest()


@pytest.mark.parametrize("where", ["dispatch", "collect"])
@pytest.mark.parametrize("step", [1, 2, 6])
def test_a_fault_that_does_not_come_back_costs_nobody(serve, where, step):
    served = serve(slots=3)
    requests = submit(served, 6)
    seen = []

    def once(plan, contexts=None):
        seen.append(plan)
        return len(seen) == step

    setattr(served.runner, f"fail_{where}", once)
    served.engine.start()
    assert served.engine.stop(30)
    assert_right(served, requests)
    assert served.runner.resets == served.engine.statistics().step_failures == 1
    served.assert_at_rest()


def test_requests_that_arrive_or_are_cancelled_during_the_search_are_served(serve):
    served = serve(slots=4)
    requests = submit(served, 4)
    guilty = poisoned(requests[3], 2)
    late, met = make_request("late", [50, 51], 5), threading.Event()

    def fail(plan, contexts):
        if not guilty(plan, contexts):
            return False
        if not served.runner.resets:
            served.engine.submit(late, served.inbox)
            served.engine.cancel("r0")
            met.set()
        return True

    served.runner.fail_collect = fail
    served.engine.start()
    assert met.wait(20)
    assert served.engine.stop(30)
    assert served.inbox.finishes("r0") == [FinishReason.CANCELLED]
    assert_right(served, [*requests[1:], late], failed=("r3",))
    served.assert_at_rest()


def test_shortage_of_pages_and_failures_together(serve):
    served = serve(slots=6, pages=18, page_tokens=2, max_model_len=32)
    requests = [make_request(f"r{index}", [index] * 3, 20) for index in range(6)]
    for request in requests:
        served.engine.submit(request, served.inbox)
    served.runner.fail_collect = poisoned(requests[4], 9)
    served.engine.start()
    assert served.engine.stop(30)
    assert_right(served, requests, failed=("r4",))
    served.assert_at_rest()


def assert_dead(served, requests) -> None:
    assert served.engine.state == "failed"
    for request in requests:
        assert served.inbox.finishes(request.id) == [FAILED]
        assert served.inbox.events[request.id][-1].message
    with pytest.raises(Refusal) as refused:
        served.engine.submit(make_request("more", [1], 1), served.inbox)
    assert refused.value.code == "engine_failed"


def test_a_runner_that_cannot_be_reset_ends_everything(serve):
    served = serve()
    requests = submit(served, 7)
    served.runner.fail_collect = lambda plan, contexts: len(served.runner.plans) > 4
    served.runner.fail_reset = lambda: True
    served.engine.start()
    served.engine.stop(30)
    assert_dead(served, requests)


def test_steps_that_never_work_end_everything_in_bounded_time(serve):
    served = serve(slots=4)
    requests = submit(served, 100)
    served.runner.fail_dispatch = lambda plan: True
    served.engine.start()
    served.engine.stop(30)
    assert_dead(served, requests)
    assert served.runner.resets < 30


def test_faults_of_no_single_request_end_everything_in_bounded_time(serve):
    served = serve(slots=4)
    requests = submit(served, 4, max_tokens=40)
    served.runner.fail_collect = lambda plan, contexts: len(contexts) > 3
    served.engine.start()
    served.engine.stop(30)
    assert_dead(served, requests)
    assert served.runner.resets == BARREN_SEARCHES


def test_logits_that_are_not_finite_end_their_request_alone(serve):
    served = serve()
    requests = submit(served, 4)
    served.runner.not_finite = lambda context: context[0] == 2 and len(context) == 8
    served.engine.start()
    assert served.engine.stop(30)
    assert_right(served, requests, failed=("r2",))
    assert "not finite" in served.inbox.events["r2"][-1].message and served.runner.resets == 0
    served.assert_at_rest()
