from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.scheduling.journal import LINES, Journal
from andes_jax.scheduling.record import Record
from andes_jax.scheduling.words import CAUSES, seconds, tell, terms_words, waits_of
from tests.fakes import Rig, make_request

TERMS = {
    "tier": 0,
    "interactivity": 0.2,
    "waited": 0.31,
    "resource": 0.1,
    "priority": 0.61,
    "slack_s": -0.5,
    "remaining": 80.2,
}


def lived(*happenings: tuple) -> dict:
    """The record of "a" after (second, event, details) or (second, cause) in order, as it comes out of JSON."""
    journal = Journal()
    for at_s, what, *details in happenings:
        journal.now = 100.0 + at_s
        if what in CAUSES:
            journal.waiting_for(what)
        elif what != "now":
            journal.note("a", what, **(details[0] if details else {}))
    return json.loads(json.dumps(journal.explain("a")))


def lines(record: dict) -> list[str]:
    """The timeline with its details behind each moment."""
    return [" | ".join((f"{at_s:.2f} {words}", *details)) for at_s, words, details in tell(record).timeline]


def admitted(**details) -> dict:
    return {"waiting": 0, "running": 0, "terms": {}, "computed": 0, "kept": False, "loaded_pages": 0} | details


FIRST_WAIT = (
    (0, "arrived", {"tier": "batch", "prompt_tokens": 7}),
    (0, "slots"),
    (2.9, "pages"),
    (3.21, "admitted", admitted(waiting=3, running=1, terms=TERMS)),
)


def test_a_wait_is_told_by_its_causes_and_a_start_by_its_terms():
    story = tell(lived(*FIRST_WAIT, (5, "finished", {"reason": "stop", "tokens": 1})))
    assert story.title == "a, tier batch, 7 prompt tokens"
    assert [each.at_s for each in story.timeline] == [0, 3.21, 5]
    start = story.timeline[1]
    waited = "3.21 s: 2.90 s because all slots were taken, 0.31 s because pages were short"
    assert start.words == f"started after waiting {waited}"
    assert start.details == (
        "beside 1 running; 3 others waited",
        "its wait had lifted it into tier realtime",
        "priority 0.610 = interactivity 0.200 + waited 0.310 + resource 0.100; carried by waited: its wait",
        "its reader had needed the first token 0.50 s before",
        "80 tokens of it expected to come",
    )
    assert story.timeline[2].words == "ended: complete, 1 token"
    assert story.summary == f"waited {waited}; ended after 5.00 s: complete, 1 token."


def test_who_took_its_place_and_where_its_pages_were():
    record = lived(
        *FIRST_WAIT,
        (4, "displaced", {"by": "b", "tokens": 12}),
        (4, "slots"),
        (5, "admitted", admitted(kept=True, computed=19)),
        (6, "displaced", {"by": "c", "tokens": 13}),
        (6.5, "saved", {"pages": 4}),
        (7, "admitted", admitted(computed=20, loaded_pages=4)),
        (8, "displaced", {"by": "d", "tokens": 14}),
        (8.5, "dropped", {"tokens": 21}),
        (9, "admitted", admitted(computed=16)),
        (10, "finished", {"reason": "length", "tokens": 20}),
    )
    told = lines(record)[2:]
    assert told == [
        "4.00 lost its place to b after 12 tokens",
        "5.00 started again after waiting 1.00 s because all slots were taken | alone; nobody else waited | "
        "its pages had been kept in place",
        "6.00 lost its place to c after 13 tokens",
        "6.50 others needed its place: 4 pages copied to host memory",
        "7.00 started again after waiting 1.00 s because all slots were taken | alone; nobody else waited | "
        "4 pages copied back from host memory",
        "8.00 lost its place to d after 14 tokens",
        "8.50 others needed its place: 21 tokens to be computed again",
        "9.00 started again after waiting 1.00 s because all slots were taken | alone; nobody else waited | "
        "5 tokens to be computed again, 16 tokens were still in the cache",
        "10.00 ended: at its greatest length, 20 tokens",
    ]
    assert tell(record).summary == (
        "waited 6.21 s: 5.90 s because all slots were taken, 0.31 s because pages were short; "
        "lost its place 3 times; ended after 10.00 s: at its greatest length, 20 tokens."
    )


