"""The scheduler over random histories of arrivals, cancellations, pauses, shortage and failures, a step ahead or not.

Two schedulers are told the same history, and must never differ. Only the first one's plans are computed.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from andes_jax.memory.pool import PagePool
from andes_jax.memory.prefix import PrefixCache
from andes_jax.prediction.lengths import LengthHistory
from andes_jax.request import FinishReason, QoeTarget, Refusal, Tier
from andes_jax.scheduling.haste import MOST_IN_A_ROW
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.plan import StepPlan
from andes_jax.scheduling.policies import SIMULATED_NAMES, Weights, create_policy
from andes_jax.scheduling.scheduler import Scheduler
from andes_jax.scheduling.sequence import Sequence, State
from tests.fakes import FakeRunner, expected_ids, make_request
from tests.property.priorities import Hopeful, WaitingPriorities

MAX_LENGTH = 24
LONGEST_DROUGHT = 2 * MAX_LENGTH + 12  # rounds without news while somebody may run: a prompt of one-token chunks, twice
SEEN: Counter[str] = Counter()  # what the histories have led to


class SchedulerMachine(RuleBasedStateMachine):
    @initialize(
        policy=st.sampled_from([*SIMULATED_NAMES, "three_tier", "three_tier"]),
        positions=st.sampled_from([12, 24, 28, 36, 60]),
        page_tokens=st.sampled_from([1, 2, 4]),
        slots=st.integers(1, 4),
        extra=st.integers(0, 8),
        chunk=st.integers(1, 8),
        max_preempt=st.integers(0, 3),
        cached=st.booleans(),
        host_pages=st.sampled_from([0, 2, 40]),
        reserve=st.integers(0, 3),
        weights=st.sampled_from([Weights(), Weights(relegate=0.0)]),
        predictor=st.sampled_from([LengthHistory, Hopeful]),
    )
    def make(
        self, policy, positions, page_tokens, slots, extra, chunk, max_preempt, cached, host_pages, reserve, weights,
        predictor,
    ):  # fmt: skip
        pages = positions // page_tokens + 1
        self.limits = SchedulerLimits(
            slots, MAX_LENGTH, slots + extra, chunk, page_tokens, max_preempt, preempt_share=1.0, warmup_steps=2
        )
        self.twins: list[Scheduler] = []
        for _ in range(2):
            prefix = PrefixCache(page_tokens) if cached else None
            pool = PagePool(pages, prefix, reserve=reserve)
            chosen = create_policy(policy, max_model_len=MAX_LENGTH, weights=weights)
            one = Scheduler(chosen, pool, prefix, self.limits, host_pages=host_pages, predictor=predictor())
            self.twins.append(one)
        self.scheduler = self.twins[0]
        self.pool = self.scheduler.pool
        self.runner = FakeRunner(pages, page_tokens, slots, host_pages=host_pages)
        self.now = 0.0
        self.in_flight = 0
        self.requests = {}
        self.got: dict[str, list[int]] = {}
        self.scores: dict[str, tuple] = {}
        self.ended: dict[str, FinishReason] = {}
        self.dropped: set[str] = set()
        self.losses, self.in_a_row = Counter(), Counter()  # by id: places lost, and steps that passed it by in a row
        self.priorities = WaitingPriorities()
        self.drought = 0

    def both(self, what: str, *arguments):
        """Tell both the same; what they answer."""
        one, other = (getattr(scheduler, what)(*arguments) for scheduler in self.twins)
        if not isinstance(one, Sequence):
            assert one == other, f"{what} depends on more than the history"
        return one

    def live(self) -> list[str]:
        return [request_id for request_id in self.requests if request_id not in self.ended]

    def may_run(self) -> list[str]:
        """Live requests that neither rest nor are kept from running by a trial of others."""
        allowed, live = self.scheduler.roster.allowed, self.scheduler.roster.live
        return [each for each in self.live() if (not live[each].paused if allowed is None else each in allowed)]

    @rule(
        tiers=st.lists(st.sampled_from(Tier), min_size=1, max_size=4),
        length=st.sampled_from([12, 7, 3, 1]),
        content=st.integers(0, 15),
        max_tokens=st.sampled_from([12, 11, 5, 1, 0]),
        scored=st.sampled_from([False, False, True]),
        stop_ids=st.sampled_from([(), (), (3,), tuple(range(0, 97, 5))]),
        reader=st.sampled_from([QoeTarget(0.1, 0.05), QoeTarget(1.0, 5.0), None]),
    )
    def arrive(self, tiers, length, content, max_tokens, scored, stop_ids, reader):
        """Some at once, alike but for their tiers and seeds."""
        prompt = [content >> place % 4 & 1 for place in range(length)]
        positions = max(length + max_tokens - 1, length)
        for seed, tier in enumerate(tiers):
            request = make_request(
                f"r{len(self.requests)}", prompt, max_tokens, tier=tier, arrived_s=self.now, seed=seed,
                prompt_logprobs=scored and length > 3, stop_ids=stop_ids, qoe=reader,
            )  # fmt: skip
            try:
                sequence = self.both("add", request, self.now)
            except Refusal:
                assert positions > self.pool.total * self.limits.page_tokens
                return
            assert positions <= self.pool.total * self.limits.page_tokens
            self.requests[request.id] = request
            self.got[request.id] = []
            self.drought = 0
            if sequence.finish is not None:
                assert max_tokens == 0
                self.ended[request.id] = sequence.finish

    @precondition(lambda self: self.live())
    @rule(which=st.integers(0, 99), reason=st.sampled_from([FinishReason.CANCELLED, FinishReason.STOP]))
    def end(self, which, reason):
        request_id = self.live()[which % len(self.live())]
        stored = self.scheduler.roster.live[request_id].stored
        SEEN["ended while stored"] += bool(stored)
        assert self.both("finish", request_id, reason)
        assert not self.both("cancel", request_id)
        self.ended[request_id] = reason
        self.dropped.add(request_id)
        self.drought = 0

    @precondition(lambda self: self.live())
    @rule(which=st.integers(0, 99), pause=st.booleans())
    def pause_or_resume(self, which, pause):
        request_id = self.live()[which % len(self.live())]
        assert self.both("pause" if pause else "resume", request_id, self.now)
        self.drought = 0

    @rule(seconds=st.sampled_from([0.0, 0.1, 3.0, 70.0]))
    def wait(self, seconds):
        self.now += seconds

    @precondition(lambda self: self.in_flight < 2)
    @rule(copied=st.sampled_from([True, False, False, False]))
    def plan(self, copied=False):
        ahead, could_run = self.in_flight, self.may_run()
        roster, stowage = self.scheduler.roster, self.scheduler.stowage
        ran, parked, given_up = set(roster.running), set(stowage._parked), stowage.recomputed_tokens
        copies = [deepcopy(self.scheduler) for _ in range(2)] if copied else []
        plan = self.both("plan", self.now)
        for copy in copies:
            assert (again := copy.plan(self.now)) == plan and again.why == plan.why
        SEEN["kept"] += len(parked & set(roster.running))
        SEEN["recomputed"] += stowage.recomputed_tokens > given_up
        self.check_plan(plan, {sequence.id for sequence in ran})
        if plan.slices:
            self.runner.dispatch(plan)
            self.in_flight += 1
        else:
            assert ahead or not could_run, "work, nothing in flight, and nothing planned"
            assert not plan.admissions and not plan.loads and not plan.saves

    def check_plan(self, plan: StepPlan, ran: set[str]) -> None:
        planned, running = {part.slot for part in plan.slices}, self.scheduler.roster.running
        assert plan.tokens <= self.limits.step_tokens
        assert max((part.count for part in plan.slices), default=0) <= self.limits.prefill_chunk
        assert plan.why["skipped"] == sum(sequence.slot not in planned for sequence in running)
        for sequence in running:
            in_turn = sequence.slot in planned or sequence.computed >= min(sequence.goal, sequence.capacity)
            if not in_turn and sequence.known == sequence.computed + 1 and sequence.generated > 0:
                spare = sequence.tier is Tier.BATCH
                self.in_a_row[sequence.id] += 1
                assert spare and self.scheduler.policy.skips, f"{sequence.id} was skipped"
                assert self.in_a_row[sequence.id] <= MOST_IN_A_ROW, f"{sequence.id} was skipped"
                SEEN["left out in haste"] += 1
            elif sequence.slot in planned:
                self.in_a_row[sequence.id] = 0
        SEEN["saved"] += len(plan.saves)
        SEEN["loaded"] += len(plan.loads)
        for victim, taker in plan.why["displaced"]:
            tiers = [self.requests[each].tier for each in (victim, taker)]
            if tiers[0] is Tier.BATCH and tiers[1] is not Tier.BATCH:
                SEEN["yielded"] += 1
                continue
            self.losses[victim] += 1
            assert self.losses[victim] <= self.limits.max_preempt, f"{victim} has lost its place too often"
            by_slack = self.scheduler.policy.name == "three_tier" and tiers[0] == tiers[1] and taker not in ran
            SEEN["displaced by an equal's need"] += by_slack

    @precondition(lambda self: self.in_flight)
    @rule()
    def commit(self):
        result = self.runner.collect()
        self.in_flight -= 1
        advances, others = (scheduler.commit(result, self.now, 0.3) for scheduler in self.twins)
        assert [one[1:] for one in advances] == [other[1:] for other in others]
        for advance in advances:
            request_id = advance.sequence.id
            assert request_id not in self.ended, "news after the end"
            self.got[request_id] += advance.token_ids
            if advance.prompt_logprobs is not None:
                assert request_id not in self.scores
                self.scores[request_id] = advance.prompt_logprobs
            if advance.finish is not None:
                self.ended[request_id] = advance.finish
        self.drought = 0 if advances or not self.may_run() else self.drought + 1
        assert self.drought < LONGEST_DROUGHT, "somebody may run, but nothing comes of it"

    @rule(rounds=st.integers(1, 40), ahead=st.booleans(), seconds=st.sampled_from([0.0, 0.05, 2.0]))
    def serve(self, rounds, ahead, seconds):
        """Many rounds in a row, as an engine goes through them."""
        for _ in range(rounds):
            if self.in_flight < 2:
                self.plan()
            if self.in_flight > ahead or not self.may_run():
                while self.in_flight > (ahead and bool(self.may_run())):
                    self.commit()
            self.now += seconds
            self.whole()

    @rule()
    def fail(self):
        self.runner.reset()
        self.both("restart", self.now)
        self.in_flight = self.drought = 0
        self.priorities = WaitingPriorities()
        assert self.pool.free == self.pool.total

    @precondition(lambda self: self.in_flight == 0)
    @rule(which=st.integers(0, 99), count=st.integers(0, 3))
    def restrict(self, which, count):
        """Only these may run, as when one of them is suspected of making steps fail."""
        suspects = self.live()[which % max(len(self.live()), 1) :][:count]
        self.both("restrict", frozenset(suspects) or None, self.now)
        self.drought = 0
        self.priorities = WaitingPriorities()

    @invariant()
    def whole(self):
        if not hasattr(self, "twins"):
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

    @invariant()
    def priorities_grow(self):
        if hasattr(self, "twins") and self.scheduler.policy.name == "three_tier":
            self.priorities.check(self.scheduler, self.now)

    def teardown(self):
        """Everything ends by itself once nothing is paused, with the right tokens."""
        if not hasattr(self, "twins"):
            return
        if self.scheduler.roster.allowed is not None:
            while self.in_flight:
                self.commit()
            self.both("restrict", None, self.now)
        for request_id in self.live():
            self.both("resume", request_id, self.now)
        steps = self.drought = 0
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
TestSchedulerMachine.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
