"""A decoder whose heads of queries share heads of keys and values, in bfloat16: a plain DDP training script.

    pytest perf --script studies/grouped_attention.py     what studies.regressions compares

Runs on the CPU, over gloo.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.nn.parallel import DistributedDataParallel

WORDS, WIDTH, LAYERS, HEADS, KEY_HEADS, TOKENS, BATCH, STEPS = 256, 256, 4, 8, 2, 64, 8, 300
HEAD = WIDTH // HEADS


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.to_heads = nn.Linear(WIDTH, (HEADS + 2 * KEY_HEADS) * HEAD)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        heads = self.to_heads(self.norm(x)).unflatten(-1, (-1, HEAD)).transpose(1, 2)
        query, key, value = heads.split((HEADS, KEY_HEADS, KEY_HEADS), dim=1)
        mixed = scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        fed: Tensor = x + self.mlp(x)
        return fed


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    decoder = nn.Sequential(nn.Embedding(WORDS, WIDTH), *(Block() for _ in range(LAYERS)), nn.Linear(WIDTH, WORDS))
    model = DistributedDataParallel(decoder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(dist.get_rank())
    for _ in range(STEPS):
        words = torch.randint(0, WORDS, (BATCH, TOKENS + 1))
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(words[:, :-1])
            loss = cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