@pytest.mark.parametrize(
    ("lost", "found", "words"),
    [
        (
            ("saved", {"pages": 4}),
            {"computed": 9, "loaded_pages": 3},
            "3 pages copied back from host memory, the others were still in the cache",
        ),
        (("saved", {"pages": 4}), {"computed": 9}, "its pages were still in the cache"),
        (("saved", {"pages": 4}), {}, "its copy is gone; all is computed again"),
        (("dropped", {"tokens": 1}), {}, "1 token to be computed again"),
        (("dropped", {"tokens": 9}), {"computed": 9}, "9 tokens were still in the cache"),
    ],
)
def test_what_came_back_is_told_by_what_was_lost(lost, found, words):
    told = tell(
        lived((0, "arrived"), (0, "admitted"), (1, "displaced"), (1, *lost), (2, "admitted", admitted(**found)))
    )
    assert told.timeline[-1].details[1:] == (words,)


def test_a_prompt_in_the_prefix_cache():
    story = tell(lived((0, "arrived"), (0.0004, "admitted", admitted(computed=32))))
    assert story.timeline[1].words == "started at once"
    assert story.timeline[1].details[1] == "32 tokens were in the prefix cache"
    assert story.summary == "did not wait; still runs."


def test_pauses_are_no_waits_but_what_follows_them_is():
    record = lived(
        (0, "arrived"),
        (0, "admitted"),
        (1, "paused", {"tokens": 5}),
        (4, "resumed"),
        (4, "tokens"),
        (4.05, "admitted"),
        (5, "paused", {"tokens": 9}),
        (6, "finished", {"reason": "cancelled", "tokens": 9}),
    )
    assert lines(record)[2:] == [
        "1.00 paused after 5 tokens, as its client left the stream unread",
        "4.00 its client reads again, after 3.00 s",
        "4.05 started again after waiting 50 ms because steps were full",
        "5.00 paused after 9 tokens, as its client left the stream unread",
        "6.00 ended: cancelled, as its client had left, 9 tokens",
    ]
    assert tell(record).summary == (
        "waited 50 ms because steps were full; paused twice for 4.00 s, as its client left the stream unread; "
        "ended after 6.00 s: cancelled, as its client had left, 9 tokens."
    )


def test_a_pause_or_an_end_may_cut_a_wait_short():
    record = lived((0, "arrived"), (0, "slots"), (1, "paused"), (2, "resumed"), (5, "finished", {"reason": "failed"}))
    assert lines(record)[1:] == [
        "1.00 paused, as its client left the stream unread; it had waited 1.00 s because all slots were taken",
        "2.00 its client reads again, after 1.00 s",
        "5.00 ended: failed; it had waited 3.00 s because all slots were taken",
    ]


def test_what_still_goes_on_is_said():
    waits = tell(lived((0, "arrived"), (0, "pages"), (4, "now")))
    assert waits.timeline[-1] == (4.0, "still waits, so far 4.00 s because pages were short", ())
    assert waits.summary == "waited 4.00 s because pages were short; still waits."
    assert tell(lived((0, "arrived"))).timeline[-1].words == "still waits"
    paused = tell(lived((0, "arrived"), (0, "admitted"), (1, "paused")))
    assert paused.summary == "did not wait; paused once, as its client left the stream unread; is still paused."


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        (
            TERMS | {"tier": 2, "slack_s": None, "interactivity": 0.5},
            ["carried by interactivity: its reader's need", "nobody reads along"],
        ),
        (
            TERMS | {"tier": 2, "slack_s": float("inf"), "resource": 0.4},
            ["carried by resource: how little work", "nobody reads along"],
        ),
        (TERMS | {"tier": 2, "slack_s": 0.0}, ["carried by waited: its wait", "needed the next token within 0 ms"]),
        ({"arrival": 12}, ["first come, first served: it was arrival 12"]),
        ({"waited_s": 2.0}, ["longest wait first: it had waited 2.00 s"]),
        ({"remaining": 1.0}, ["1 token of it expected"]),
        ({"gain_per_token": 0.01}, ["0.0100"]),
        ({"something new": 1.0, "remaining": None}, []),
    ],
)
def test_every_policy_s_reasons_have_words(terms, words):
    told = list(terms_words(terms, "batch", first=False))
    assert all(part in " | ".join(told) for part in words)
    assert len(told) == len(words) + ("remaining" in terms and "priority" in terms)


