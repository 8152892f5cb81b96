"""Write data/greedy.json.gz: what transformers generates greedily, in float32, from SmolLM2's dequantised weights.

Run by hand with torch and transformers installed:

    python make_golden_greedy.py SMOLLM2_FOLDER LONG_TEXT_FILE

SMOLLM2_FOLDER is a Hugging Face folder holding the float32 weights of the embedded GGUF, LONG_TEXT_FILE the text of
the long prompt. README.md says what the file holds.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import torch
import transformers

NEW_TOKENS = 64
LONG_PROMPT_TOKENS = 2300
# (name, whether the chat template is applied, text)
PROMPTS = [
    ("english-capital", True, "What is the capital of France, and what is it known for?"),
    ("english-sky", True, "Explain to a child why the sky is blue."),
    ("english-list", True, "List five ways to save water at home."),
    ("english-story", True, "Write the opening of a short story about a lighthouse keeper who finds a message."),
    ("english-history", False, "The printing press was invented in the fifteenth century, and within fifty years"),
    ("english-recipe", False, "Ingredients:\n- 2 eggs\n- 200 g flour\n- 1 cup of milk\n\nMethod:\n1."),
    ("english-numbers", False, "In 1969 the mission lasted 8 days, 3 hours, 18 minutes and 35 seconds. In 1972"),
    ("english-letter", True, "Draft a polite e-mail asking my landlord to repair the heating before 15 December."),
    ("english-unicode", False, "Café prices: espresso 2,50 €, crème brûlée 6,80 € — naïve tourists pay"),
    ("chinese-hello", True, "你好，请介绍一下你自己。"),
    ("chinese-beijing", True, "北京有哪些著名的景点？"),
    ("chinese-poem", False, "床前明月光，疑是地上霜。"),
    ("chinese-translate", True, "请把下面这句话翻译成英文：今天天气很好，我们去公园散步吧。"),
    ("chinese-science", False, "光合作用是植物利用光能，将二氧化碳和水转化为"),
    ("chinese-mixed", True, "用 Python 写一个函数，计算 1 到 100 的和。"),
    ("code-fibonacci", False, "def fibonacci(n: int) -> int:\n    "),
    ("code-sort", True, "Write a Python function that sorts a list of dictionaries by two keys."),
    ("code-c", False, "#include <stdio.h>\n\nint main(void) {\n    for (int i = 0; i < 10; i++) {\n"),
    ("code-json", False, '{"name": "Ada", "born": 1815, "fields": ["mathematics", '),
    ("code-sql", True, "Write an SQL query for the ten customers who spent the most in 2023. 🙂"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("long_text", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data" / "greedy.json.gz")
    arguments = parser.parse_args()
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    model = transformers.AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    model.eval()

    cases = []
    for name, chat, text in PROMPTS:
        ids = chat_ids(tokenizer, text) if chat else tokenizer(text)["input_ids"]
        cases.append({"name": name, "chat": chat, "text": text, **greedy(model, ids)})
        print(name, len(ids), min(cases[-1]["gaps"]), repr(tokenizer.decode(cases[-1]["output_ids"]))[:100], flush=True)
    text = long_prompt(tokenizer, arguments.long_text.read_text("utf-8"))
    ids = chat_ids(tokenizer, text)
    long_case = {"name": "long-pep", "chat": True, "text": text, **greedy(model, ids)}
    print("long", len(ids), min(long_case["gaps"]), repr(tokenizer.decode(long_case["output_ids"])))

    made_with = {"torch": torch.__version__, "transformers": transformers.__version__}
    record = {"made_with": made_with, "dtype": "float32", "cases": cases, "long": long_case}
    arguments.out.parent.mkdir(exist_ok=True)
    body = json.dumps(record, ensure_ascii=False).encode()
    arguments.out.write_bytes(gzip.compress(body, mtime=0))


def chat_ids(tokenizer, text: str) -> list[int]:
    """The ids of one user turn under the model's chat template, ready for the reply."""
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
    )
    return tokenizer(rendered, add_special_tokens=False)["input_ids"]


def long_prompt(tokenizer, text: str) -> str:
    """The first LONG_PROMPT_TOKENS tokens of the text, cut at the end of a line, and a question about it."""
    head = tokenizer.decode(tokenizer(text)["input_ids"][:LONG_PROMPT_TOKENS])
    return head[: head.rindex("\n")] + "\n\nSummarise the document above in three sentences."


@torch.no_grad()
def greedy(model, ids: list[int]) -> dict[str, list]:
    """Always the likeliest token, NEW_TOKENS times whatever they are, with the logit gap to the runner-up."""
    cache, inputs = None, torch.tensor([ids])
    output_ids, runner_up_ids, gaps = [], [], []
    for _ in range(NEW_TOKENS):
        result = model(input_ids=inputs, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = result.past_key_values
        best = torch.topk(result.logits[0, -1].float(), 2)
        output_ids.append(int(best.indices[0]))
        runner_up_ids.append(int(best.indices[1]))
        gaps.append(round(float(best.values[0] - best.values[1]), 6))
        inputs = torch.tensor([[output_ids[-1]]])
    return {"prompt_ids": list(ids), "output_ids": output_ids, "runner_up_ids": runner_up_ids, "gaps": gaps}


if __name__ == "__main__":
    main()
