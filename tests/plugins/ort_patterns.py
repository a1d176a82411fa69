"""Attention as exporters write it, from product to product: one claim for each, and the numbers of ONNX Runtime's own
provider of CPUs; what looks alike and means something else is left."""
import unittest

import numpy as np
import onnx.parser

import ort_session

BATCH, ROWS, KEYS, HEADS, COLUMNS = 2, 5, 7, 3, 8
RANDOM = np.random.default_rng(11)
LEFT = "a softmax between products that is not written as the known exporters write attention"

DYNAMO = """
    qt = Transpose <perm = [0, 2, 1, 3]> (q)
    kt = Transpose <perm = [0, 2, 1, 3]> (k)
    vt = Transpose <perm = [0, 2, 1, 3]> (v)
    folded_shape = Constant <value_ints = [6, 7, 8]> ()
    folded = Reshape (kt, folded_shape)
    turned = Transpose <perm = [0, 2, 1]> (folded)
    whole_shape = Constant <value_ints = [2, 3, 8, 7]> ()
    whole = Reshape (turned, whole_shape)
    c = Constant <value_float = 0.5> ()
    qs = Mul (qt, c)
    ks = Mul (whole, c)
    scores = MatMul (qs, ks)
    masked = Add (scores, bias)
    weights = Softmax <axis = -1> (masked)
    is_nan = IsNaN (weights)
    zero = Constant <value_float = 0.0> ()
    guarded = Where (is_nan, zero, weights)
    mixed = MatMul (guarded, vt)
    y = Transpose <perm = [0, 2, 1, 3]> (mixed)"""
HEADS_FIRST = """
    qt = Transpose <perm = [0, 2, 1, 3]> (q)
    kt = Transpose <perm = [0, 2, 3, 1]> (k)
    vt = Transpose <perm = [0, 2, 1, 3]> (v)
    scores = MatMul (qt, kt)"""
MIXED = """
    mixed = MatMul (weights, vt)
    y = Transpose <perm = [0, 2, 1, 3]> (mixed)"""
TORCHSCRIPT = HEADS_FIRST + """
    c = Constant <value_float = 2.0> ()
    scaled = Div (scores, c)
    masked = Add (bias, scaled)
    weights = Softmax <axis = 3> (masked)""" + MIXED
PADDLE = """
    qt = Transpose <perm = [0, 2, 1, 3]> (q)
    kh = Transpose <perm = [0, 2, 1, 3]> (k)
    vt = Transpose <perm = [0, 2, 1, 3]> (v)
    c = Constant <value_float = 0.25> ()
    qs = Mul (qt, c)
    kt = Transpose <perm = [0, 1, 3, 2]> (kh)
    scores = MatMul (qs, kt)
    weights = Softmax <axis = -1> (scores)""" + MIXED
FILLED = HEADS_FIRST + """
    filler = Constant <value_float = -3e38> ()
    filled = Where (hidden, FILLED)
    masked = Add (filled, bias)
    weights = Softmax <axis = -1> (masked)""" + MIXED
PLAIN = HEADS_FIRST + """
    c = Constant <value_float = 0.5> ()
    masked = MASKED
    weights = Softmax <axis = -1> (masked)""" + MIXED


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def inputs():
    hidden = RANDOM.random((BATCH, 1, ROWS, KEYS)) < 0.4
    hidden[..., 0] = False
    return {"q": numbers(BATCH, ROWS, HEADS, COLUMNS), "k": numbers(BATCH, KEYS, HEADS, COLUMNS),
            "v": numbers(BATCH, KEYS, HEADS, COLUMNS), "bias": numbers(BATCH, 1, ROWS, KEYS), "hidden": hidden}


def model(body, given, more=""):
    used = [name for name in given if f"{name})" in body or f"{name}," in body or f"({name}" in body]
    declared = ", ".join(f"{'bool' if given[name].dtype == bool else 'float'}[{','.join(map(str, given[name].shape))}] "
                         f"{name}" for name in used)
    text = f"""<ir_version: 8, opset_import: ["": 17]>
one ({declared}) => (float[a, b, c, d] y{more}) {{{body}
}}"""
    return onnx.parser.parse_model(text).SerializeToString(), {name: given[name] for name in used}


class Patterns(unittest.TestCase):
    def check(self, body, claimed=1, more="", **changed):
        of, given = model(body, inputs() | changed, more)
        with ort_session.counted() as counts:
            made = ort_session.run(ort_session.session(of), **given)
        right = ort_session.run(ort_session.session(of, provider=False), **given)
        for name in right:
            np.testing.assert_allclose(made[name], right[name], rtol=1e-5, atol=1e-6)
        self.assertEqual(counts.get("nodes claimed", 0), claimed, counts)
        self.assertEqual(counts.get("nodes computed", 0), claimed, counts)
        return counts

    def test_exporters(self):
        for body in (DYNAMO, TORCHSCRIPT, PADDLE):
            with self.subTest(body):
                self.check(body)

    def test_filled(self):
        self.check(FILLED.replace("FILLED", "filler, scores"))
        hidden = RANDOM.random((1, 1, ROWS, KEYS)) < 0.6
        hidden[..., -1] = True
        self.check(FILLED.replace("FILLED", "scores, filler"), hidden=hidden)

    def test_masks_that_repeat(self):
        for shape in ((1, 1, 1, KEYS), (ROWS, 1), (BATCH, HEADS, 1, 1), (KEYS,)):
            with self.subTest(shape):
                self.check(TORCHSCRIPT, bias=numbers(*shape))

    def test_without_transposes(self):
        """k^T is an input: its columns lie apart."""
        body = PLAIN.replace("kt = Transpose <perm = [0, 2, 3, 1]> (k)", "kt = Identity (k)")
        self.check(body.replace("MASKED", "Mul (scores, c)"), k=numbers(BATCH, HEADS, COLUMNS, KEYS))

    def test_one_batch_of_keys(self):
        self.check(PLAIN.replace("MASKED", "Mul (scores, c)"), k=numbers(1, KEYS, HEADS, COLUMNS),
                   v=numbers(1, KEYS, HEADS, COLUMNS))

    def test_values_that_others_read(self):
        """A Transpose, or the weights, that the graph needs besides are left to it."""
        self.check(PLAIN.replace("MASKED", "Mul (scores, c)"), more=", float[e, f, g, h] qt")
        self.check(PLAIN.replace("MASKED", "Mul (scores, c)"), more=", float[e, f, g, h] mixed")
        counts = self.check(PLAIN.replace("MASKED", "Mul (scores, c)"), claimed=0, more=", float[e, f, g, h] scores")
        self.assertEqual(counts, {LEFT: 1})
        counts = self.check(PLAIN.replace("MASKED", "Mul (scores, c)"), claimed=0, more=", float[e, f, g, h] weights")
        self.assertEqual(counts, {})  # no weights of attention, as far as can be seen

    def test_looks_alike(self):
        """A scale behind the mask, a softmax over rows, a product by what is no constant: left, and counted."""
        behind = PLAIN.replace("masked = MASKED", "sum = Add (scores, bias)\n    masked = Mul (sum, c)")
        over_rows = PLAIN.replace("MASKED", "Mul (scores, c)").replace("axis = -1", "axis = 2")
        by_input = PLAIN.replace("MASKED", "Mul (scores, bias)")
        small = FILLED.replace("FILLED", "filler, scores").replace("-3e38", "-5.0")
        for body in (behind, over_rows, by_input, small):
            with self.subTest(body):
                self.assertEqual(self.check(body, claimed=0), {LEFT: 1})


if __name__ == "__main__":
    unittest.main()
