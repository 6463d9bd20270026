"""Trains a byte-level GPT on the source of Python's standard library.

Plain PyTorch: AdamW with weight decay only on matrices, gradient clipping, a cosine schedule with
warm-up, and checkpoints from which a run continues exactly as if it had not been interrupted. The
order of the data and the initial weights come from generators on the CPU, so that runs on
different devices can be compared: with --compare-cpu the same training runs on the CPU too, and
the exit code says whether the losses agree. It also has to end with a lower loss than it began.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import _common
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

MAXIMUM_DIFFERENCE = 1e-3
VOCABULARY = 256

# Arguments that shape the run: a checkpoint continues only under the same ones.
FIXED = (
    *("steps", "layers", "width", "heads", "context", "dropout", "batch_size", "bytes"),
    *("lr", "warmup", "weight_decay", "clip", "seed"),
)


class Block(nn.Module):
    """Pre-norm transformer block; keeps the shape [batch, length, width]."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True
        )
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm_mlp(x))


class Gpt(nn.Module):
    """Byte-level GPT with learned positions and a head tied to the embedding."""

    def __init__(self, layers: int, width: int, heads: int, context: int, dropout: float) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(context, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # Branches that end on the residual stream start smaller, the deeper the model.
                residual = name.endswith(("out.weight", "mlp.2.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)
        self.head.weight = self.tokens.weight

    def forward(self, x: Tensor, targets: Tensor | None = None) -> Tensor:
        """Logits [batch, length, 256] of bytes [batch, length] int64; with `targets` their loss."""
        hidden = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        hidden = self.drop(hidden)
        for block in self.blocks:
            hidden = block(hidden)
        logits = self.head(self.norm(hidden))
        if targets is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def learning_rate(step: int, warmup: int, steps: int) -> float:
    """Fraction of the highest rate: linear warm-up, then half a cosine down to a tenth."""
    if step < warmup:
        return (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, steps - warmup))
    return 0.1 + 0.45 * (1 + math.cos(math.pi * progress))


class Trainer:
    """A training run: everything that a checkpoint has to hold, and the loop."""

    def __init__(self, args: argparse.Namespace, device: torch.device) -> None:
        self.args = args
        self.device = device
        torch.manual_seed(args.seed)
        # Initialised on the CPU, so that every device starts from the same weights.
        self.model = Gpt(args.layers, args.width, args.heads, args.context, args.dropout)
        self.model.to(device)
        matrices = [p for p in self.model.parameters() if p.dim() >= 2]
        vectors = [p for p in self.model.parameters() if p.dim() < 2]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": args.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            lr=args.lr,
            betas=(0.9, 0.95),
            fused=args.fused or None,
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: learning_rate(step, args.warmup, args.steps)
        )
        self.forward = self.model
        if args.compile:
            backend = _common.compile_backend(device)
            self.forward = torch.compile(self.model, backend=backend, dynamic=False)
        self.data = torch.frombuffer(bytearray(_common.stdlib_bytes(args.bytes)), dtype=torch.uint8)
        self.order = torch.Generator().manual_seed(args.seed)
        self.step = 0
        self.losses: list[float] = []

    def batch(self) -> tuple[Tensor, Tensor]:
        """The next bytes and their successors, both [batch, context] int64, on the device."""
        context = self.args.context
        begins = torch.randint(
            len(self.data) - context, (self.args.batch_size, 1), generator=self.order
        )
        windows = self.data[begins + torch.arange(context + 1)].long()
        return windows[:, :-1].to(self.device), windows[:, 1:].to(self.device)

    def train(self) -> None:
        """Trains to the last step or --stop-after, with a progress bar and checkpoints."""
        args = self.args
        self.model.train()
        last = min(args.steps, args.stop_after or args.steps)
        pending: list[Tensor] = []
        begin = first = time.perf_counter()
        bar = tqdm(
            range(self.step, last),
            desc=str(self.device),
            unit="step",
            initial=self.step,
            total=last,
        )
        for _ in bar:
            loss = self.forward(*self.batch())
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), args.clip)
            self.optimizer.step()
            self.schedule.step()
            self.step += 1
            # Reading a loss waits for the device: do it now and then, not at every step.
            pending.append(loss.detach())
            saving = args.checkpoint and args.save_every and self.step % args.save_every == 0
            if saving or self.step % args.log_every == 0 or self.step == last:
                self.losses += torch.stack(pending).tolist()
                pending.clear()
                rate = self.schedule.get_last_lr()[0]
                bar.set_postfix(loss=f"{self.losses[-1]:.4f}", lr=f"{rate:.1e}")
            if len(self.losses) <= args.log_every:
                first = time.perf_counter()
            if saving and self.step != last:
                self.save(args.checkpoint)
        if args.checkpoint:
            self.save(args.checkpoint)
        now = time.perf_counter()
        steady = self.step - args.log_every
        if steady > 0 and now > first > begin:
            print(
                f"{self.device}: {now - begin:.1f} s, {1e3 * (now - first) / steady:.1f} ms/step "
                f"after the first {args.log_every} steps"
            )

    def save(self, path: Path) -> None:
        """Writes a checkpoint; a reader sees the old file or the new one, never half of one."""
        state: dict[str, Any] = {
            "fixed": {name: getattr(self.args, name) for name in FIXED},
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "step": self.step,
            "losses": self.losses,
            "order": self.order.get_state(),
            "cpu_rng": torch.get_rng_state(),
        }
        if self.device.type != "cpu":
            module = torch.get_device_module(self.device)
            state["device_rng"] = module.get_rng_state(self.device)
        scratch = path.with_name(path.name + ".tmp")
        torch.save(state, scratch)
        os.replace(scratch, path)

    def load(self, path: Path) -> None:
        """Continues from a checkpoint, made on any device; raises SystemExit if it does not fit."""
        state = torch.load(path, map_location="cpu", weights_only=True)
        mine = {name: getattr(self.args, name) for name in FIXED}
        other = {name: value for name, value in state["fixed"].items() if mine[name] != value}
        if other:
            wanted = " ".join(
                f"--{name.replace('_', '-')} {value}" for name, value in other.items()
            )
            raise SystemExit(f"{path} belongs to another run; continue it with {wanted}")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.step = state["step"]
        self.losses = state["losses"]
        self.order.set_state(state["order"])
        torch.set_rng_state(state["cpu_rng"])
        if self.device.type != "cpu" and "device_rng" in state:
            module = torch.get_device_module(self.device)
            module.set_rng_state(state["device_rng"], self.device)

    @torch.no_grad()
    def sample(self, prompt: bytes, count: int) -> bytes:
        """`prompt` and `count` bytes more, each drawn from the model's distribution."""
        self.model.eval()
        text = list(prompt)
        for _ in range(count):
            window = text[-self.args.context :]
            # One length, padded behind, where a causal model does not look: one compilation.
            padded = window + [0] * (self.args.context - len(window))
            logits = self.model(torch.tensor([padded], device=self.device))[0, len(window) - 1]
            text.append(int(torch.multinomial(logits.softmax(0), 1)))
        return bytes(text)


