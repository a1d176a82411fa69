"""docs/patterns.md: each block runs as it stands, and its `out` is the formula's, written out in float64."""
import os
import re
import unittest

import numpy as np

PAGE = os.path.join(os.environ["CLATTN_SOURCE"], "docs", "patterns.md")


def softmax(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def attention(page, bias=0.0, visible=True, scale=None, query=None):
    query = page["q"] if query is None else query
    scale = 1 / np.sqrt(page["columns"]) if scale is None else scale
    scores = scale * np.float64(query) @ np.float64(page["k"]).swapaxes(-1, -2)
    return softmax(np.where(visible, scores + bias, -np.inf)) @ np.float64(page["v"])


def grid(page):
    """Rows and keys, to be broadcast."""
    return page["i"][:, None], page["i"][None, :]


def each_distance(page):
    i, j = grid(page)
    return attention(page, bias=page["line"][:, page["rows"] - 1 + j - i], scale=1.0)


def relative_shift(page):
    i, j = grid(page)
    distance = page["r"][:, page["rows"] - 1 + j - i].astype(np.float64)  # [heads, rows, keys, columns]
    added = np.einsum("bhic,hijc->bhij", np.float64(page["q"] + page["w"]), distance) / np.sqrt(page["columns"])
    return attention(page, bias=added, query=page["q"] + page["u"])


def line_and_column(page):
    rel_h, rel_w, j = page["rel_h"].double().numpy(), page["rel_w"].double().numpy(), page["i"]
    return attention(page, bias=rel_h[..., j // page["width"]] + rel_w[..., j % page["width"]])


def chunks(page):
    i, j = grid(page)
    return attention(page, visible=(j <= i) & (i // page["chunk"] == j // page["chunk"]))


def prefix(page):
    i, j = grid(page)
    return attention(page, visible=(j <= i) | (j < page["prefix"]))


def documents(page):
    i, j = grid(page)
    document = np.repeat(np.arange(3), np.diff(page["starts"]))
    return attention(page, visible=(j <= i) & (document[i] == document[j]))


def window(page):
    i, j = grid(page)
    return attention(page, visible=(j <= i) & ((i - j <= 15) | (j < 4)))


def shared_prompt(page):
    one = dict(page)
    for name in "kv":
        one[name] = page[name].copy()
        one[name][:, :, :page["shared"]] = page[name][:1, :, :page["shared"]]
    return attention(one)


def differential(page):
    i, j = grid(page)
    halves = []
    for n in range(2):
        half = dict(page, q=page["q"][:, n::2], k=page["k"][:, n::2], v=page["v"][:, 0::2])
        halves.append(attention(half, visible=j <= i))
    return halves[0] - page["share"] * halves[1]


def by_index(page):
    i, j = grid(page)
    listed = (page["chosen"][..., None] == page["i"]).any(-2)
    return attention(page, visible=listed & (j <= i))


def latent(page):
    i, j = grid(page)
    one = dict(page, k=page["latent"], v=page["latent"][..., :16])
    return attention(one, visible=j <= i, scale=0.25, query=page["absorbed"])


def tree(page):
    visible = np.ones((page["nodes"], page["rows"]), bool)
    visible[:, page["first"]:] = False
    for n in range(page["nodes"]):
        at = n
        while at >= 0:
            visible[n, page["first"] + at] = True
            at = page["parent"][at]
    return attention(page, visible=visible, query=page["q"][:, :, page["first"]:])


FORMULAS = {"A bias for each distance": each_distance, "The relative shift": relative_shift,
            "A bias of line and column": line_and_column, "Chunks": chunks, "A prefix that all see": prefix,
            "Documents in one sequence": documents, "A window and the first keys": window,
            "One prompt, many answers": shared_prompt, "Differential attention": differential,
            "Keys by index": by_index, "Latent attention": latent, "A tree of guesses": tree}


class Patterns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(PAGE, encoding="utf-8") as file:
            start, *sections = re.split(r"^## (.*)\n", file.read(), flags=re.MULTILINE)
        cls.sections = dict(zip(sections[::2], sections[1::2]))
        cls.start = cls.block(start)

    @staticmethod
    def block(text):
        blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
        assert len(blocks) == 1, text
        return blocks[0]

    def test_each_section_has_a_formula(self):
        self.assertEqual(list(self.sections), list(FORMULAS))

    def test_out_is_the_formulas(self):
        for title, text in self.sections.items():
            with self.subTest(title):
                page = {}
                exec(self.start + self.block(text), page)  # our own page
                right = FORMULAS[title](page)
                self.assertEqual(page["out"].shape, right.shape)
                np.testing.assert_allclose(page["out"], right, rtol=0, atol=4e-6)

    def test_a_view_has_the_bits_of_the_whole_bias(self):
        for title in ("A bias for each distance", "The relative shift"):
            page = {}
            exec(self.start + self.block(self.sections[title]), page)
            viewed = page["out"]
            exec(self.block(self.sections[title]).splitlines()[-1].replace("bias=bias", "bias=bias.copy()"), page)
            self.assertTrue(np.array_equal(viewed, page["out"]), title)


if __name__ == "__main__":
    unittest.main()
