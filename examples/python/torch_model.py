"""A transformer layer of PyTorch, trained for a few steps, its attention computed by clattn: one line more."""
import clattn.torch
import torch

clattn.torch.enable()

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
tokens, wanted = torch.randn(2, 32, 64), torch.randn(2, 32, 64)
for step in range(3):
    loss = (layer(tokens) - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
print(clattn.torch.report())