def test_all_policies_that_serve_or_simulate_have_words():
    for policy in ("three_tier", "fcfs", "round_robin", "andes_paper", "sjf_oracle"):
        rig = Rig(policy=policy, slots=1)
        rig.add(make_request("a", [1], 4))
        rig.step()
        assert len(tell(rig.scheduler.journal.explain("a")).timeline[1].details) >= 2, policy


def test_records_without_causes_say_so():
    record = lived(*FIRST_WAIT, (4, "displaced"), (6, "finished"))
    del record["waits"]
    story = tell(record)
    assert story.timeline[1].words == "started after waiting 3.21 s, for what is not recorded"
    assert story.summary.startswith("waited 5.21 s, for what is not recorded; lost its place once; ended after 6.00 s")


def test_a_life_longer_than_is_kept_says_so():
    happenings = [(0.0, "arrived")]
    for second in range(LINES):
        happenings += [(second, "admitted"), (second, "displaced")]
    assert "not all kept" in tell(lived(*happenings)).timeline[0].details[0]
    assert tell(lived(*happenings[:5])).timeline[0].details == ()


def test_what_another_version_adds_is_told_by_its_name():
    record = {"id": "a", "events": [{"at_s": 0, "event": "arrived"}, {"at_s": 1, "event": "moved", "to": 3}]}
    record["waits"] = [{"from_s": 0, "until_s": 2, "for": {"a licence": 2.0}}]
    assert lines(record) == ["0.00 arrived", "1.00 moved", "2.00 still waits, so far 2.00 s for a licence"]


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"id": "a"},
        {"id": "a", "events": []},
        {"id": "a", "events": [1]},
        {"id": "a", "events": [{"event": "x"}]},
        [],
    ],
)
def test_what_is_no_record_is_a_value_error(record):
    with pytest.raises(ValueError, match="events|id|record"):
        tell(record)


def test_times_are_short():
    assert [seconds(value) for value in (0, 0.0123, 0.1, 3.214, 600)] == [
        "0 ms",
        "12 ms",
        "0.10 s",
        "3.21 s",
        "600.00 s",
    ]


EVENTS = [
    "admitted",
    "displaced",
    "paused",
    "resumed",
    "saved",
    "dropped",
    "slots",
    "pages",
    "tokens",
    "nothing",
    "now",
]


@given(st.lists(st.tuples(st.floats(0, 5), st.sampled_from(EVENTS)), max_size=40), st.booleans())
def test_every_history_has_words_and_the_journal_s_waits(history, over):
    at_s, happenings = 0.0, [(0.0, "arrived")]
    for later_s, what in history:
        at_s += later_s
        happenings.append((at_s, what))
    record = lived(*happenings, *([(at_s, "finished", {"reason": "stop"})] if over else []))
    story = tell(record)
    assert story.summary.endswith(".") and len(story.timeline) >= len(record["events"])
    ended = [(wait.from_s, wait.until_s) for wait in waits_of(Record.model_validate(record).events)]
    known = [(wait["from_s"], wait["until_s"]) for wait in record["waits"]]
    assert ended == known[: len(ended)] and len(known) - len(ended) in (0, 1)
    assert not over or ended == known


def test_moments_without_a_slot_add_up_to_no_wait():
    instants = ((0, "arrived"), (0.0003, "admitted", admitted()), (1, "paused"), (3, "resumed"))
    story = tell(lived(*instants, (3.0003, "admitted", admitted()), (4, "finished", {"reason": "stop", "tokens": 1})))
    assert story.summary.startswith("did not wait; paused once for 2.00 s"), story.summary
