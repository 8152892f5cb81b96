from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.scheduling import journal as module
from andes_jax.scheduling.journal import Journal


def noted(journal: Journal, at_s: float, id: str, event: str, **details) -> None:
    journal.now = at_s
    journal.note(id, event, **details)


def test_a_life_by_hand():
    journal = Journal()
    noted(journal, 10.0, "a", "arrived", tier="batch")
    journal.waiting_for("slots")
    journal.now = 11.0
    journal.waiting_for("slots")
    journal.now = 12.0
    journal.waiting_for("pages")
    noted(journal, 15.0, "a", "admitted", waiting=3)
    noted(journal, 20.0, "a", "displaced", by="b")
    journal.waiting_for("slots")
    noted(journal, 26.0, "a", "admitted")
    noted(journal, 30.0, "a", "paused")
    noted(journal, 40.0, "a", "resumed")
    noted(journal, 40.5, "a", "admitted")
    noted(journal, 50.0, "a", "finished", reason="stop")
    told = journal.explain("a")
    assert told["id"] == "a"
    assert [(line["at_s"], line["event"]) for line in told["events"]] == [
        (0.0, "arrived"), (5.0, "admitted"), (10.0, "displaced"), (16.0, "admitted"), (20.0, "paused"),
        (30.0, "resumed"), (30.5, "admitted"), (40.0, "finished"),
    ]  # fmt: skip
    assert told["events"][0]["tier"] == "batch" and told["events"][2]["by"] == "b"
    assert told["waits"] == [
        {"from_s": 0.0, "until_s": 5.0, "for": {"slots": 2.0, "pages": 3.0}},
        {"from_s": 10.0, "until_s": 16.0, "for": {"slots": 6.0}},
        {"from_s": 30.0, "until_s": 30.5, "for": {"slots": 0.5}},
    ]
    assert json.loads(json.dumps(told)) == told


def test_one_that_still_waits_has_waited_until_now():
    journal = Journal()
    noted(journal, 1.0, "a", "arrived")
    journal.now = 4.0
    journal.waiting_for("tokens")
    journal.now = 6.0
    assert journal.explain("a")["waits"] == [{"from_s": 0.0, "until_s": 5.0, "for": {"nothing": 3.0, "tokens": 2.0}}]


def test_a_rest_is_no_wait():
    journal = Journal()
    noted(journal, 0.0, "a", "arrived")
    noted(journal, 1.0, "a", "paused")
    noted(journal, 5.0, "a", "resumed")
    noted(journal, 7.0, "a", "finished", reason="cancelled")
    assert [(wait["from_s"], wait["until_s"]) for wait in journal.explain("a")["waits"]] == [(0, 1), (5, 7)]


@given(
    st.lists(
        st.tuples(
            st.floats(0, 10),
            st.sampled_from(["slots", "pages", "tokens", "nothing", "admitted", "displaced", "paused", "resumed"]),
        ),
        max_size=40,
    )
)
def test_what_was_lacking_adds_up_to_each_wait(happenings):
    journal, now = Journal(), 5.0
    noted(journal, now, "a", "arrived")
    for later_s, what in happenings:
        now += later_s
        journal.now = now
        if what in ("slots", "pages", "tokens", "nothing"):
            journal.waiting_for(what)
        else:
            journal.note("a", what)
    told = journal.explain("a")
    ends = 0.0
    for wait in told["waits"]:
        assert sum(wait["for"].values()) == pytest.approx(wait["until_s"] - wait["from_s"], abs=1e-3)
        assert ends <= wait["from_s"] <= wait["until_s"] <= now
        ends = wait["until_s"]


def test_causes_older_than_are_kept_count_as_nothing(monkeypatch):
    monkeypatch.setattr(module, "CAUSES", 3)
    journal = Journal()
    noted(journal, 0.0, "a", "arrived")
    for second, cause in enumerate(["slots", "pages"] * 3):
        journal.now = float(second)
        journal.waiting_for(cause)
    journal.now = 6.0
    assert journal.explain("a")["waits"][0]["for"] == {"nothing": 3.0, "pages": 2.0, "slots": 1.0}


def test_unknown_and_forgotten_requests():
    journal = Journal()
    assert journal.explain("a") is None
    journal.note("a", "displaced")
    assert journal.explain("a") is None, "a life begins with its arrival"


def test_ended_ones_are_kept_up_to_a_number_the_oldest_going_first(monkeypatch):
    monkeypatch.setattr(module, "KEPT", 3)
    journal = Journal()
    for index in range(5):
        journal.note(f"r{index}", "arrived")
        journal.note(f"r{index}", "finished")
        journal.note(f"r{index}", "displaced")
    assert [journal.explain(f"r{index}") is None for index in range(5)] == [True, True, False, False, False]
    assert len(journal.explain("r4")["events"]) == 2, "nothing follows the end"
    journal.note("r4", "arrived")
    assert len(journal.explain("r4")["events"]) == 1, "an id used again tells of the one that lives"


def test_a_long_life_keeps_its_first_line_and_its_last(monkeypatch):
    monkeypatch.setattr(module, "LINES", 4)
    journal = Journal()
    for second, event in enumerate(["arrived", "admitted", "displaced", "admitted", "displaced", "admitted"]):
        noted(journal, float(second), "a", event)
    assert [line["at_s"] for line in journal.explain("a")["events"]] == [0, 3, 4, 5]


def test_a_wait_is_explained_from_the_causes_of_its_own_time_alone():
    """Explaining a request of many waits must not hold up the threads beside it."""

    class Counted(list):
        reads = 0

        def __getitem__(self, index):
            Counted.reads += 1
            return super().__getitem__(index)

    causes = Counted((float(second), ("slots", "pages")[second % 2]) for second in range(module.CAUSES))
    assert module._wait(causes, 5000.5, 5003.0, 0.0)["for"] == {"slots": 1.5, "pages": 1.0}
    assert Counted.reads < 40