def argument_parser() -> argparse.ArgumentParser:
    """All options of the example."""
    parser = _common.argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=50, help="training steps in all")
    parser.add_argument("--compile", action="store_true", help="run through torch.compile")
    parser.add_argument(
        "--compare-cpu",
        action="store_true",
        help=f"train on the CPU too; losses must agree to {MAXIMUM_DIFFERENCE} at the last step",
    )
    model = parser.add_argument_group("model and data")
    model.add_argument("--layers", type=int, default=4, help="transformer blocks")
    model.add_argument("--width", type=int, default=128, help="features per byte")
    model.add_argument("--heads", type=int, default=4, help="attention heads")
    model.add_argument("--context", type=int, default=128, help="bytes the model sees at once")
    model.add_argument("--dropout", type=float, default=0.0, help="dropout probability")
    model.add_argument("--batch-size", type=int, default=16, help="sequences per step")
    model.add_argument("--bytes", type=int, default=4_000_000, help="bytes of source to train on")
    optimizer = parser.add_argument_group("optimizer")
    optimizer.add_argument("--lr", type=float, default=2e-3, help="highest learning rate")
    optimizer.add_argument("--warmup", type=int, default=10, help="steps of linear warm-up")
    optimizer.add_argument("--weight-decay", type=float, default=0.1, help="decay of matrices")
    optimizer.add_argument("--clip", type=float, default=1.0, help="largest gradient norm")
    optimizer.add_argument("--fused", action="store_true", help="AdamW as one fused kernel")
    output = parser.add_argument_group("checkpoints and output")
    output.add_argument("--checkpoint", type=Path, help="file to write checkpoints to")
    output.add_argument("--save-every", type=int, default=0, help="steps between them; 0: at end")
    output.add_argument("--resume", type=Path, help="checkpoint to continue from")
    output.add_argument("--stop-after", type=int, help="stop after this step, as if interrupted")
    output.add_argument("--log-every", type=int, default=5, help="steps between loss read-outs")
    output.add_argument("--sample", type=int, default=0, help="bytes to generate at the end")
    return parser


def run(args: argparse.Namespace) -> tuple[Trainer, int]:
    """Trains as `args` say; returns the trainer and the exit code."""
    device = _common.start(args)
    trainer = Trainer(args, device)
    parameters = sum(p.numel() for p in trainer.model.parameters())
    print(f"{parameters:,} parameters, {len(trainer.data):,} bytes of source")
    if args.resume:
        trainer.load(args.resume)
        print(f"resumed {args.resume} at step {trainer.step}")
    trainer.train()
    if args.sample:
        print(trainer.sample(b"def ", args.sample).decode("utf-8", "replace"))
    _common.print_fallbacks(device)

    losses = trainer.losses
    done = f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {len(losses)} steps"
    passed = losses[-1] < losses[0]
    if args.compare_cpu:
        settings = {**vars(args), "compile": False, "checkpoint": None}
        reference = Trainer(argparse.Namespace(**settings), torch.device("cpu"))
        reference.train()
        differences = [abs(a - b) for a, b in zip(losses, reference.losses, strict=True)]
        # A NaN fails this comparison.
        passed = passed and differences[-1] <= MAXIMUM_DIFFERENCE
        done += (
            f"; CPU {reference.losses[-1]:.4f}, difference {differences[-1]:.1e} at the last "
            f"step (allowed {MAXIMUM_DIFFERENCE}), {max(differences):.1e} at most on the way"
        )
    return trainer, _common.verdict(passed, done)


def main(argv: list[str] | None = None) -> int:
    """Runs the example; returns the exit code."""
    parser = argument_parser()
    args = parser.parse_args(argv)
    if args.width % args.heads:
        parser.error("--width must be a multiple of --heads")
    if args.compare_cpu and args.dropout:
        parser.error("--compare-cpu needs --dropout 0: devices draw different random numbers")
    if min(args.steps, args.log_every, args.warmup) < 1:
        parser.error("--steps, --log-every and --warmup must be positive")
    return run(args)[1]


if __name__ == "__main__":
    sys.exit(main())
