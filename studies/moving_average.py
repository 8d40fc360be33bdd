"""A plain FSDP2 training script, with a moving average of the weights whose decay grows, as in TensorFlow.

    pytest perf --script studies/moving_average.py     what studies.regressions compares

Runs on the CPU, over gloo.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

WIDTH, LAYERS, TOKENS, STEPS = 128, 4, 32, 300


def sharded_model() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0, batch_first=True) for _ in range(LAYERS)]
    model = nn.Sequential(nn.Linear(48, WIDTH), *layers, nn.Linear(WIDTH, 10))
    for module in (*layers, model):
        fully_shard(module)
    return model


def main() -> None:
    dist.init_process_group("gloo")
    model, average = sharded_model(), sharded_model()
    torch.manual_seed(dist.get_rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(STEPS):
        loss = model(torch.randn(8, TOKENS, 48)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        decay = min(0.999, (1 + step) / (10 + step))
        with torch.no_grad():
            for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 1 - decay)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
