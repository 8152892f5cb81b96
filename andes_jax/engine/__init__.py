"""The loop that serves: inbox, plan, run, commit, events. It knows runners only by their protocol."""

from andes_jax.engine.loop import Engine
from andes_jax.engine.statistics import EngineStatistics, Limits

__all__ = ["Engine", "EngineStatistics", "Limits"]
