"""Small decoders of random weights, with caches that grow, or stay in place: 64 greedy tokens as ONNX Runtime's own
provider of CPUs has them, with few plans."""
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import ort_session

LAYERS, HEADS, KV_HEADS, COLUMNS, VOCABULARY, POSITIONS = 2, 4, 2, 16, 97, 128
WIDTH = HEADS * COLUMNS
RANDOM = np.random.default_rng(3)


def weights(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32) / np.sqrt(shape[0]).astype(np.float32)


class Decoder:
    """Tokens [1, n] and caches to logits and caches; attention by the node that `attend` makes of a layer's q, k, v."""

    def __init__(self, attend, more_inputs):
        self.nodes, self.constants = [], []
        self.inputs = [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, "n"]), *more_inputs]
        self.outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "n", VOCABULARY])]
        hidden = self.add("Gather", self.constant(3 * weights(VOCABULARY, WIDTH)), "tokens")
        for layer in range(LAYERS):
            q, k, v = (self.add("MatMul", hidden, self.constant(weights(WIDTH, heads * COLUMNS)))
                       for heads in (HEADS, KV_HEADS, KV_HEADS))
            past, present = ([f"{when}_{what}_{layer}" for what in ("key", "value")] for when in ("past", "present"))
            for names, to in ((past, self.inputs), (present, self.outputs)):
                to += [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, KV_HEADS, f"{name}_rows", COLUMNS])
                       for name in names]
            attended = attend(self, layer, (q, k, v), past, present)
            hidden = self.add("Add", hidden, self.add("MatMul", attended, self.constant(weights(WIDTH, WIDTH))))
        self.add("MatMul", hidden, self.constant(weights(WIDTH, VOCABULARY)), output="logits")

    def constant(self, array):
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operation, *inputs, output=None):
        output = output or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, inputs, [output]))
        return output

    def model(self):
        graph = helper.make_graph(self.nodes, "decoder", self.inputs, self.outputs, self.constants)
        return helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]).SerializeToString()


def by_attention(decoder, layer, operands, past, present):
    decoder.nodes.append(helper.make_node(
        "Attention", [*operands, "", *past], [f"attended_{layer}", *present], is_causal=1, q_num_heads=HEADS,
        kv_num_heads=KV_HEADS))
    return f"attended_{layer}"


def by_group_query(decoder, layer, operands, past, present):
    angles = np.arange(POSITIONS)[:, None] * 10000.0 ** (-2 * np.arange(COLUMNS // 2) / COLUMNS)
    tables = [decoder.constant(of(angles).astype(np.float32)) for of in (np.cos, np.sin)]
    decoder.nodes.append(helper.make_node(
        "GroupQueryAttention", [*operands, *past, "seqlens_k", "total_sequence_length", *tables],
        [f"attended_{layer}", *present], domain="com.microsoft", num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=1))
    return f"attended_{layer}"


def generate(session, count, lengths):
    """The tokens, and all logits."""
    tokens, fed, logits = [5, 17, 2, 88, 31], 0, []
    caches = {given.name: np.zeros((1, KV_HEADS, 0, COLUMNS), np.float32) for given in session.get_inputs()
              if given.name.startswith("past")}
    for _ in range(count):
        feed = {"tokens": np.array([tokens[fed:]]), **caches}
        if lengths:
            feed |= {"seqlens_k": np.array([len(tokens) - 1], np.int32),
                     "total_sequence_length": np.array([len(tokens)], np.int32)}
        made = ort_session.run(session, **feed)
        caches = {name: made[name.replace("past", "present")] for name in caches}
        fed = len(tokens)
        logits.append(made["logits"][0, -1])
        tokens.append(int(np.argmax(logits[-1])))
    return tokens, np.array(logits)


class Decoders(unittest.TestCase):
    def check(self, attend, lengths):
        more = [helper.make_tensor_value_info(name, TensorProto.INT32, [1])
                for name in ("seqlens_k", "total_sequence_length")] if lengths else []
        of = Decoder(attend, more).model()
        with ort_session.counted() as counts:
            tokens, logits = generate(ort_session.session(of), 64, lengths)
        right, right_logits = generate(ort_session.session(of, provider=False), 64, lengths)
        self.assertEqual(tokens, right)
        self.assertGreater(len(set(tokens)), 8, "a text that repeats tells little")
        np.testing.assert_allclose(logits, right_logits, rtol=1e-4, atol=1e-4)
        self.assertEqual(counts["nodes claimed"], LAYERS)
        self.assertEqual(counts["nodes computed"], 64 * LAYERS)
        self.assertLessEqual(counts["plans made"], 3)  # the prompt, up to 64 keys, up to 128

    def test_attention(self):
        self.check(by_attention, lengths=False)

    def test_group_query(self):
        self.check(by_group_query, lengths=True)


if __name__ == "__main__":
    unittest.main()
