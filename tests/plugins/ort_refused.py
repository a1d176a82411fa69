"""What a session is told where CLATTN_DEVICE names no device: run with CLATTN_DEVICE=no-such-device."""
import unittest

import onnx
import onnx.parser

import ort_session

MODEL = """<ir_version: 10, opset_import: ["": 23]>
one (float[1, 1, 1, 8] q) => (float[1, 1, 1, 8] y) { y = Attention(q, q, q) }"""


class Refused(unittest.TestCase):
    def test_no_device(self):
        with self.assertRaisesRegex(Exception, "no-such-device"):
            ort_session.session(onnx.parser.parse_model(MODEL).SerializeToString())


if __name__ == "__main__":
    unittest.main()
