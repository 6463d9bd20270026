"""What the examples share: arguments, devices, timing, the corpus and tables.

Everything here works on any PyTorch device, so that ``--device cpu`` and ``--device tpu`` run the
same code.
"""

from __future__ import annotations

import argparse
import ast
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

T = TypeVar("T")


def argument_parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the options every example has; `doc` is the example's docstring."""
    parser = argparse.ArgumentParser(
        description=doc,
        formatter_class=type(
            "Formatter",
            (argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter),
            {},
        ),
    )
    parser.add_argument("--device", default="tpu", help="PyTorch device to run on")
    parser.add_argument("--seed", type=int, default=0, help="seed of every random generator")
    parser.add_argument(
        "--precision",
        choices=("highest", "high", "medium"),
        default="highest",
        help="float32 matrix product precision (a TPU rounds operands to bfloat16 below highest)",
    )
    return parser


def start(args: argparse.Namespace) -> torch.device:
    """Applies seed and precision, opens the device and prints what it is."""
    if args.device.startswith("tpu"):
        import torch_tpu  # noqa: F401  (also loaded by `import torch` once it is installed)

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision(args.precision)
    device = torch.device(args.device)
    print(f"device {device}: {describe(device)}")
    return device


def describe(device: torch.device) -> str:
    """One line saying what `device` really is, for instance that "tpu" is XLA's CPU plugin."""
    if device.type == "cpu":
        return f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads"
    properties = torch.get_device_module(device).get_device_properties(device)
    plain = "no TPU here, this is the host's CPU; " if properties.platform == "cpu" else ""
    return (
        f"{plain}{properties.name}, platform {properties.platform} "
        f"{properties.platform_version}, plugin {properties.plugin}"
    )


def compile_backend(device: torch.device) -> str:
    """The `torch.compile` backend for `device`; the CPU only needs the graph capture."""
    return "eager" if device.type == "cpu" else device.type


def synchronize(device: torch.device) -> None:
    """Waits until everything issued on `device` is done."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def timed(device: torch.device, run: Callable[[], T]) -> tuple[T, float]:
    """Runs `run` and waits for `device`; returns its result and the seconds it took."""
    synchronize(device)
    begin = time.perf_counter()
    result = run()
    synchronize(device)
    return result, time.perf_counter() - begin


def fallbacks(device: torch.device) -> dict[str, int]:
    """Operators that ran on the CPU instead of `device` so far, with the number of calls."""
    if device.type == "cpu":
        return {}
    return dict(torch.get_device_module(device).fallback_report())


def print_fallbacks(device: torch.device) -> None:
    """Says which operators of `device` fell back to the CPU in this process."""
    if device.type != "cpu":
        report = fallbacks(device)
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(report.items()))
        print(f"operators that fell back to the CPU: {listed or 'none'}")


def verdict(passed: bool, what: str) -> int:
    """Prints the outcome and returns the exit code for it."""
    print(f"{'ok' if passed else 'FAILED'}: {what}")
    return 0 if passed else 1


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Prints a table; columns whose cells are all numbers are aligned to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    table = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        numeric = all(_is_number(row[index]) for row in cells)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(escape(cell) for cell in row))
    # A pipe or a log has no width of its own: do not wrap to the 80 columns assumed for it.
    Console(width=None if Console().is_terminal else 160).print(table)


def _is_number(cell: str) -> bool:
    words = cell.split()
    return not words or words[0].lstrip("+-").replace(".", "", 1)[:1].isdigit() or cell == "-"


@dataclass(frozen=True)
class Sentence:
    """The first sentence of a docstring and the dotted name of what it documents."""

    name: str
    text: str


# Not library code, or tables without prose.
_SKIPPED = frozenset(
    (
        *("site-packages", "dist-packages", "test", "tests", "__pycache__"),
        *("idlelib", "lib2to3", "encodings", "distutils", "ensurepip", "pydoc_data"),
        *("tkinter", "turtledemo"),
    )
)


def stdlib_files() -> Iterator[tuple[str, Path]]:
    """Module name and path of the public source files of Python's standard library, in order."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if any(part in _SKIPPED or "-" in part for part in parts):
            continue
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            yield ".".join(parts), path


def stdlib_sentences(count: int) -> list[Sentence]:
    """`count` sentences, spread evenly over the docstrings of the standard library.

    The sources are parsed, never imported. Raises ValueError if there are fewer sentences.
    """
    found: dict[str, Sentence] = {}
    for module, path in stdlib_files():
        for name, docstring in _docstrings(module, ast.parse(path.read_bytes())):
            text = " ".join(docstring.split("\n\n")[0].split()).split(". ")[0].rstrip(".") + "."
            words = text.split()
            if 5 <= len(words) <= 40 and text[0].isupper() and not set(text) & set("()[]{}<>=|`"):
                found.setdefault(text, Sentence(name, text))
    sentences = list(found.values())
    if not 0 < count <= len(sentences):
        raise ValueError(f"asked for {count} sentences; the library has {len(sentences)}")
    return [sentences[i * len(sentences) // count] for i in range(count)]


def _docstrings(name: str, node: ast.AST) -> Iterator[tuple[str, str]]:
    docstring = ast.get_docstring(node)  # type: ignore[arg-type]
    if docstring:
        yield name, docstring
    for child in node.body:  # type: ignore[attr-defined]
        documented = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and not child.name.startswith("_"):
            yield from _docstrings(f"{name}.{child.name}", child)


def stdlib_bytes(limit: int) -> bytes:
    """The first `limit` bytes of the standard library's source, in a fixed order."""
    parts: list[bytes] = []
    size = 0
    for _, path in stdlib_files():
        parts.append(path.read_bytes())
        size += len(parts[-1])
        if size >= limit:
            break
    return b"\n".join(parts)[:limit]
