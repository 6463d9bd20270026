"""Runs PyTorch's operator database (OpInfo) on the device and compares with the CPU.

    python tools/opinfo_sweep.py --out sweep.jsonl [--dtypes float32,int64] [--grad] [--filter RE]

One JSON line per operator and dtype. A second run with the same file goes on where the first one
ended. Operators run in a worker process, so that a crash or a hang costs one line, not the sweep.
The exit code is 1 when any result was wrong, crashed or hung.

    pass         every sample that the CPU accepts agrees
    wrong        a value, shape, dtype or device differs
    unsupported  NotImplementedError
    error        any other exception
    crash, hang  the worker died, or took longer than --timeout
    skip         the CPU accepts no sample
"""

import argparse
import collections
import json
import re
import selectors
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

SEVERITY = ["skip", "pass", "unsupported", "error", "wrong", "hang", "crash"]
# These operators take a tensor that PyTorch wants on the CPU.
CPU_ARGUMENTS = {"tensor_split"}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--grad", action="store_true", help="compare gradients too")
    parser.add_argument("--filter", default="", help="regular expression over operator names")
    parser.add_argument("--samples", type=int, default=4, help="samples per operator and dtype")
    parser.add_argument("--timeout", type=float, default=60, help="seconds per operator and dtype")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


# The worker: reads one key per line from stdin, answers one JSON object per line.


def operators() -> dict[str, Any]:
    """The database by unique name: an operator listed twice gets a number."""
    from torch.testing._internal import common_methods_invocations as database

    seen: collections.Counter[str] = collections.Counter()
    # OpInfo seeds inside random operators, which would hide that they are random.
    database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    table = {}
    for op in database.op_db:
        seen[op.formatted_name] += 1
        count = seen[op.formatted_name]
        table[op.formatted_name if count == 1 else f"{op.formatted_name}#{count}"] = op
    return table


