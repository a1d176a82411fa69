"""Operations of com.microsoft beside ONNX Runtime's own provider of CPUs, and in float64."""
import itertools
import os
import unittest

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

import ort_session

LONG = bool(os.environ.get("CLATTN_TEST_LONG"))
RANDOM = np.random.default_rng(7)
TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int32": TensorProto.INT32,
         "int64": TensorProto.INT64, "bool": TensorProto.BOOL, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8,
         "float8_e4m3fn": TensorProto.FLOAT8E4M3FN}
TOLERANCE = {"float32": 1e-5, "float16": 4e-3}


def numbers(*shape, type_name="float32"):
    return RANDOM.standard_normal(shape).astype(type_name)


def model(operation, inputs, outputs, type_name="float32", domain="com.microsoft", **attributes):
    """A model of one node. inputs: names, "" for one that is left out, with arrays whose axes are all free. Present
    caches are of the past's type."""
    given = [(name, array) for name, array in inputs.items() if array is not None]
    names = [name if array is not None else "" for name, array in inputs.items()]
    while names and not names[-1]:
        names.pop()
    graph = helper.make_graph(
        [helper.make_node(operation, names, outputs, domain=domain, **attributes)], "one",
        [helper.make_tensor_value_info(name, TYPES[array.dtype.name], [f"{name}_{axis}" for axis in range(array.ndim)])
         for name, array in given],
        [helper.make_tensor_value_info(name, TYPES[type_name if inputs.get(past) is None else inputs[past].dtype.name],
                                       None) for name, past in ((name, name.replace("present", "past"))
                                                                for name in outputs)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid(domain, 1)],
                             ir_version=10)
    return made.SerializeToString()


class Contributed(unittest.TestCase):
    def compare(self, operation, inputs, outputs, type_name="float32", rows=None, others=None, **attributes):
        """The provider's outputs beside ONNX Runtime's; rows: the first of each entry that have a meaning. others: the
        inputs of ONNX Runtime's, where they are not these."""
        of = model(operation, inputs, outputs, type_name, **attributes)
        given = {name: array for name, array in inputs.items() if array is not None}
        with ort_session.counted() as counts:
            made = ort_session.run(ort_session.session(of), **given)
        self.assertEqual((counts.get("nodes claimed"), counts.get("nodes computed")), (1, 1), counts)
        if others is not None:
            of = model(operation, others, outputs, type_name, **attributes)
            given = {name: array for name, array in others.items() if array is not None}
        right = ort_session.run(ort_session.session(of, provider=False), **given)
        for name in outputs:
            for b in range(made[name].shape[0]):
                n = made[name].shape[1 if name == "output" else 2] if rows is None else rows[name][b]
                part = (b, slice(n)) if name == "output" else (b, slice(None), slice(n))
                np.testing.assert_allclose(made[name][part].astype(np.float64), right[name][part].astype(np.float64),
                                           rtol=TOLERANCE[type_name], atol=TOLERANCE[type_name])
        return made


