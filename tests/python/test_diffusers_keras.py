"""Tiny models of random weights in diffusers (a UNet and a diffusion transformer) and layers of keras on PyTorch: while
clattn.torch.enable() is in force each attention call is served, and outputs are those that PyTorch's kernel gives."""
import importlib.util
import os
import unittest

os.environ["KERAS_BACKEND"] = "torch"  # which keras reads when it is imported

import torch  # noqa: E402

import clattn.torch  # noqa: E402
from calls import Calls  # noqa: E402

NEAR = 4e-6  # of the largest output: roundings of float32


class Served(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def tearDown(self):
        clattn.torch.disable()

    @torch.no_grad()
    def check(self, model, calls):
        """`model`: a function of nothing; `calls`: how many of its attention calls there are to serve."""
        with Calls() as counted:
            right = model()
        self.assertEqual(counted.served, {"forward": calls})
        clattn.torch.enable()
        clattn.torch.report(clear=True)
        ours = model()
        self.assertEqual(clattn.torch.report(clear=True), {"served": {"forward": calls}, "declined": {}})
        self.assertLess((ours - right).abs().max() / right.abs().max(), NEAR)
        self.assertFalse(torch.equal(ours, right))  # other roundings: it was computed by another kernel


@unittest.skipUnless(importlib.util.find_spec("diffusers"), "no diffusers")
class Diffusers(Served):
    def test_a_unet(self):
        from diffusers import UNet2DConditionModel
        model = UNet2DConditionModel(
            sample_size=8, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, cross_attention_dim=12,
            attention_head_dim=4, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")).eval()
        image, step, text = torch.randn(2, 4, 8, 8), torch.tensor([3, 7]), torch.randn(2, 5, 12)
        self.check(lambda: model(image, step, text).sample, 8)

    def test_a_transformer(self):
        from diffusers import FluxTransformer2DModel
        model = FluxTransformer2DModel(patch_size=1, in_channels=4, num_layers=1, num_single_layers=1,
                                       attention_head_dim=16, num_attention_heads=2, joint_attention_dim=12,
                                       pooled_projection_dim=8, axes_dims_rope=[4, 4, 8]).eval()
        given = {"hidden_states": torch.randn(1, 16, 4), "encoder_hidden_states": torch.randn(1, 5, 12),
                 "pooled_projections": torch.randn(1, 8), "timestep": torch.tensor([1.0]),
                 "img_ids": torch.randn(16, 3), "txt_ids": torch.zeros(5, 3)}
        self.check(lambda: model(**given).sample, 2)


@unittest.skipUnless(importlib.util.find_spec("keras"), "no keras")
class Keras(Served):
    def test_layers(self):
        import keras
        rows, seen = torch.randn(2, 9, 32), torch.ones(2, 9, 9, dtype=torch.bool).tril(3)
        multi, grouped = keras.layers.MultiHeadAttention(4, 8), keras.layers.GroupQueryAttention(8, 4, 2)
        self.check(lambda: multi(rows, rows, use_causal_mask=True), 1)
        clattn.torch.disable()
        self.check(lambda: multi(rows, rows, attention_mask=seen), 1)
        clattn.torch.disable()
        self.check(lambda: grouped(rows, rows), 1)


if __name__ == "__main__":
    unittest.main()
