"""A picture of attention: the queries and keys of a sentence encoder's first layer at "money bank grows", and how much
each token looks at each other. usage: attention_picture.py [FILE.png]     needs NumPy and matplotlib"""
import json
import pathlib
import sys

import clattn
import numpy as np

DATA = pathlib.Path(__file__).parents[1] / "data" / "money-bank-grows.safetensors"
file = sys.argv[1] if len(sys.argv) > 1 else "attention.png"
content = DATA.read_bytes()
size = 8 + int.from_bytes(content[:8], "little")  # safetensors: the size of a header of JSON, the header, the numbers
header = json.loads(content[8:size])


def tensor(name):
    begin, end = header[name]["data_offsets"]
    return np.frombuffer(content[size + begin:size + end], np.float32).reshape(header[name]["shape"])


_, weights = clattn.attention(tensor("q")[:1], tensor("k")[:1], tensor("v")[:1], return_weights="softmax")
picture = clattn.show(weights[0].mean(0), json.loads(header["__metadata__"]["tokens"]))  # the mean of the heads
print(picture)
picture.save(file)
print(f"{file} written")