class GroupQuery(Contributed):
    heads, kv_heads, columns = 4, 2, 16
    OF_COLUMNS = 1, kv_heads, 1, columns
    EPSILON = 0.25

    def check_step(self, batch, new, before, type_name="float32", packed=False, rotary=False, spare=0, ragged=False,
                   interleaved=0, codes=None, norms=False, **attributes):
        """`new` tokens behind `before` of them, in a cache that has `spare` rows more. codes: bits of those in the
        cache, and the shape of their scales. norms: of queries and keys, which ONNX Runtime's own gets normed."""
        columns, total = self.columns, before + new
        lengths = np.full(batch, total, np.int32)
        if ragged:
            lengths -= np.arange(batch, dtype=np.int32)
        inputs = {"query": numbers(batch, new, (self.heads + 2 * self.kv_heads if packed else self.heads) * columns,
                                   type_name=type_name)}
        for name in ("key", "value"):
            inputs[name] = None if packed else numbers(batch, new, self.kv_heads * columns, type_name=type_name)
        for name in ("past_key", "past_value"):
            inputs[name] = numbers(batch, self.kv_heads, before + spare, columns, type_name=type_name)
        inputs["seqlens_k"] = lengths - 1
        inputs["total_sequence_length"] = np.array([total], np.int32)
        if codes:
            attributes |= self.in_codes(inputs, *codes)
        if rotary:
            angles = np.arange(64)[:, None] * 10000.0 ** (-2 * np.arange(columns // 2) / columns)
            inputs |= {"cos_cache": np.cos(angles).astype(type_name), "sin_cache": np.sin(angles).astype(type_name)}
        order = ["query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "cos_cache",
                 "sin_cache", "position_ids", "attention_bias", "head_sink", "k_scale", "v_scale", "q_norm_weight",
                 "k_norm_weight"]
        others = None
        if norms:
            others = {name: inputs.get(name) for name in order[:-2]} | self.normed(inputs, type_name, packed)
        kept = {"output": np.minimum(lengths, new), "present_key": lengths, "present_value": lengths}
        return self.compare("GroupQueryAttention", {name: inputs.get(name) for name in order},
                            ["output", "present_key", "present_value"], type_name, kept, others,
                            num_heads=self.heads, kv_num_heads=self.kv_heads, do_rotary=int(rotary),
                            rotary_interleaved=interleaved, **attributes)

    def in_codes(self, inputs, bits, shape):
        """Random codes as the past, and their scales; the attributes."""
        for name, part in (("past_key", "k"), ("past_value", "v")):
            axes = inputs[name].shape
            inputs[name] = (RANDOM.integers(-128, 128, axes).astype(np.int8) if bits == 8 else
                            RANDOM.integers(0, 256, (*axes[:3], axes[3] // 2)).astype(np.uint8))
            inputs[f"{part}_scale"] = ((1 + RANDOM.random(shape)) * 3 / 2 ** bits).astype(np.float32)
        mode = "PER_TENSOR" if len(shape) == 1 else "PER_CHANNEL"
        return {"kv_cache_bit_width": bits, "k_quant_type": mode, "v_quant_type": mode}

    def normed(self, inputs, type_name, packed):
        """Adds weights of norms; queries and keys, or both and values in one, as they are behind their norms."""
        made = {}
        for name, part, heads in (("query", "q", self.heads), ("key", "k", self.kv_heads)):
            weight = inputs[f"{part}_norm_weight"] = (1 + RANDOM.random(self.columns)).astype(type_name)
            first = self.heads if packed and part == "k" else 0
            array = made["query"] if first else inputs["query" if packed else name].copy()
            rows = array.reshape(*array.shape[:2], -1, self.columns)
            x = rows[:, :, first:first + heads].astype(np.float64)
            rows[:, :, first:first + heads] = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + self.EPSILON) * weight
            made["query" if packed else name] = array
        return made

    def test_prompt_and_step(self):
        for packed, rotary, (new, before), batch in itertools.product((False, True), (False, True),
                                                                      ((7, 0), (1, 9), (1, 0)), (1, 3)):
            with self.subTest(packed=packed, rotary=rotary, new=new, before=before, batch=batch):
                self.check_step(batch, new, before, packed=packed, rotary=rotary)

    def test_float16(self):
        for new, before in ((7, 0), (1, 9)):
            self.check_step(2, new, before, "float16", rotary=True)

    def test_interleaved(self):
        self.check_step(1, 5, 0, rotary=True, interleaved=1)

    def test_chunk(self):
        self.check_step(1, 4, 6, rotary=True)

    def test_lengths_that_differ(self):
        self.check_step(3, 1, 9, ragged=True)
        self.check_step(3, 6, 0, ragged=True)

    def test_window(self):
        for window in (1, 3, 64):
            self.check_step(2, 1, 9, local_window_size=window)
            self.check_step(2, 8, 0, local_window_size=window)

    def test_scale_softcap(self):
        self.check_step(1, 5, 0, scale=0.4)
        self.check_step(1, 1, 5, softcap=1.5)

    def test_smooth_softmax(self):
        self.check_step(1, 5, 0, smooth_softmax=1)

    def test_norms(self):
        """ONNX Runtime's provider of CPUs refuses them."""
        for type_name, packed, rotary, (new, before) in (
                ("float32", False, True, (5, 0)), ("float32", True, True, (1, 9)), ("float16", True, False, (7, 0))):
            with self.subTest(type_name=type_name, packed=packed, rotary=rotary, new=new):
                self.check_step(2, new, before, type_name, packed=packed, rotary=rotary, norms=True,
                                qk_norm_epsilon=self.EPSILON)
        self.check_step(1, 1, 9, codes=(8, (1,)), norms=True, q_norm_epsilon=self.EPSILON, k_norm_epsilon=self.EPSILON)

    def test_codes(self):
        """In int8 and int4, with a scale for all and for each column; the codes are ONNX Runtime's too. One token, and
        a prompt; CLATTN_TEST_LONG: both of each."""
        kinds = itertools.product(((8, (1,)), (4, (1,)), (8, self.OF_COLUMNS), (4, self.OF_COLUMNS)), (False, True))
        for codes, is_prompt in kinds if LONG else (((8, (1,)), False), ((4, self.OF_COLUMNS), True)):
            with self.subTest(codes=codes, is_prompt=is_prompt):
                if is_prompt:
                    self.check_step(2, 7, 0, "float16", packed=True, codes=codes)
                else:
                    self.check_step(2, 1, 9, ragged=True, spare=4, rotary=True, codes=codes)

    def test_float8(self):
        """A cache in e4m3, which ONNX Runtime's provider of CPUs refuses: it gets keys and values as they are read."""
        scales = {part: np.array([scale], np.float32) for part, scale in (("k", 0.02), ("v", 0.03))}
        lengths = {"seqlens_k": np.array([9], np.int32), "total_sequence_length": np.array([10], np.int32)}
        query, fresh, past = {"query": numbers(1, 1, self.heads * self.columns)}, {}, {}
        for name, part in (("key", "k"), ("value", "v")):
            fresh[name] = numbers(1, 1, self.kv_heads * self.columns)
            past[f"past_{name}"] = numbers(1, self.kv_heads, 9, self.columns) / scales[part]
        codes, new_codes = ({name: array.astype(ml_dtypes.float8_e4m3fn) for name, array in of.items()} for of in (
            past, {name: array / scales[name[0]] for name, array in fresh.items()}))
        without = dict.fromkeys(("cos_cache", "sin_cache", "position_ids", "attention_bias", "head_sink"))
        scale_inputs = {f"{part}_scale": scale for part, scale in scales.items()}
        outputs = ["output", "present_key", "present_value"]
        heads = {"num_heads": self.heads, "kv_num_heads": self.kv_heads}
        session = ort_session.session(model(
            "GroupQueryAttention", {**query, **fresh, **codes, **lengths, **without, **scale_inputs}, outputs, **heads,
            kv_cache_bit_width=8, k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR"))
        made = ort_session.run(session, **query, **fresh, **codes, **lengths, **scale_inputs)
        read = [{name: array.astype(np.float32) * scales[name.removeprefix("past_")[0]] for name, array in of.items()}
                for of in (codes, new_codes)]
        inputs = {**query, **read[1], **read[0], **lengths}
        right = ort_session.run(ort_session.session(model("GroupQueryAttention", inputs, outputs, **heads), False),
                                **inputs)
        np.testing.assert_allclose(made["output"], right["output"], rtol=1e-5, atol=1e-5)
        for name in ("key", "value"):
            np.testing.assert_array_equal(made[f"present_{name}"].view(np.uint8)[0, :, 9],
                                          new_codes[name].view(np.uint8).reshape(self.kv_heads, self.columns))

    def test_cache_in_place(self):
        """Past and present in one buffer, longer than what is in it: 12 steps beside a cache that is copied."""
        columns, capacity = self.columns, 16
        cache = {name: numbers(1, self.kv_heads, capacity, columns) for name in ("past_key", "past_value")}
        shared = {name: ort_session.value(array.copy()) for name, array in cache.items()}
        sessions = None
        for before in range(2, 14):
            inputs = {"query": numbers(1, 1, self.heads * columns), "key": numbers(1, 1, self.kv_heads * columns),
                      "value": numbers(1, 1, self.kv_heads * columns), **cache,
                      "seqlens_k": np.array([before], np.int32),
                      "total_sequence_length": np.array([before + 1], np.int32)}
            if sessions is None:
                of = model("GroupQueryAttention", inputs, ["output", "present_key", "present_value"],
                           num_heads=self.heads, kv_num_heads=self.kv_heads)
                sessions = [ort_session.session(of, provider) for provider in (True, False)]
            right = ort_session.run(sessions[1], **inputs)
            cache = {"past_key": right["present_key"], "past_value": right["present_value"]}
            binding = sessions[0].io_binding()
            kept = {name: ort_session.value(array) for name, array in inputs.items()} | shared
            for name, value in kept.items():
                binding.bind_ortvalue_input(name, value)
            binding.bind_output("output")
            binding.bind_ortvalue_output("present_key", shared["past_key"])
            binding.bind_ortvalue_output("present_value", shared["past_value"])
            sessions[0].run_with_iobinding(binding)
            np.testing.assert_allclose(binding.get_outputs()[0].numpy(), right["output"], rtol=1e-5, atol=1e-5)
            for name, value in shared.items():
                np.testing.assert_array_equal(value.numpy()[:, :, :before + 1], cache[name][:, :, :before + 1])


class MultiHead(Contributed):
    heads, columns = 3, 8

    def check(self, batch=2, rows=5, keys=7, outputs=("output",), type_name="float32", unidirectional=0, **more):
        inputs = {"query": numbers(batch, rows, self.heads * self.columns, type_name=type_name)}
        for name in ("key", "value"):
            inputs[name] = numbers(batch, keys, self.heads * self.columns, type_name=type_name)
        order = ("query", "key", "value", "bias", "key_padding_mask", "attention_bias", "past_key", "past_value")
        inputs |= more
        self.compare("MultiHeadAttention", {name: inputs.get(name) for name in order}, list(outputs), type_name,
                     num_heads=self.heads, unidirectional=unidirectional)

    def test_plain(self):
        self.check()
        self.check(rows=7, unidirectional=1)
        self.check(type_name="float16")

    def test_heads_first(self):
        self.check(key=numbers(2, self.heads, 7, self.columns), value=numbers(2, self.heads, 7, self.columns))

    def test_packed(self):
        """Which ONNX Runtime's provider of CPUs does not compute: beside the same tensors, apart."""
        shape = (2, 7, self.heads * self.columns)
        apart = {name: numbers(*shape) for name in ("query", "key", "value")}
        by_head = [array.reshape(2, 7, self.heads, 1, self.columns) for array in apart.values()]
        right = self.compute(apart)
        with ort_session.counted() as counts:
            np.testing.assert_array_equal(self.compute({"query": np.concatenate(by_head, 3)}), right)
            np.testing.assert_array_equal(
                self.compute({"query": apart["query"], "key": np.concatenate(by_head[1:], 3)}), right)
        self.assertEqual(counts["nodes computed"], 2)

    def compute(self, inputs):
        of = model("MultiHeadAttention", inputs, ["output"], num_heads=self.heads)
        return ort_session.run(ort_session.session(of), **inputs)["output"]

    def test_bias(self):
        self.check(bias=numbers(3 * self.heads * self.columns))
        self.check(attention_bias=numbers(1, self.heads, 5, 7))
        self.check(attention_bias=numbers(2, 1, 5, 7))

    def test_padding(self):
        self.check(key_padding_mask=np.array([3, 7], np.int32))
        self.check(key_padding_mask=np.array([[1, 1, 0, 1, 1, 0, 0], [1] * 7], np.int32))

    def test_past(self):
        past = {name: numbers(2, self.heads, 6, self.columns) for name in ("past_key", "past_value")}
        outputs = ("output", "present_key", "present_value")
        self.check(rows=1, keys=1, outputs=outputs, **past)
        self.check(rows=4, keys=4, outputs=outputs, unidirectional=1, **past)


class Declined(unittest.TestCase):
    def test_reasons(self):
        query, key = numbers(1, 2, 8), numbers(1, 2, 8)
        inputs = {"query": query, "key": key, "value": key, "bias": None, "key_padding_mask": None,
                  "attention_bias": None, "past_key": None, "past_value": None}
        of = model("MultiHeadAttention", inputs, ["output", "present_key", "present_value", "qk"], num_heads=2)
        with ort_session.counted() as counts:
            ort_session.session(of)
        self.assertEqual(list(counts), ["an output that clattn has nothing for"])

    def test_norms(self):
        """One of the two, and two epsilons."""
        rows = {"query": numbers(1, 1, 16), "key": numbers(1, 1, 16), "value": numbers(1, 1, 16)}
        lengths = {name: np.zeros(1, np.int32) for name in ("seqlens_k", "total_sequence_length")}
        names = ("cos_cache", "sin_cache", "position_ids", "attention_bias", "head_sink", "k_scale", "v_scale")
        without = dict.fromkeys(("past_key", "past_value")), dict.fromkeys(names)
        for norms, attributes, reason in (
                ({"q_norm_weight": numbers(8)}, {}, "an input that clattn has nothing for"),
                ({"q_norm_weight": numbers(8), "k_norm_weight": numbers(8)}, {"k_norm_epsilon": 0.5},
                 "an attribute has a value that clattn does not know")):
            of = model("GroupQueryAttention", {**rows, **without[0], **lengths, **without[1], **norms},
                       ["output", "present_key", "present_value"], num_heads=2, kv_num_heads=2, **attributes)
            with ort_session.counted() as counts:
                ort_session.session(of)
            self.assertEqual(list(counts), [reason])

    def test_codes(self):
        """A scale without codes, and codes of 8 bits that are not signed."""
        operands = {name: numbers(1, 1, 16) for name in ("query", "key", "value")}
        lengths = {name: np.zeros(1, np.int32) for name in ("seqlens_k", "total_sequence_length")}
        modes = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
        for type_name, attributes, reason in (("float32", {}, "an input that clattn has nothing for"),
                                              ("uint8", modes, "an attribute has a value that clattn does not know")):
            cache = {name: np.zeros((1, 2, 4, 8), type_name) for name in ("past_key", "past_value")}
            without = dict.fromkeys(("cos_cache", "sin_cache", "position_ids", "attention_bias", "head_sink"))
            of = model("GroupQueryAttention", {**operands, **cache, **lengths, **without, "k_scale": numbers(1),
                                               "v_scale": numbers(1)}, ["output", "present_key", "present_value"],
                       num_heads=2, kv_num_heads=2, **attributes)
            with ort_session.counted() as counts:
                ort_session.session(of)
            self.assertEqual(list(counts), [reason])


if __name__ == "__main__":
    unittest.main()
