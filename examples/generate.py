"""Text generation with small, randomly initialised language models from `transformers`.

A Llama, a Qwen3, a Mixtral (mixture of experts) and a Gemma generate from prompts of different
lengths, with a dynamic and a static key-value cache, greedily and by sampling. The exit code is 0
if the greedy tokens are those of the CPU and the same seed samples the same tokens twice.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from typing import Any

import _common
import torch
from torch import Tensor

FAMILIES = ("llama", "qwen3", "mixtral", "gemma")
CACHES = ("dynamic", "static")
PAD, BEGIN, END = 0, 1, 2
VOCABULARY = 512


@dataclass
class Result:
    """One row of the table: what was generated how, and whether it is right."""

    family: str
    cache: str
    way: str
    first: float
    steady: float
    new_tokens: int
    matches: bool
    tokens: list[int]

    def row(self) -> list[str]:
        return [
            self.family,
            self.cache,
            self.way,
            f"{self.first:.2f}",
            f"{self.new_tokens / self.steady:.0f}",
            "yes" if self.matches else "NO",
            " ".join(map(str, self.tokens[:10])),
        ]


def make_model(family: str, seed: int) -> torch.nn.Module:
    """A two-layer causal language model of `family` on the CPU, in evaluation mode."""
    from transformers import AutoConfig, AutoModelForCausalLM

    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 256,
        "pad_token_id": PAD,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        # With the usual 0.02 the logits of an untrained model nearly tie, and rounding decides.
        "initializer_range": 0.2,
    }
    extra: dict[str, Any] = {}
    if family == "mixtral":
        settings |= {"num_local_experts": 4, "num_experts_per_tok": 2}
        # The form whose shapes do not depend on which experts the tokens choose.
        extra["experts_implementation"] = "batched_mm"
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, **settings)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32, **extra).eval()


def make_prompts(batch: int, longest: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random prompts padded on the left and their mask, both [batch, longest] int64."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(END + 1, VOCABULARY, (batch, longest), generator=generator)
    mask = torch.ones_like(tokens)
    for row in range(1, batch):
        padding = row * longest // (2 * batch)
        tokens[row, :padding] = PAD
        mask[row, :padding] = 0
    return tokens, mask


def generate(
    model: torch.nn.Module,
    prompts: tuple[Tensor, Tensor],
    args: argparse.Namespace,
    cache: str,
    sampled: bool,
) -> tuple[Tensor, float]:
    """New tokens [batch, args.tokens], on the CPU, and the seconds it took to make them."""
    device = model.device
    ids, mask = (tensor.to(device) for tensor in prompts)
    choice = {"do_sample": False}
    if sampled:
        choice = {"do_sample": True, "temperature": 0.8, "top_k": 50, "top_p": 0.95}
        torch.manual_seed(args.seed)

    def run() -> Tensor:
        return model.generate(
            ids,
            attention_mask=mask,
            min_new_tokens=args.tokens,
            max_new_tokens=args.tokens,
            # `transformers` would compile the static form by itself; here --compile decides.
            disable_compile=True,
            **({"cache_implementation": "static"} if cache == "static" else {}),
            **choice,
        )

    output, seconds = _common.timed(device, run)
    return output[:, ids.shape[1] :].cpu(), seconds


def check_family(family: str, args: argparse.Namespace, device: torch.device) -> list[Result]:
    """Generates with one family in all ways; the CPU's greedy tokens are the reference."""
    model = make_model(family, args.seed)
    prompts = make_prompts(args.batch_size, args.prompt, args.seed)
    reference, _ = generate(model, prompts, args, "dynamic", sampled=False)
    model.to(device)
    eager = model.forward

    results = []
    for cache in CACHES:
        # Only the static cache keeps one shape from token to token.
        compiled = args.compile and cache == "static"
        if compiled:
            backend = _common.compile_backend(device)
            model.forward = torch.compile(eager, backend=backend, dynamic=False)
        for sampled in (False, True):
            tokens, first = generate(model, prompts, args, cache, sampled)
            again, steady = generate(model, prompts, args, cache, sampled)
            expected = again if sampled else reference
            way = "sampled" if sampled else "greedy"
            results.append(
                Result(
                    family,
                    cache + (", compiled" if compiled else ""),
                    way,
                    first,
                    steady,
                    again.numel(),
                    torch.equal(tokens, expected) and torch.equal(again, expected),
                    tokens[0].tolist(),
                )
            )
        model.forward = eager
    return results


def argument_parser() -> argparse.ArgumentParser:
    """All options of the example."""
    parser = _common.argument_parser(__doc__)
    parser.add_argument(
        "--models", nargs="+", choices=FAMILIES, default=list(FAMILIES), help="families to run"
    )
    parser.add_argument("--tokens", type=int, default=24, help="new tokens per prompt")
    parser.add_argument("--prompt", type=int, default=12, help="tokens of the longest prompt")
    parser.add_argument("--batch-size", type=int, default=3, help="prompts generated together")
    parser.add_argument(
        "--compile", action="store_true", help="run the static cache through torch.compile"
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs the example; returns the exit code."""
    parser = argument_parser()
    args = parser.parse_args(argv)
    if min(args.tokens, args.prompt, args.batch_size) < 1 or args.tokens + args.prompt > 256:
        parser.error("--tokens, --prompt, --batch-size: at least 1, and 256 tokens in all")
    os.environ["HF_HUB_OFFLINE"] = "1"
    device = _common.start(args)
    results = [result for family in args.models for result in check_family(family, args, device)]
    _common.print_table(
        f"{args.batch_size} prompts, {args.tokens} new tokens each, on {device}",
        ["model", "cache", "choice", "first run s", "tokens/s", "as expected", "first prompt's"],
        [result.row() for result in results],
    )
    print("expected: greedy tokens equal the CPU's; one seed samples the same tokens twice")
    _common.print_fallbacks(device)
    wrong = [f"{r.family} {r.cache} {r.way}" for r in results if not r.matches]
    return _common.verdict(not wrong, f"{len(results)} generations, wrong: {wrong or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
