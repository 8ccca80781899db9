"""Worker of a plain Transformer (Vaswani et al. 2017) in PyTorch; runs in a peer's environment.

It has as many parameters as the suite's and the same step: layer normalisation before each
sub-layer, sines and cosines, dropout on sub-layers and embeddings, label smoothing, Adam.
"""

from typing import Any

import torch
from pytorch import DEVICE, kernels, synchronize
from timing import Work, count, read, work
from torch import nn
from torch.nn import functional

BETAS = (0.9, 0.98)
EPS = 1e-9
SMOOTHING = 0.1
DROPOUT = 0.1


class Attention(nn.Module):
    """Multi-head attention by PyTorch's fused kernels."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key_value = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(
        self, x: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """[B, T, D] for [B, T, D] and [B, S, D]; without a mask [B, 1, 1, S], causal."""
        key, value = self.key_value(memory).chunk(2, dim=-1)
        query, key, value = (
            a.unflatten(-1, (self.heads, -1)).transpose(1, 2) for a in (self.query(x), key, value)
        )
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None
        )
        return self.out(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A layer of the encoder, or with `crosses` of the decoder."""

    def __init__(self, sizes: dict[str, int], crosses: bool):
        super().__init__()
        dim = sizes["dim"]
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(3 if crosses else 2)])
        self.attention = Attention(dim, sizes["num_heads"])
        self.cross = Attention(dim, sizes["num_heads"]) if crosses else None
        inner = sizes["mlp_dim"]
        self.mlp = nn.Sequential(nn.Linear(dim, inner), nn.ReLU(), nn.Linear(inner, dim))

    def forward(
        self, x: torch.Tensor, memory: torch.Tensor | None, mask: torch.Tensor
    ) -> torch.Tensor:
        """[B, T, D]; `mask` is of the source."""
        normed = self.norms[0](x)
        of_itself = self.attention(normed, normed, mask if self.cross is None else None)
        x = x + functional.dropout(of_itself, DROPOUT)
        if self.cross is not None:
            x = x + functional.dropout(self.cross(self.norms[1](x), memory, mask), DROPOUT)
        return x + functional.dropout(self.mlp(self.norms[-1](x)), DROPOUT)


class Transformer(nn.Module):
    """The mean loss of the targets of a batch."""

    def __init__(self, sizes: dict[str, int]):
        super().__init__()
        dim = sizes["dim"]
        self.source = nn.Embedding(sizes["source_vocab"], dim)
        self.target = nn.Embedding(sizes["target_vocab"], dim)
        for table in (self.source, self.target):
            nn.init.normal_(table.weight, std=dim**-0.5)
        self.encoder = nn.ModuleList([Layer(sizes, False) for _ in range(sizes["encoder_layers"])])
        self.decoder = nn.ModuleList([Layer(sizes, True) for _ in range(sizes["decoder_layers"])])
        self.norms = nn.ModuleList([nn.LayerNorm(dim), nn.LayerNorm(dim)])
        self.logits = nn.Linear(dim, sizes["target_vocab"], bias=False)
        angles = torch.arange(sizes["length"])[:, None] / 10_000 ** torch.linspace(0, 1, dim // 2)
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], dim=1))

    def embedded(self, table: nn.Embedding, pieces: torch.Tensor) -> torch.Tensor:
        """[B, T, D] with positions."""
        x = table(pieces) * table.embedding_dim**0.5 + self.positions[: pieces.size(1)]
        return functional.dropout(x, DROPOUT)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The mean over all targets but padding, 0."""
        mask = (source != 0)[:, None, None]
        memory = self.embedded(self.source, source)
        for layer in self.encoder:
            memory = layer(memory, None, mask)
        memory = self.norms[0](memory)

        # The decoder reads the targets before each one.
        x = self.embedded(self.target, functional.pad(target[:, :-1], (1, 0)))
        for layer in self.decoder:
            x = layer(x, memory, mask)
        logits = self.logits(self.norms[1](x)).flatten(0, 1)
        return functional.cross_entropy(
            logits, target.flatten(), ignore_index=0, label_smoothing=SMOOTHING
        )


def make(job: dict[str, Any]) -> Work:
    """The training step, with `job["compile"]` compiled."""
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    model = Transformer(job["sizes"]).to(DEVICE)
    if job.get("compile"):
        model.compile()
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, BETAS, EPS, fused=True)
    batches = read(job["batches"])
    names = ("source", "target")
    items = [[torch.from_numpy(b[name]).long().to(DEVICE) for name in names] for b in batches]

    def train(item: list[torch.Tensor]) -> None:
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=job["bfloat16"]):
            loss = model(*item)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    size = sum(parameter.numel() for parameter in model.parameters())
    return Work(train, items, count(batches), size, synchronize, kernels)


if __name__ == "__main__":
    work(make)
