"""andes-jax: LLM serving that schedules for the reader of the stream."""

__version__ = "0.1.0"
