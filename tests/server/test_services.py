"""Each application has parts of its own."""

from __future__ import annotations

import dataclasses

from server.services import Services
from tests.server.parts import mk_context


def test_two_applications_share_the_context_alone():
    context = mk_context(profile_streaming=True)
    one, two = Services.of(context), Services.of(context)
    context.engine.stop(0)
    for each in (one, two):
        each.profiler.close()
    for field in dataclasses.fields(Services):
        same = getattr(one, field.name) is getattr(two, field.name)
        assert same == (field.name == "context")
