"""A decoder's steps: keys and values are written into a cache, of which each step sees as much as there is."""
import clattn
import numpy as np

HEADS, KV_HEADS, COLUMNS, PROMPT, STEPS = 8, 2, 64, 12, 4
random = np.random.default_rng(1)
cache_key = np.zeros((1, KV_HEADS, 128, COLUMNS), np.float32)
cache_value = np.zeros_like(cache_key)


def attend(rows, seen):
    """`rows` new tokens after `seen`: their keys and values into the cache, then attention over all so far."""
    end = seen + rows
    cache_key[:, :, seen:end] = random.standard_normal((1, KV_HEADS, rows, COLUMNS))
    cache_value[:, :, seen:end] = random.standard_normal((1, KV_HEADS, rows, COLUMNS))
    query = random.standard_normal((1, HEADS, rows, COLUMNS), dtype=np.float32)
    return clattn.attention(query, cache_key[:, :, :end], cache_value[:, :, :end], causal="bottom-right")


print("prompt", attend(PROMPT, 0).shape)
for step in range(STEPS):
    print("step", step, attend(1, PROMPT + step).shape)
