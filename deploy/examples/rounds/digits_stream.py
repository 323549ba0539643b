"""A camera that reads digits: appends its images, with the labels that people gave them, to a csv file.

    python digits_stream.py samples.csv            appends the next batch
    python digits_stream.py samples.csv --all 20   appends all eight, one each 20 s

A batch has 200 images of 8 x 8 pixels, from scikit-learn's handwritten digits. Twice the camera changes, and
once the labels are wrong: see BATCHES.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

SEED = 17
ROWS = 200
PIXELS = [f"p{at}" for at in range(64)]
FIRST_ROWS = 30
"""How many images the first model has learned from; they come in no batch."""
BATCHES = ("clean", "clean", "dim", "mislabelled", "dim", "upside down", "dim", "dim")
"""What the batches have. From the third one on the lamp is weak; the labels of the fourth are those of other
images; for the sixth the camera hangs upside down."""


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Returns the images, of 64 pixels from 0 to 16, and their labels, in an order of the seed."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(labels))
    return images[order].astype(int), labels[order].astype(int)


def first_samples() -> tuple[np.ndarray, np.ndarray]:
    """Returns what the first model learns from."""
    images, labels = digits()
    return images[:FIRST_ROWS], labels[:FIRST_ROWS]


def batch(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the images and labels of a batch; they count from 0."""
    images, labels = digits()
    begin = FIRST_ROWS + number * ROWS
    images, labels = images[begin : begin + ROWS], labels[begin : begin + ROWS]
    kind = BATCHES[number]
    if kind == "mislabelled":
        labels = np.random.default_rng(SEED).permutation(labels)
    if kind == "upside down":
        images = images[:, ::-1]
    return (images if kind == "clean" else dim(images)), labels


def dim(images: np.ndarray) -> np.ndarray:
    """Returns images as a weak lamp shows them: dark, and moved by a column."""
    moved = np.roll(images.reshape(-1, 8, 8), 1, axis=2)
    moved[:, :, 0] = 0
    return np.round(moved.reshape(-1, 64) * 0.4).astype(int)


def append_batch(path: Path) -> str:
    """Appends the next batch with one write, so that no reader sees a part of it; returns what it has."""
    lines = path.read_text().count("\n") - 1 if path.exists() else 0
    number = max(lines, 0) // ROWS
    if number >= len(BATCHES):
        raise SystemExit(f"{path} has all {len(BATCHES)} batches")
    images, labels = batch(number)
    rows = [",".join(map(str, [*image, label])) for image, label in zip(images, labels, strict=True)]
    header = [] if path.exists() else [",".join([*PIXELS, "label"])]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        file.write("".join(f"{line}\n" for line in header + rows).encode())
    return f"batch {number + 1} of {len(BATCHES)}: {ROWS} images, {BATCHES[number]}"


def tell(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Appends one batch, or all that are left."""
    parser = argparse.ArgumentParser(description="Appends batches of digits to a csv file.")
    parser.add_argument("path", type=Path)
    parser.add_argument(
        "--all", type=float, metavar="SECONDS", help="append all, with this time between them"
    )
    asked = parser.parse_args()
    tell(append_batch(asked.path))
    while asked.all is not None:
        time.sleep(asked.all)
        tell(append_batch(asked.path))


if __name__ == "__main__":
    main()
