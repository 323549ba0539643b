"""Trains a small model with Lightning, whose numbers go to Trackside.

By hand: python lightning_training.py, which writes event files below runs/. As a task of a worker everything
is in the log.
"""

from typing import Any

import pytorch_lightning as lightning
import torch
from pytorch_lightning.loggers import Logger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from trackside.sdk import SummaryWriter


class SummaryLogger(Logger):
    """Records what `self.log` is given; `self.logger.experiment` is the SummaryWriter."""

    name = "trackside"
    version = ""

    def __init__(self, writer: SummaryWriter) -> None:
        super().__init__()
        self.experiment = writer

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Records numbers of one step."""
        for name, value in metrics.items():
            self.experiment.add_scalar(name, value, step)

    def log_hyperparams(self, params: Any, *_: Any, **__: Any) -> None:
        """Records the hyper-parameters of the model."""
        self.experiment.add_hparams(dict(params), {})


class Model(lightning.LightningModule):
    """Two layers."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.rate = rate
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        """Returns the loss of a batch."""
        inputs, targets = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self.layers(inputs), targets)
        self.log("loss", loss)
        return loss

    def on_train_epoch_end(self) -> None:
        """Records the histogram of a weight."""
        self.logger.experiment.add_histogram("first layer", self.layers[0].weight, self.current_epoch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns the optimizer."""
        return torch.optim.Adam(self.parameters(), self.rate)


def main() -> None:
    """Trains for three epochs."""
    torch.manual_seed(0)
    inputs = torch.randn(256, 8)
    targets = (inputs.sum(dim=1, keepdim=True) > 0).float()
    with SummaryWriter() as writer:
        trainer = lightning.Trainer(
            max_epochs=3,
            accelerator="cpu",
            log_every_n_steps=1,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=SummaryLogger(writer),
        )
        trainer.fit(Model(rate=0.01), DataLoader(TensorDataset(inputs, targets), batch_size=64))


if __name__ == "__main__":
    main()
