"""The scheduler over random histories of arrivals, cancellations, shortage and failures, one step ahead or not."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from andes_jax.memory.pool import PagePool
from andes_jax.memory.prefix import PrefixCache
from andes_jax.request import FinishReason, QoeTarget, Refusal, Tier
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.policies import SIMULATED_NAMES, create_policy
from andes_jax.scheduling.scheduler import Scheduler
from andes_jax.scheduling.sequence import State
from tests.fakes import FakeRunner, expected_ids, make_request

MAX_LENGTH = 24


class SchedulerMachine(RuleBasedStateMachine):
    @initialize(
        policy=st.sampled_from(SIMULATED_NAMES),
        pages=st.integers(5, 24),
        page_tokens=st.sampled_from([1, 2, 4]),
        slots=st.integers(1, 4),
        extra=st.integers(0, 8),
        chunk=st.integers(1, 8),
        max_preempt=st.integers(0, 3),
        cached=st.booleans(),
        host_pages=st.sampled_from([0, 2, 40]),
        reserve=st.integers(0, 3),
    )
    def make(self, policy, pages, page_tokens, slots, extra, chunk, max_preempt, cached, host_pages, reserve):
        prefix = PrefixCache(page_tokens) if cached else None
        self.pool = PagePool(pages, prefix, reserve=reserve)
        self.limits = SchedulerLimits(
            slots, MAX_LENGTH, slots + extra, chunk, page_tokens, max_preempt, preempt_share=1.0, warmup_steps=2
        )
        chosen = create_policy(policy, max_model_len=MAX_LENGTH)
        self.scheduler = Scheduler(chosen, self.pool, prefix, self.limits, host_pages=host_pages)
        self.runner = FakeRunner(pages, page_tokens, slots, host_pages=host_pages)
        self.now = 0.0
        self.in_flight = 0
        self.requests = {}
        self.got: dict[str, list[int]] = {}
        self.scores: dict[str, tuple] = {}
        self.ended: dict[str, FinishReason] = {}
        self.dropped: set[str] = set()

    @rule(
        prompt=st.lists(st.integers(0, 1), min_size=1, max_size=12),
        max_tokens=st.integers(0, 12),
        tier=st.sampled_from(Tier),
        seed=st.integers(0, 2),
        scored=st.booleans(),
        stop_ids=st.sampled_from([(), (3,), tuple(range(0, 97, 5))]),
        reader=st.sampled_from([None, QoeTarget(1.0, 5.0), QoeTarget(0.1, 0.05)]),
    )
    def arrive(self, prompt, max_tokens, tier, seed, scored, stop_ids, reader):
        request = make_request(
            f"r{len(self.requests)}", prompt, max_tokens, tier=tier, arrived_s=self.now, seed=seed,
            prompt_logprobs=scored and len(prompt) > 3, stop_ids=stop_ids, qoe=reader,
        )  # fmt: skip
        positions = max(len(prompt) + max_tokens - 1, len(prompt))
        try:
            sequence = self.scheduler.add(request, self.now)
        except Refusal:
            assert positions > self.pool.total * self.limits.page_tokens
            return
        assert positions <= self.pool.total * self.limits.page_tokens
        self.requests[request.id] = request
        self.got[request.id] = []
        if sequence.finish is not None:
            assert max_tokens == 0
            self.ended[request.id] = sequence.finish

    def live(self) -> list[str]:
        return [request_id for request_id in self.requests if request_id not in self.ended]

    @precondition(lambda self: self.live())
    @rule(data=st.data(), reason=st.sampled_from([FinishReason.CANCELLED, FinishReason.STOP]))
    def end(self, data, reason):
        request_id = data.draw(st.sampled_from(self.live()))
        assert self.scheduler.finish(request_id, reason)
        assert not self.scheduler.cancel(request_id)
        self.ended[request_id] = reason
        self.dropped.add(request_id)

    @precondition(lambda self: self.live())
    @rule(data=st.data(), pause=st.booleans())
    def pause_or_resume(self, data, pause):
        request_id = data.draw(st.sampled_from(self.live()))
        assert (self.scheduler.pause if pause else self.scheduler.resume)(request_id, self.now)

    @rule(seconds=st.sampled_from([0.0, 0.1, 3.0, 70.0]))
    def wait(self, seconds):
        self.now += seconds

    @precondition(lambda self: self.in_flight < 2)
    @rule()
    def plan(self):
        ahead = self.in_flight
        plan = self.scheduler.plan(self.now)
        planned = {part.slot for part in plan.slices}
        assert plan.tokens <= self.limits.step_tokens
        assert all(part.count <= self.limits.prefill_chunk for part in plan.slices)
        decoding = [s for s in self.scheduler.roster.running if s.known - s.computed == 1 and s.generated > 0]
        for sequence in decoding:
            drawn_out = sequence.computed >= sequence.goal
            paused = sequence.computed >= sequence.capacity
            assert sequence.slot in planned or drawn_out or paused, f"{sequence.id} was skipped"
        if plan.slices:
            self.runner.dispatch(plan)
            self.in_flight += 1
        else:
            resting = all(self.scheduler.roster.live[each].paused for each in self.live())
            assert ahead or resting, "work, nothing in flight, and nothing planned"

    @precondition(lambda self: self.in_flight)
    @rule()
    def commit(self):
        result = self.runner.collect()
        self.in_flight -= 1
        for advance in self.scheduler.commit(result, self.now, 0.01):
            request_id = advance.sequence.id
            assert request_id not in self.ended, "news after the end"
            self.got[request_id] += advance.token_ids
            if advance.prompt_logprobs is not None:
                assert request_id not in self.scores
                self.scores[request_id] = advance.prompt_logprobs
            if advance.finish is not None:
                self.ended[request_id] = advance.finish

    @rule()
    def fail(self):
        self.runner.reset()
        self.scheduler.restart(self.now)
        self.in_flight = 0
        assert self.pool.free == self.pool.total

    @invariant()
    def whole(self):
        if not hasattr(self, "scheduler"):
            return
        assert self.runner.violations == []
        self.pool.check()
        roster = self.scheduler.roster
        holding = [*roster.running, *roster.leaving]
        assert sorted([*roster.free_slots, *(s.slot for s in holding)]) == list(range(self.limits.max_sequences))
        at_rest = [*roster.waiting.members, *roster.held.values()]
        assert self.pool.live == len({page for each in [*holding, *at_rest] for page in each.pages})
        self.scheduler.stowage.check()
        host = self.scheduler.stowage.host_pages
        assert host.total - host.free == sum(len(each.stored) for each in [*holding, *at_rest])
        for sequence in [*holding, *at_rest]:
            sequence.check()
            assert sequence.preempt_count <= self.limits.max_preempt or sequence.state is State.FINISHED
        assert len(roster.waiting) == sum(roster.waiting.per_tier)
        for request_id, ids in self.got.items():
            expected = expected_ids(self.requests[request_id])
            assert tuple(ids) == expected[: len(ids)], "a token is wrong, lost or repeated"

    def teardown(self):
        """Everything ends by itself once nothing is paused, in a bounded number of steps, with the right tokens."""
        if not hasattr(self, "scheduler"):
            return
        for request_id in self.live():
            self.scheduler.resume(request_id, self.now)
        steps = 0
        while self.live() or self.in_flight:
            if self.in_flight < 2:
                self.plan()
            if self.in_flight == 2 or not self.live() or steps % 3 == 0:
                while self.in_flight:
                    self.commit()
            self.whole()
            steps += 1
            assert steps < 3000, "does not come to an end"
        for request_id in self.requests.keys() - self.dropped:
            request = self.requests[request_id]
            assert tuple(self.got[request_id]) == expected_ids(request)
            if request.sampling.prompt_logprobs:
                drawn = [None if score is None else score.token_id for score in self.scores[request_id]]
                assert drawn == [None, *request.prompt_ids[1:]]
            else:
                assert request_id not in self.scores
        assert self.pool.live == 0


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(max_examples=120, stateful_step_count=50, deadline=None)
