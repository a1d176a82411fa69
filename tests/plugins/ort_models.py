"""A model of all-MiniLM's shape, with random weights, as PyTorch's exporters write it: every attention is claimed, and
results are PyTorch's, and those of ONNX Runtime's provider of CPUs, to 1e-5. In the environment of tests/python, with
ONNX Runtime's packages (CLATTN_ORT_SITE) behind its own. CLATTN_TEST_LONG: all 6 layers, and the exporters of old."""
import os
import sys
import tempfile
import unittest
import warnings

sys.path.append(os.environ["CLATTN_ORT_SITE"])

# pylint: disable=wrong-import-position
import numpy as np
import torch
import transformers

import ort_session

LONG = bool(os.environ.get("CLATTN_TEST_LONG"))
LAYERS = 6 if LONG else 2


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.bert = transformers.BertModel(transformers.BertConfig(
            vocab_size=500, hidden_size=384, num_hidden_layers=LAYERS, num_attention_heads=12, intermediate_size=1536,
            attn_implementation="sdpa")).eval()

    def forward(self, input_ids, attention_mask):
        return self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def tokens(batch, length, padding=0):
    ids = torch.randint(0, 500, (batch, length), generator=torch.Generator().manual_seed(batch))
    mask = torch.ones_like(ids)
    mask[-1, length - padding:] = 0
    return ids, mask


class Models(unittest.TestCase):
    def check(self, export, is_faithful=True):
        """is_faithful: the exported model is PyTorch's at other shapes than it was exported with."""
        model = Encoder()
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = os.path.join(folder, "model.onnx")
            export(model, path)
            with ort_session.counted() as counts:
                session, alone = ort_session.session(path), ort_session.session(path, provider=False)
                for shape in ((2, 16, 6), (1, 32), (3, 40, 1)):
                    ids, mask = tokens(*shape)
                    feed, seen = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}, mask.numpy().astype(bool)
                    made, right = session.run(None, feed)[0], alone.run(None, feed)[0]
                    np.testing.assert_allclose(made[seen], right[seen], rtol=1e-5, atol=1e-5)
                    with torch.no_grad():
                        right = model(ids, mask).numpy() if is_faithful else right
                    np.testing.assert_allclose(made[seen], right[seen], rtol=1e-5, atol=1e-5)
            self.assertEqual(counts.pop("nodes claimed"), LAYERS)
            self.assertEqual(counts.pop("nodes computed"), 3 * LAYERS)
            counts.pop("plans made")
            self.assertEqual(counts, {})

    def by_export(self, version):
        batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=512)
        free = {0: batch, 1: length}

        def export(model, path):
            torch.onnx.export(model, tokens(2, 16, 6), dynamo=True, opset_version=version, verbose=False,
                              dynamic_shapes={"input_ids": free, "attention_mask": free}).save(path)

        return export

    def test_operator_set_23(self):
        self.check(self.by_export(23))

    @unittest.skipUnless(LONG, "another export: CLATTN_TEST_LONG")
    def test_operator_set_18(self):
        self.check(self.by_export(18))

    @unittest.skipUnless(LONG, "another export: CLATTN_TEST_LONG")
    def test_torchscript(self):
        names = ["input_ids", "attention_mask"]
        self.check(lambda model, path: torch.onnx.export(
            model, tokens(2, 16, 6), path, dynamo=False, opset_version=14, input_names=names,
            dynamic_axes={name: {0: "batch", 1: "length"} for name in names}), is_faithful=False)


if __name__ == "__main__":
    unittest.main()
