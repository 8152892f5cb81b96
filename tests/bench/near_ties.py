"""How often bfloat16 takes another token than float32, and how close the two likeliest tokens were there.

Every golden reply is scored token by token after its own float32 beginning, so one flip does not lead to others.
Run: python -m tests.bench.near_ties
"""

from __future__ import annotations

import argparse
import json
import queue
from collections.abc import Sequence
from typing import Any

from andes_jax.build import BuiltEngine, build_engine
from andes_jax.config import load_config
from andes_jax.events import TokenEvent
from andes_jax.request import Request, SamplingParams
from tests.end_to_end.engines import golden

REPLY_LIMIT_S = 600.0


def flips(built: BuiltEngine, case: dict[str, Any]) -> list[float]:
    """Float32 gaps, in logits, at the places where the likeliest token differs from the golden one."""
    whole = (*case["prompt_ids"], *case["output_ids"])
    inbox: queue.SimpleQueue[Sequence[TokenEvent]] = queue.SimpleQueue()
    built.engine.submit(
        Request(case["name"], whole, SamplingParams(0, top_logprobs=1, prompt_logprobs=True)), inbox.put
    )
    scored = None
    while True:
        for event in inbox.get(timeout=REPLY_LIMIT_S):
            scored = event.prompt_logprobs or scored
            if event.finish is not None:
                tail = (scored or ())[-len(case["output_ids"]) :]
                likeliest = [entry.top_ids[0] for entry in tail if entry is not None]
                pairs = zip(likeliest, case["output_ids"], case["gaps"], strict=True)
                return [gap for got, wanted, gap in pairs if got != wanted]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"))
    dtype = parser.parse_args().dtype
    flags = {"model.dtype": dtype, "engine.max_sequences": 2, "model.max_model_len": 4096}
    built = build_engine(load_config(flags=flags, environ={}))
    cases = [*golden()["cases"], golden()["long"]]
    gaps = sorted(gap for case in cases for gap in flips(built, case))
    built.engine.stop(1)
    tokens = sum(len(case["output_ids"]) for case in cases)
    print(
        json.dumps(
            {
                "dtype": dtype,
                "tokens": tokens,
                "flips": len(gaps),
                "share": round(len(gaps) / tokens, 4),
                "largest_gap_flipped": round(gaps[-1], 3) if gaps else None,
                "golden_gaps_below_0.1": sum(gap < 0.1 for case in cases for gap in case["gaps"]),
            }
        )
    )


if __name__ == "__main__":
    main()
