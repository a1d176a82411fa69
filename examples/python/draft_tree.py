"""A tree of guesses: a cheap drafter proposes tokens, one call of attention judges all of them, and the longest path
that the model agrees with is kept. Its tokens are those of decoding one after the other."""
import clattn
import numpy as np

TOKENS, COLUMNS, DEPTH, CHILDREN, WANTED = 50, 32, 3, 2, 24
random = np.random.default_rng(7)
embedding = random.standard_normal((TOKENS, COLUMNS), dtype=np.float32)
place = random.standard_normal((WANTED + 64, COLUMNS), dtype=np.float32) * np.float32(0.3)
to_logits = random.standard_normal((COLUMNS, TOKENS), dtype=np.float32)
PROMPT = [3, 14, 15, 9, 2, 6]


class Model:
    """One head of attention over a cache, and what the last token says by itself."""

    def __init__(self):
        self.cache, self.end, self.calls = np.zeros((1, 1, 256, COLUMNS), np.float32), 0, 0

    def next_of(self, tokens, positions, sees):
        """The token after each of these, which stand behind the cache; sees[n, m]: whether token n sees token m."""
        rows, end = len(tokens), self.end + len(tokens)
        x = embedding[tokens] + place[positions]
        self.cache[0, 0, self.end:end] = x
        keys = self.cache[:, :, :end]
        bits = np.zeros((rows, -(-rows // 32) * 32), bool)
        bits[:, :rows] = sees
        bits = np.packbits(bits, axis=-1, bitorder="little").view("<u4")
        out = clattn.attention(x[None, None], keys, keys, mask=bits, mask_first_key=self.end)
        self.calls += 1
        return ((out[0, 0] + 3 * embedding[tokens]) @ to_logits).argmax(-1)

    def keep(self, nodes):
        """These tokens behind the cache stay, in this order."""
        self.cache[0, 0, self.end:self.end + len(nodes)] = self.cache[0, 0, self.end + np.array(nodes, int)]
        self.end += len(nodes)


def draft(token):
    """A tree whose root is the last token: tokens, parents, depths. The drafter knows nothing of the cache."""
    tokens, parents, depths = [token], [-1], [0]
    for node in range(sum(CHILDREN ** n for n in range(DEPTH))):
        for guess in (embedding[tokens[node]] @ to_logits).argsort()[::-1][:CHILDREN]:
            tokens, parents, depths = tokens + [guess], parents + [node], depths + [depths[node] + 1]
    return tokens, parents, depths


def decode(with_tree):
    model, said = Model(), list(PROMPT)
    lower = np.tri(len(PROMPT), dtype=bool)
    said.append(int(model.next_of(said, range(len(PROMPT)), lower)[-1]))
    model.keep(range(len(PROMPT)))
    while len(said) < WANTED:
        tokens, parents, depths = draft(said[-1]) if with_tree else ([said[-1]], [-1], [0])
        sees = np.eye(len(tokens), dtype=bool)
        for node in range(1, len(tokens)):
            sees[node] |= sees[parents[node]]
        wanted = model.next_of(tokens, [model.end + depth for depth in depths], sees)
        path, node = [], 0
        while node is not None:
            path.append(node)
            said.append(int(wanted[node]))
            children = [n for n in range(len(tokens)) if parents[n] == node and tokens[n] == wanted[node]]
            node = children[0] if children else None
        model.keep(path)
    return said[:WANTED], model.calls


one_by_one, steps = decode(False)
by_trees, calls = decode(True)
assert by_trees == one_by_one, (by_trees, one_by_one)
assert calls < steps
print(f"{WANTED - len(PROMPT)} tokens: {calls} calls with trees, {steps} one by one, the same tokens")
