"""ONNX's own tests of its operations Attention and RotaryEmbedding, each beside the reference of the package onnx: as
the test has it, and again in float64 of the same inputs, from which a result may differ by one rounding to its type and
what float32 sums leave. CLATTN_ORT_OPERATOR_SET: the newest that this ONNX Runtime has, where it is an older one."""
import importlib
import os
import unittest
import warnings

import numpy as np
import onnx
import onnx.backend.test.case.node as cases
import onnx.parser
from onnx.reference import ReferenceEvaluator

import ort_session

OPERATIONS = ("Attention", "RotaryEmbedding")
OPERATOR_SET = int(os.environ.get("CLATTN_ORT_OPERATOR_SET", "25"))
LEAST = {25: (93, 8), 23: (69, 8)}[OPERATOR_SET]  # tests of each operation
HALF_ULP = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}  # bfloat16: of 8 bits, ml_dtypes' finfo
FLOAT32_SUMS = 4e-6  # of numbers of about 1


def collect():
    """The tests that have a node of these operations; the others of the same name expand it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in ("attention", "rotaryembedding"):
            importlib.import_module(f"onnx.backend.test.case.node.{module}")
    return [case for case in cases._NodeTestCases
            if [node.op_type for node in case.model.graph.node][0] in OPERATIONS and not case.name.endswith("expanded")
            and max(imported.version for imported in case.model.opset_import) <= OPERATOR_SET]


def with_attention(model):
    """RotaryEmbedding is computed where attention reads its result: a model that has such a node too."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    node, graph = made.graph.node[0], made.graph
    if node.op_type == "RotaryEmbedding":
        turned = node.output[0]
        heads = {} if len(graph.input[0].type.tensor_type.shape.dim) == 4 else {"q_num_heads": 4, "kv_num_heads": 4}
        graph.node.append(onnx.helper.make_node("Attention", [turned] * 3, ["attended"], **heads))
        graph.output.append(onnx.helper.make_tensor_value_info("attended", onnx.TensorProto.FLOAT, None))
    return made.SerializeToString()


def is_floating(array):
    return array.dtype.name in HALF_ULP


def in_float64(model, inputs):
    """The outputs of the model's node, computed with what is floating as float64."""
    node = onnx.NodeProto.FromString(model.graph.node[0].SerializeToString())
    domains = {imported.domain: imported.version for imported in model.opset_import}
    wide = {name: given.astype(np.float64) if is_floating(given) else given for name, given in inputs.items()}
    return ReferenceEvaluator(node, opsets=domains).run([output.name for output in model.graph.output], wide)


class Nodes(unittest.TestCase):
    def check_case(self, case):
        session = ort_session.session(with_attention(case.model))
        for inputs, outputs in case.data_sets:
            named = {given.name: np.asarray(array) for given, array in zip(case.model.graph.input, inputs)}
            made = ort_session.run(session, **named)
            exact = in_float64(case.model, named)
            for output, expected, true in zip(case.model.graph.output, outputs, exact):
                got, expected = made[output.name], np.asarray(expected)
                self.assertEqual(got.dtype, expected.dtype)
                self.assertEqual(got.shape, expected.shape)
                half_ulp = HALF_ULP[got.dtype.name]
                np.testing.assert_allclose(got.astype(np.float64), true, rtol=half_ulp, atol=FLOAT32_SUMS)
                np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64),
                                           rtol=max(case.rtol, 4 * half_ulp), atol=max(FLOAT32_SUMS, 2 * half_ulp))

    def test_float64(self):
        model = onnx.parser.parse_model(
            """<ir_version: 10, opset_import: ["": 23]>
            one (double[2, 4, 5, 8] q, double[2, 2, 7, 8] k, double[2, 2, 7, 3] v, double[5, 7] mask)
                => (double[2, 4, 5, 3] y) { y = Attention <softcap = 2.0> (q, k, v, mask) }""")
        random = np.random.default_rng(1)
        inputs = {given.name: random.standard_normal([axis.dim_value for axis in given.type.tensor_type.shape.dim])
                  for given in model.graph.input}
        made = ort_session.run(ort_session.session(model.SerializeToString()), **inputs)["y"]
        np.testing.assert_allclose(made, in_float64(model, inputs)[0], rtol=1e-12, atol=1e-12)

    def test_all(self):
        all_cases = collect()
        turned = sum(case.model.graph.node[0].op_type == "RotaryEmbedding" for case in all_cases)
        self.assertGreaterEqual((len(all_cases) - turned, turned), LEAST)
        with ort_session.counted() as counts:
            for case in all_cases:
                with self.subTest(case.name):
                    self.check_case(case)
        self.assertEqual(counts.pop("nodes claimed"), len(all_cases) + turned)
        self.assertEqual(counts.pop("nodes computed"), len(all_cases) + turned)
        counts.pop("plans made")
        self.assertEqual(counts, {}, "declined")


if __name__ == "__main__":
    unittest.main()
