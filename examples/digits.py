"""Trains a small CNN and a small vision transformer on scikit-learn's digits.

The digits are 1,797 real 8x8 scans; a fifth is held out. The exit code is 0 if every model asked
for reaches an accuracy of at least 0.95 on the held-out part.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import _common
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

MINIMUM_ACCURACY = 0.95
CLASSES = 10


def cnn() -> nn.Module:
    """Images [batch, 1, 8, 8] to logits [batch, 10], by two convolutions."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(64 * 2 * 2, CLASSES),
    )


class Block(nn.Module):
    """Pre-norm transformer block without a mask; keeps the shape [batch, tokens, width]."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(2 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, tokens, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.norm_mlp(x))


class Vit(nn.Module):
    """Images [batch, 1, 8, 8] to logits [batch, 10], by attention over 4x4 overlapping patches."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.positions = nn.Parameter(torch.randn(1, 16, width) * 0.02)
        self.drop = nn.Dropout(0.1)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout=0.1) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patches(images).flatten(2).transpose(1, 2)
        x = self.blocks(self.drop(patches + self.positions))
        return self.head(self.norm(x).mean(1))


MODELS = {"cnn": cnn, "vit": Vit}
EPOCHS = {"cnn": 6, "vit": 16}


@dataclass
class Result:
    """Outcome of one training."""

    name: str
    epochs: int
    seconds: float
    loss: float
    accuracy: float


def load_data(args: argparse.Namespace) -> tuple[DataLoader, DataLoader]:
    """Loaders of images scaled to [-1, 1] and labels, for training and for testing."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    labels = torch.tensor(digits.target, dtype=torch.int64)
    train, test = train_test_split(
        range(len(labels)), test_size=0.2, random_state=args.seed, stratify=digits.target
    )
    order = torch.Generator().manual_seed(args.seed)
    return (
        # The last, smaller batch is left out: every step has the same shapes.
        DataLoader(
            TensorDataset(images[train], labels[train]),
            batch_size=args.batch_size,
            shuffle=True,
            drop_last=True,
            generator=order,
            num_workers=args.workers,
            persistent_workers=args.workers > 0,
        ),
        DataLoader(TensorDataset(images[test], labels[test]), batch_size=len(test)),
    )


def accuracy(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """Fraction of the images in `loader` that `model` names rightly."""
    model.eval()
    right = count = 0
    with torch.no_grad():
        for images, labels in loader:
            named = model(images.to(device)).argmax(1)
            right += (named == labels.to(device)).sum().item()
            count += len(labels)
    return right / count


def train(name: str, args: argparse.Namespace, device: torch.device) -> Result:
    """Trains the model called `name` from scratch and tests it."""
    torch.manual_seed(args.seed)
    training, testing = load_data(args)
    epochs = args.epochs or EPOCHS[name]
    model = MODELS[name]().to(device)
    if args.compile:
        model = torch.compile(model, backend=_common.compile_backend(device), dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    steps = epochs * len(training)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)

    begin = time.perf_counter()
    loss = torch.zeros(())
    with tqdm(total=steps, desc=f"{name} on {device}", unit="step") as bar:
        for _ in range(epochs):
            model.train()
            for images, labels in training:
                logits = model(images.to(device))
                loss = F.cross_entropy(logits, labels.to(device), label_smoothing=0.1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                bar.update()
            bar.set_postfix(loss=f"{loss.item():.4f}")
    seconds = time.perf_counter() - begin
    return Result(name, epochs, seconds, loss.item(), accuracy(model, testing, device))


def argument_parser() -> argparse.ArgumentParser:
    """All options of the example."""
    parser = _common.argument_parser(__doc__)
    parser.add_argument("--model", choices=(*MODELS, "both"), default="both", help="what to train")
    parser.add_argument(
        "--epochs", type=int, default=0, help="passes over the data; 0: as many as the model needs"
    )
    parser.add_argument("--batch-size", type=int, default=64, help="images per step")
    parser.add_argument("--workers", type=int, default=0, help="processes that load the data")
    parser.add_argument("--compile", action="store_true", help="run through torch.compile")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs the example; returns the exit code."""
    parser = argument_parser()
    args = parser.parse_args(argv)
    if args.epochs < 0 or args.workers < 0 or not 1 <= args.batch_size <= 1437:
        parser.error("--epochs and --workers must not be negative, --batch-size from 1 to 1437")
    device = _common.start(args)
    results = [train(name, args, device) for name in MODELS if args.model in (name, "both")]
    _common.print_table(
        f"digits on {device}",
        ["model", "epochs", "seconds", "last training loss", "test accuracy"],
        [
            [r.name, r.epochs, f"{r.seconds:.1f}", f"{r.loss:.4f}", f"{r.accuracy:.4f}"]
            for r in results
        ],
    )
    _common.print_fallbacks(device)
    worst = min(result.accuracy for result in results)
    return _common.verdict(
        worst >= MINIMUM_ACCURACY, f"test accuracy {worst:.4f}, needed {MINIMUM_ACCURACY}"
    )


if __name__ == "__main__":
    sys.exit(main())
