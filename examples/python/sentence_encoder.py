"""Sentences that mean the same have vectors of one direction: a sentence encoder of transformers, its attention by
clattn.
usage: sentence_encoder.py MODEL     a folder or a name, such as sentence-transformers/all-MiniLM-L6-v2"""
import sys

import clattn.transformers
import torch
from transformers import AutoModel, AutoTokenizer

SENTENCES = ["The cat sleeps on the sofa.", "A kitten naps on the couch.", "Shares fell sharply on Monday."]

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModel.from_pretrained(sys.argv[1], attn_implementation="clattn")  # the one line
given = tokenizer(SENTENCES, padding=True, return_tensors="pt")
with torch.no_grad():
    hidden = model(**given).last_hidden_state
seen = given["attention_mask"].unsqueeze(-1)
vectors = torch.nn.functional.normalize((hidden * seen).sum(1) / seen.sum(1))  # the mean of a sentence's tokens
print(clattn.show(vectors @ vectors.T, ["cat", "kitten", "shares"]))
print(clattn.torch.report())
