"""A training script of PyTorch Lightning."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))

    def training_step(self, batch, _index):
        samples, labels = batch
        loss = nn.functional.cross_entropy(self.layers(samples), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    data = TensorDataset(torch.randn(1024, 32), torch.randint(0, 8, (1024,)))
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=100, logger=False, enable_checkpointing=False
    )
    trainer.fit(Classifier(), DataLoader(data, batch_size=16, num_workers=1, persistent_workers=True))
