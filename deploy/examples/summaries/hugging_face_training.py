"""Trains a small model with the Trainer of Hugging Face, whose numbers go to Trackside.

By hand: python hugging_face_training.py, which writes event files below runs/. As a task of a worker
everything is in the log.
"""

from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

from trackside.sdk import SummaryWriter


class SummaryCallback(TrainerCallback):
    """Records what the Trainer logs."""

    def __init__(self, writer: SummaryWriter) -> None:
        self.writer = writer

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Records the numbers of one step."""
        for name, value in (logs or {}).items():
            self.writer.add_scalar(name, value, state.global_step)


class Model(nn.Module):
    """Two layers, which return their loss as the Trainer expects it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns the loss and the predictions."""
        logits = self.layers(inputs)
        return {"loss": nn.functional.binary_cross_entropy_with_logits(logits, labels), "logits": logits}


def main() -> None:
    """Trains for three epochs."""
    torch.manual_seed(0)
    inputs = torch.randn(256, 8)
    labels = (inputs.sum(dim=1, keepdim=True) > 0).float()
    rows = [{"inputs": row, "labels": label} for row, label in zip(inputs, labels, strict=True)]
    with SummaryWriter() as writer, TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            num_train_epochs=3,
            per_device_train_batch_size=64,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        Trainer(Model(), options, train_dataset=rows, callbacks=[SummaryCallback(writer)]).train()


if __name__ == "__main__":
    main()
