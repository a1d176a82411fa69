#!/usr/bin/env python3
"""Makes expected.json: what Hugging Face's transformers, in float32 on the CPU, continue five prompts with, token by
token, always the likeliest, from the weights of one GGUF file; and how far ahead of the second that one was at the
narrowest place, since a tie could go either way. And how transformers cut texts into tokens (fractions such as ½ it
does otherwise than the model's own tokeniser, and so there are none), and a text's perplexity.
Needs the packages torch, transformers, accelerate and gguf.
usage: make_expected.py MODEL.gguf TEXT >expected.json"""
import hashlib
import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
PROMPTS = ["Explain how a bicycle stays upright.", "Count from 1 to 30: 1, 2, 3", "Tell me a story about a small cat.",
           "What's the difference between a lake & a sea?",
           "Wie heißt die Hauptstadt von Österreich? – Answer in English…"]
TOKENS, END = 64, 2
# What a tokeniser may get wrong: digits, runs of blanks, contractions, marks beyond ASCII, letters of all kinds.
TEXTS = [" ", "\n\n  a\t\tb  \n", "12345 678.9 x86_64", "I'm sure they've said we'll don't IT'S",
         "naïve café – “quotes” …", "Привет, мир! 你好，世界 🙂🙃 €5", "a" * 70, "    four spaces\n    again",
         "e\u0301\u200b\u00a0x", "<|im_end|> is text",
         "٣٤٥ ﷽ ｆｕｌｌ", "x=1;y=[2,3];//!?", "tail  "]


def continuation(model, tokens):
    """The tokens that follow, up to the end of the turn, and the smallest lead of one over the second."""
    lead, found, past, fed = float("inf"), [], None, torch.tensor([tokens])
    for _ in range(TOKENS):
        out = model(fed, past_key_values=past, use_cache=True)
        best = out.logits[0, -1].topk(2)
        lead = min(lead, float(best.values[0] - best.values[1]))
        found.append(int(best.indices[0]))
        if found[-1] == END:
            break
        past, fed = out.past_key_values, best.indices[:1].reshape(1, 1)
    return found, lead


def perplexity(model, tokens):
    """exp of the mean of -ln p(token | tokens before it), of all tokens but the first."""
    logits = model(torch.tensor([tokens])).logits[0, :-1]
    return float(torch.nn.functional.cross_entropy(logits.double(), torch.tensor(tokens[1:])).exp())


@torch.no_grad()
def main(path, text_path):
    path = pathlib.Path(path)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    cut = [{"text": t, "tokens": tokenizer(t, split_special_tokens=True)["input_ids"]} for t in TEXTS]
    cases = []
    for prompt in PROMPTS:
        chat = (f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{prompt}<|im_end|>\n"
                "<|im_start|>assistant\n")
        tokens = tokenizer(chat)["input_ids"]
        found, lead = continuation(model, tokens)
        cases.append({"prompt": prompt, "prompt_tokens": tokens, "tokens": found, "text": tokenizer.decode(found),
                      "smallest_lead": round(lead, 5)})
        print(json.dumps(cases[-1]), file=sys.stderr, flush=True)
    tokens = tokenizer(pathlib.Path(text_path).read_text())["input_ids"]
    found = perplexity(model, tokens)
    model_sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    print('{"model_sha256": %s, "system": %s,' % (json.dumps(model_sha256), json.dumps(SYSTEM)))
    print(' "perplexity": %s,' % json.dumps({"tokens": len(tokens), "value": round(found, 5)}))
    for name, entries in (("cases", cases), ("texts", cut)):
        print(' "%s": [' % name)
        print(",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in entries))
        print(" ]" + ("," if name == "cases" else "}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
