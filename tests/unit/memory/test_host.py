from __future__ import annotations

import pytest

from andes_jax.memory.host import HostPages


def test_pages_are_taken_all_or_none_and_each_once():
    host = HostPages(5)
    first = host.take(3)
    assert len(set(first)) == 3 and host.free == 2 and host.total == 5
    assert host.take(3) is None and host.free == 2
    second = host.take(2)
    assert sorted([*first, *second]) == list(range(5)) and host.take(1) is None
    host.give(first)
    assert host.free == 3 and set(host.take(3)) == set(first)
    host.check()


def test_no_pages_are_always_to_be_had():
    host = HostPages(0)
    assert host.take(0) == () and host.take(1) is None and host.free == 0
    host.check()


@pytest.mark.parametrize("given", [(0,), (7,), (-1,)])
def test_check_sees_pages_given_twice_or_that_do_not_exist(given):
    host = HostPages(3)
    host.check()
    host.give(given)
    with pytest.raises(AssertionError):
        host.check()
