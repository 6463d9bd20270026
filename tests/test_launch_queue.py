"""Launches wait in a queue while Python goes on: order, errors and memory are those of eager."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
import torch


def _step(state: list[torch.Tensor], shared: torch.Tensor, generator: torch.Generator) -> None:
    def number(high: int) -> int:
        return int(torch.randint(high, (), generator=generator))

    a, b = number(len(state)), number(len(state))
    x, y = state[a], state[b]
    cut = number(5)
    actions: list[Callable[[], object]] = [
        lambda: x.add_(y),
        lambda: x.mul_(3).remainder_(1009),
        lambda: x[cut].copy_(y[cut]),
        lambda: x[:, cut].add_(y[cut]),
        lambda: x.t().sub_(shared),
        lambda: x[cut : cut + 2].fill_(number(7)),
        lambda: x.copy_(x.t().clone()),
        lambda: x.index_put_(
            (torch.tensor([cut, cut], device=x.device),), y[0].clone(), accumulate=True
        ),
        lambda: state.__setitem__(a, (x + y.flip(0)).remainder(997)),
        lambda: state.__setitem__(a, torch.where(x > shared, x, y)),
        lambda: state.__setitem__(a, x.cumsum(0).remainder(1013)),
        lambda: state.__setitem__(a, y),  # two names for one tensor
        lambda: x.view(-1)[:: cut + 1].mul_(2).remainder_(991),
        lambda: x.add_(x[cut].clone().max()),
    ]
    actions[number(len(actions))]()


def run(seed: int, device: str, steps: int, keep: list[torch.Tensor]) -> None:
    """A random program of reads and writes; `keep` receives what its host reads see."""
    generator = torch.Generator().manual_seed(seed)
    state = [torch.arange(36).view(6, 6).add(i).to(device) for i in range(4)]
    shared = torch.full((6, 6), 40).to(device)
    for step in range(steps):
        _step(state, shared, generator)
        if step % 17 == 0:
            keep.append(state[step % 4].cpu().clone())
        if step % 29 == 0:
            keep.append(torch.tensor(int(state[step % 4].sum())))
    keep.extend(x.cpu().clone() for x in state)


def stress(threads: int, steps: int, seed: int) -> None:
    """The programs of several threads against the same on the CPU."""
    results: list[list[torch.Tensor]] = [[] for _ in range(threads)]
    failures: list[BaseException] = []

    def work(i: int) -> None:
        try:
            run(seed + i, "tpu", steps, results[i])
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    if failures:
        raise failures[0]
    for i, result in enumerate(results):
        expected: list[torch.Tensor] = []
        run(seed + i, "cpu", steps, expected)
        assert len(result) == len(expected)
        for step, (ours, cpu) in enumerate(zip(result, expected, strict=True)):
            assert torch.equal(ours, cpu), f"thread {i}, read {step}: {ours} is not {cpu}"


def _child(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    folder = os.path.dirname(__file__)
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {folder!r})\n{code}"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_random_programs_of_several_threads_give_the_values_of_the_cpu() -> None:
    stress(threads=3, steps=300, seed=0)


@pytest.mark.parametrize("delay", ["5", "60"])
def test_random_programs_keep_their_order_whatever_the_compiler_takes(delay: str) -> None:
    code = "import test_launch_queue as t; t.stress(threads=3, steps=150, seed=100); print('same')"
    child = _child(code, TORCH_TPU_TEST_COMPILE_DELAY=delay)
    assert "same" in child.stdout, child.stderr[-2000:]


def test_a_call_returns_before_its_program_is_compiled() -> None:
    code = """
import time, torch
x = torch.ones(7, device="tpu")
start = time.perf_counter()
for i in range(1, 9):
    x = x.reshape(7, 1)[:, 0].add(i) if i % 2 else x.mul(i).sub(torch.ones(7, device="tpu"))
issued = time.perf_counter() - start
x.cpu()
print("early" if issued < (time.perf_counter() - start) / 2 else "late")
"""
    child = _child(code, TORCH_TPU_TEST_COMPILE_DELAY="2000")
    assert "early" in child.stdout, child.stdout + child.stderr[-2000:]


def test_an_error_that_comes_late_names_its_call_and_spares_the_rest() -> None:
    code = """
import torch
x = torch.ones(3, 5, device="tpu")
good = x + 1
bad = torch.erfinv(x)  # made to fail
worse = bad * 2
for value in (bad, worse):
    try:
        value.cpu()
        print("no error")
    except RuntimeError as error:
        print(str(error).count("aten::erfinv(float32[3, 5])") >= 1, "made to fail" in str(error))
try:
    bad + 1
except RuntimeError as error:
    print("at a call", "made to fail" in str(error))
torch.accelerator.synchronize()
print(good.sum().item(), x.sum().item())
bad.copy_(good)  # a new value takes the place of the failed one
print(bad.sum().item())
"""
    child = _child(code, TORCH_TPU_TEST_FAIL_COMPILE="aten::erfinv")
    assert child.stdout.split("\n") == [
        "True True",
        "True True",
        "at a call True",
        "30.0 15.0",
        "30.0",
        "",
    ], child.stdout + child.stderr[-2000:]


def test_launch_blocking_raises_at_the_call_and_names_its_line() -> None:
    code = """
import torch
x = torch.ones(3, device="tpu")
try:
    torch.erfinv(x)
    print("late")
except RuntimeError as error:
    print("at once", "<string>:6 in <module>: aten::erfinv(float32[3])" in str(error))
"""
    child = _child(code, TORCH_TPU_TEST_FAIL_COMPILE="aten::erfinv", TORCH_TPU_LAUNCH_BLOCKING="1")
    assert "at once True" in child.stdout, child.stdout + child.stderr[-2000:]


def test_more_launches_than_the_queue_holds_run_all() -> None:
    x = torch.ones(64, 64, device="tpu")
    for _ in range(10_000):
        x = x @ x * 0.01
    assert x.shape == (64, 64)
    assert bool(torch.isfinite(x.cpu()).all())


def test_waiting_launches_do_not_hold_more_memory_than_their_order_needs() -> None:
    torch.accelerator.synchronize()
    x = torch.zeros(1 << 18, device="tpu")
    torch.accelerator.synchronize()
    torch.accelerator.reset_peak_memory_stats()
    start = torch.accelerator.memory_allocated()
    for _ in range(200):
        x = x + 1
    assert float(x[0]) == 200
    assert torch.accelerator.max_memory_allocated() - start <= 3 << 20


def test_the_process_ends_with_work_in_the_queue() -> None:
    code = """
import torch
x = torch.ones(512, 512, device="tpu")
for i in range(300):
    x = x @ x
y = torch.erfinv(x) + torch.special.bessel_j0(x)
print("end")
"""
    start = time.perf_counter()
    child = _child(code)
    assert child.returncode == 0, child.stderr[-2000:]
    assert "end" in child.stdout
    assert time.perf_counter() - start < 120