def spread(items: list[Any], count: int) -> list[Any]:
    """At most `count` of `items`, evenly spaced, the first always among them."""
    if len(items) <= count:
        return items
    return [items[index * len(items) // count] for index in range(count)]


class Sample:
    """One call of an operator, made afresh on a device from values that live on the CPU."""

    def __init__(self, op: Any, sample: Any, grad: bool) -> None:
        self._op = op
        self._sample = sample
        self._grad = grad
        self._keep_on_cpu = op.name in CPU_ARGUMENTS

    def run(self, device: str, seed: int) -> list[Any]:
        """The flat outputs, then the gradients of the inputs that have one, all on the CPU."""
        import torch
        from torch.utils import _pytree as pytree

        inputs = []

        def place(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            # CPU inputs are copied as well: the operator may write to them.
            copy = value.detach().clone().to(device)
            if self._grad and value.requires_grad:
                inputs.append(copy.requires_grad_())
            return copy

        place_arguments = (lambda value: value) if self._keep_on_cpu else place
        first = pytree.tree_map(place, self._sample.input)
        args = pytree.tree_map(place_arguments, self._sample.args)
        kwargs = {
            name: torch.device(device)
            if isinstance(value, torch.device)
            else pytree.tree_map(place_arguments, value)
            for name, value in self._sample.kwargs.items()
        }
        if "device" in kwargs:
            kwargs["device"] = device
        torch.manual_seed(seed)
        result = self._op.op(first, *args, **kwargs)
        if self._sample.output_process_fn_grad is not None and self._grad:
            result = self._sample.output_process_fn_grad(result)
        flat = pytree.tree_leaves(result)
        for value in flat:
            if isinstance(value, torch.Tensor) and value.device.type != torch.device(device).type:
                raise AssertionError(f"the result is on {value.device}")
        if inputs:
            flat += self._gradients(flat, inputs)
        return [
            value.detach().cpu() if isinstance(value, torch.Tensor) else value for value in flat
        ]

    @staticmethod
    def _gradients(outputs: list[Any], inputs: list[Any]) -> list[Any]:
        import torch

        roots = [out for out in outputs if isinstance(out, torch.Tensor) and out.requires_grad]
        generator = torch.Generator().manual_seed(1)
        # Cotangents come from the CPU, so that both devices get the same ones.
        cotangents = [
            torch.randn(out.shape, generator=generator, dtype=out.dtype).to(out.device)
            for out in roots
        ]
        if not roots:
            return []
        return list(torch.autograd.grad(roots, inputs, cotangents, allow_unused=True))


def tolerance(want: Any) -> dict[str, float]:
    """float32 results of two correct orders of summation differ by more than the default allows."""
    import torch

    if isinstance(want, torch.Tensor) and want.dtype in (torch.float32, torch.complex64):
        return {"rtol": 1e-3, "atol": 1e-3}
    return {}


def compare(expected: list[Any], actual: list[Any], values: bool) -> None:
    """Raises AssertionError where the two results differ; without `values`, in metadata only."""
    import torch

    if len(expected) != len(actual):
        raise AssertionError(f"{len(actual)} results instead of {len(expected)}")
    for want, got in zip(expected, actual, strict=True):
        if not isinstance(want, torch.Tensor | bool | int | float | complex):
            if type(want) is not type(got):
                raise AssertionError(f"{got!r} instead of {want!r}")
        elif values:
            torch.testing.assert_close(got, want, equal_nan=True, **tolerance(want))
        elif isinstance(want, torch.Tensor) and (want.shape, want.dtype) != (got.shape, got.dtype):
            raise AssertionError(
                f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
            )


def judge(attempt: Callable[[], None]) -> tuple[str, str]:
    """The status of one comparison, and the first line of what went wrong."""
    try:
        attempt()
    except NotImplementedError as error:
        return "unsupported", str(error).split("\n")[0]
    except AssertionError as error:
        return "wrong", " ".join(str(error).split())[:300]
    except Exception as error:
        return "error", f"{type(error).__name__}: {str(error).split(chr(10))[0]}"[:300]
    return "pass", ""


def run_key(op: Any, dtype: Any, args: argparse.Namespace) -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    samples = spread(list(op.sample_inputs("cpu", dtype, requires_grad=args.grad)), args.samples)
    worst, message, compared = "skip", "", 0
    for sample in samples:
        call = Sample(op, sample, args.grad)
        try:
            expected = call.run("cpu", seed=1)
            again = call.run("cpu", seed=2)
        except Exception:
            continue
        # A result that depends on the seed, or on memory nobody wrote, has no right values.
        values = judge(partial(compare, expected, again, True))[0] == "pass"
        compared += 1

        def attempt(want: list[Any] = expected, call: Sample = call, values: bool = values) -> None:
            compare(want, call.run(args.device, seed=1), values)

        status, reason = judge(attempt)
        if SEVERITY.index(status) > SEVERITY.index(worst):
            worst, message = status, reason
    return {"status": worst, "samples": compared, "message": message}


def keys_of(args: argparse.Namespace) -> Iterator[tuple[str, Any, Any]]:
    import torch

    for name, op in operators().items():
        if not re.search(args.filter, name):
            continue
        for dtype_name in args.dtypes.split(","):
            dtype = getattr(torch, dtype_name)
            supported = op.supported_dtypes("cpu")
            if args.grad:
                supported = supported & op.supported_backward_dtypes("cpu")
                if not op.supports_autograd:
                    continue
            if dtype in supported:
                yield f"{name} {dtype_name}{' grad' if args.grad else ''}", op, dtype


def work(args: argparse.Namespace) -> int:
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("highest")
    table = {key: (op, dtype) for key, op, dtype in keys_of(args)}
    print(json.dumps(list(table)), flush=True)
    for line in sys.stdin:
        op, dtype = table[line.rstrip("\n")]
        print(json.dumps(run_key(op, dtype, args)), flush=True)
    return 0


# The parent: hands out keys, replaces workers that die.


class Worker:
    """A worker process and its list of keys."""

    def __init__(self, log: Path) -> None:
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, __file__, *sys.argv[1:], "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self._stdout = self._process.stdout
        first = self._stdout.readline()
        if not first:
            raise SystemExit(f"the worker did not start: see {log}")
        self.keys: list[str] = json.loads(first)

    def run(self, key: str, timeout: float) -> dict[str, Any]:
        """The result of one key; after a crash or a hang the worker is of no more use."""
        try:
            self._stdin.write(key + "\n")
            self._stdin.flush()
        except BrokenPipeError:
            return {"status": "crash", "message": f"exit code {self._process.wait()}"}
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            if not selector.select(timeout):
                self.stop()
                return {"status": "hang", "message": f"no answer in {timeout:g} s"}
        line = self._stdout.readline()
        if not line:
            return {"status": "crash", "message": f"exit code {self._process.wait()}"}
        return json.loads(line)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def summarise(results: dict[str, dict[str, Any]]) -> int:
    counts = collections.Counter(result["status"] for result in results.values())
    judged = len(results) - counts["skip"]
    for status in reversed(SEVERITY[2:]):
        for key, result in results.items():
            if result["status"] == status:
                print(f"{status:12} {key:48} {result['message'][:120]}")
    share = 100 * counts["pass"] / judged if judged else 0
    print(", ".join(f"{status} {counts[status]}" for status in SEVERITY), f"({share:.1f} % pass)")
    return 1 if counts["wrong"] or counts["hang"] or counts["crash"] else 0


def main() -> int:
    args = parse_arguments()
    if args.worker:
        return work(args)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, Any]] = {}
    if args.out.exists():
        for line in args.out.read_text().splitlines():
            result = json.loads(line)
            results[result["key"]] = result
    log = args.out.with_suffix(".stderr")
    worker = Worker(log)
    keys = worker.keys
    with args.out.open("a", buffering=1) as out:
        for number, key in enumerate(keys, 1):
            if key in results:
                continue
            result = {"key": key, **worker.run(key, args.timeout)}
            results[key] = result
            out.write(json.dumps(result) + "\n")
            if sys.stderr.isatty():
                print(f"\r{number}/{len(keys)} {key:60}", end="", file=sys.stderr)
            if result["status"] in {"hang", "crash"}:
                worker = Worker(log)
    worker.stop()
    return summarise({key: results[key] for key in keys})


if __name__ == "__main__":
    sys.exit(main())
