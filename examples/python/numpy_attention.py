"""Attention on NumPy arrays, and who attends to whom, drawn as text."""
import clattn
import numpy as np

tokens = ["the", "cat", "sat", "down"]
random = np.random.default_rng(4)
query = random.standard_normal((4, 16), dtype=np.float32)
key = random.standard_normal((4, 16), dtype=np.float32)
value = np.eye(4, 16, dtype=np.float32)  # row i of the result says how much each key counts

out, weights = clattn.attention(query, key, value, causal="bottom-right", return_weights="softmax")
assert np.allclose(out[:, :4], weights)
print(clattn.show(weights, tokens))
