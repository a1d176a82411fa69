"""Tiny models of transformers, of random weights: with attn_implementation="clattn" their outputs differ from a float64
run by as much as float32 does, and every attention call is served."""
import unittest

import torch
import transformers

import clattn.torch
import clattn.transformers  # noqa: F401  registers "clattn"

LAYERS = 2
SMALL = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS,
         "num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2, "initializer_range": 0.3}  # so that softmax has something to choose
GROUPED = {**SMALL, "num_key_value_heads": 2}

MODELS = {
    "BERT": lambda: transformers.BertModel(transformers.BertConfig(**SMALL)),
    "Llama": lambda: transformers.LlamaModel(transformers.LlamaConfig(**GROUPED)),
    "Mistral, window 4": lambda: transformers.MistralModel(transformers.MistralConfig(**GROUPED, sliding_window=4)),
    "Gemma 2, softcap, window 4": lambda: transformers.Gemma2Model(transformers.Gemma2Config(
        **GROUPED, head_dim=8, sliding_window=4, attn_logit_softcapping=2.0)),
    "GPT-OSS, sinks, window 4": lambda: transformers.GptOssModel(transformers.GptOssConfig(
        **GROUPED, head_dim=8, sliding_window=4, num_local_experts=2, num_experts_per_tok=1)),
    "ModernBERT": lambda: transformers.ModernBertModel(transformers.ModernBertConfig(**SMALL, local_attention=8)),
    "T5": lambda: transformers.T5Model(transformers.T5Config(
        vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=LAYERS, num_heads=4, decoder_start_token_id=0)),
    "Whisper": lambda: transformers.WhisperModel(transformers.WhisperConfig(
        vocab_size=60, d_model=32, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=8, max_source_positions=12,
        max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)),
}


def inputs_of(name):
    """Eleven tokens; the second sequence has nine and padding, which no window of four sees nothing but."""
    torch.manual_seed(3)
    tokens, seen = torch.randint(3, 60, (2, 11)), torch.ones(2, 11, dtype=torch.long)
    if name == "Whisper":
        return {"input_features": torch.randn(2, 8, 24), "decoder_input_ids": tokens}
    seen[1, 9:] = 0
    given = {"input_ids": tokens, "attention_mask": seen}
    return {**given, "decoder_input_ids": tokens[:, :5]} if name == "T5" else given


def run(model, implementation, dtype, inputs):
    model.set_attn_implementation(implementation)
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # the other ones have no float64
    model = model.to(dtype).eval()
    with torch.no_grad():
        given = {key: value.to(dtype) if value.is_floating_point() else value for key, value in inputs.items()}
        return model(**given).last_hidden_state.double()


class Models(unittest.TestCase):
    """One test for each, made below."""

    def check(self, name):
        torch.manual_seed(7)
        model, inputs = MODELS[name](), inputs_of(name)
        if hasattr(model, "layers") and "sinks" in name:
            for layer in model.layers:  # as made they are 0 or undefined
                torch.nn.init.normal_(layer.self_attn.sinks)
        right = run(model, "eager", torch.float64, inputs)
        eager = run(model, "eager", torch.float32, inputs)
        clattn.torch.report(clear=True)
        ours = run(model, "clattn", torch.float32, inputs)
        report = clattn.torch.report(clear=True)
        calls = 3 * LAYERS if name in ("T5", "Whisper") else LAYERS
        self.assertEqual(report, {"served": {"attention": calls}, "declined": {}})
        seen = torch.ones(right.shape[:2], dtype=torch.bool)
        if "attention_mask" in inputs and name != "T5":
            seen = inputs["attention_mask"].bool()  # what a row of padding holds is nobody's business
        own_error = (eager - right)[seen].abs().max().item()
        error = (ours - right)[seen].abs().max().item()
        self.assertLessEqual(error, 2 * own_error + 1e-6 * right[seen].abs().max().item())
        self.assertGreater((right[0] - right[1]).abs().max().item(), 1e-3)  # it computes something


for _name in MODELS:
    setattr(Models, "test_" + _name.split(",")[0].replace(" ", "_").replace("-", "_").lower(),
            lambda self, name=_name: self.check(name))


if __name__ == "__main__":
    unittest.main()
