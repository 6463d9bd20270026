"""Times eager and compiled runs on the device against the CPU and writes docs/benchmarks.md.

    python benchmarks/run.py [--device tpu] [--only REGEX] [--rounds 3] [--out docs/benchmarks.md]

`issue` is the time until a call returns, `done` the time including the work, over a stream of calls
that ends in a synchronisation. Each figure is the least of the rounds.
"""

import argparse
import math
import os
import platform
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

Call = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One timed call, made for a device; `compiled` says that torch.compile makes sense for it."""

    name: str
    repetitions: int
    make: Callable[[str], Call]
    compiled: bool = False


@dataclass
class Times:
    """Microseconds per call."""

    issue: float = math.inf
    done: float = math.inf


def _random(device: str, *shape: int) -> torch.Tensor:
    return torch.randn(*shape).to(device)


def _operators() -> Iterator[Case]:
    def unary(f: Callable[[torch.Tensor], object], *shape: int) -> Callable[[str], Call]:
        def make(device: str) -> Call:
            x = _random(device, *shape)
            return lambda: f(x)

        return make

    def binary(
        f: Callable[[torch.Tensor, torch.Tensor], object], *shape: int
    ) -> Callable[[str], Call]:
        def make(device: str) -> Call:
            x, y = _random(device, *shape), _random(device, *shape)
            return lambda: f(x, y)

        return make

    yield Case("x + y (8 x 8)", 2000, binary(lambda x, y: x + y, 8, 8))
    yield Case("x += y (8 x 8)", 2000, binary(lambda x, y: x.add_(y, alpha=0.0), 8, 8))
    yield Case("x * 0.5 (8 x 8)", 2000, unary(lambda x: x * 0.5, 8, 8))
    yield Case("x.t() + y (8 x 8)", 2000, binary(lambda x, y: x.t() + y, 8, 8))
    yield Case("x[1:3] = y[1:3] (8 x 8)", 1000, binary(lambda x, y: x[1:3].copy_(y[1:3]), 8, 8))
    yield Case("x @ y (128 x 128)", 300, binary(lambda x, y: x @ y, 128, 128))
    yield Case("softmax (1024 x 256)", 300, unary(lambda x: F.softmax(x, -1), 1024, 256))
    yield Case("layer_norm (1024 x 256)", 300, unary(lambda x: F.layer_norm(x, (256,)), 1024, 256))
    yield Case("gelu (1024 x 256)", 300, unary(F.gelu, 1024, 256))
    yield Case("to the host (1 MiB)", 200, unary(lambda x: x.cpu(), 1024, 256))


def _block(device: str) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    block = torch.nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    return block.to(device), _random(device, 4, 32, 128)


def _models() -> Iterator[Case]:
    def forward(device: str) -> Call:
        block, tokens = _block(device)

        # The result is returned: a compiler may drop what nobody sees.
        def call() -> torch.Tensor:
            with torch.no_grad():
                return block(tokens)

        return call

    def train(device: str) -> Call:
        block, tokens = _block(device)
        optimizer = torch.optim.AdamW(block.parameters(), lr=1e-3)

        def call() -> None:
            optimizer.zero_grad()
            block(tokens).pow(2).mean().backward()
            optimizer.step()

        return call

    yield Case("transformer block, forward", 50, forward, compiled=True)
    yield Case("transformer block, training step", 30, train)


def measure(call: Call, repetitions: int, synchronize: Callable[[], None], times: Times) -> None:
    """Times a stream of calls once and keeps the smaller figures in `times`."""
    for _ in range(max(3, repetitions // 20)):
        call()
    synchronize()
    start = time.perf_counter()
    for _ in range(repetitions):
        call()
    issued = time.perf_counter()
    synchronize()
    done = time.perf_counter()
    times.issue = min(times.issue, (issued - start) / repetitions * 1e6)
    times.done = min(times.done, (done - start) / repetitions * 1e6)


def run(case: Case, device: str, rounds: int, compiled: bool = False) -> Times:
    """The best times of one case on one device."""
    call = case.make(device)
    if compiled:
        call = torch.compile(call)
    synchronize = (lambda: None) if device == "cpu" else torch.accelerator.synchronize
    times = Times()
    for _ in range(rounds):
        measure(call, case.repetitions, synchronize, times)
    return times


def _row(case: Case, device: str, rounds: int) -> str:
    cpu = run(case, "cpu", rounds)
    eager = run(case, device, rounds)
    compiled = f"{run(case, device, rounds, True).done:.1f}" if case.compiled else ""
    cells = (case.name, f"{cpu.done:.1f}", f"{eager.issue:.1f}", f"{eager.done:.1f}", compiled)
    return f"| {' | '.join(cells)} |"


def _machine(device: str) -> str:
    text = f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}"
    if device != "cpu":
        properties = torch.get_device_module(device).get_device_properties()
        plugin = Path(properties.plugin).name
        text += (
            f"\n\nplatform {properties.platform}, plugin {plugin}, PJRT {properties.api_version}"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--only", default="", help="regular expression over case names")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks.md"))
    args = parser.parse_args()

    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench`. Microseconds per call, the least of several rounds. *issue*: until",
        "the call returns; *done*: with the work, over a stream of calls ending in a",
        "synchronisation.",
        "",
        _machine(args.device),
        "",
        f"| case | CPU eager, done | {args.device} eager, issue | {args.device} eager, done "
        f"| {args.device} compiled, done |",
        "|---|---|---|---|---|",
    ]
    for case in [*_operators(), *_models()]:
        if re.search(args.only, case.name):
            lines.append(_row(case, args.device, args.rounds))
            print(lines[-1], flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("\n".join(lines) + "\n")
    print(f"written to {args.out}")


if __name__ == "__main__":
    main()
