"""torch.autocast("tpu"): bfloat16 in every thread, CUDA's lists."""

import threading

import pytest
import torch

import torch_tpu  # noqa: F401


def kernels(key: str) -> set[str]:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return {n for n in torch._C._dispatch_get_all_op_names() if has(n, key)}


def test_the_operator_lists_are_those_of_cuda():
    cuda = {name for name in kernels("AutocastCUDA") if "cudnn" not in name}
    assert kernels("AutocastPrivateUse1") == cuda


def test_plain_autocast_means_bfloat16_in_every_thread():
    seen = []

    def look():
        with torch.autocast("tpu"):
            seen.append(torch.get_autocast_dtype("tpu"))

    look()
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [torch.bfloat16, torch.bfloat16]


def test_other_devices_keep_their_default():
    assert torch.get_autocast_dtype("cuda") == torch.float16
    assert torch.get_autocast_dtype("cpu") == torch.bfloat16


def test_matmul_runs_in_bfloat16_and_exp_in_float32():
    x = torch.randn(4, 4, device="tpu")
    with torch.autocast("tpu"):
        y = x @ x
        assert y.dtype == torch.bfloat16
        assert y.exp().dtype == torch.float32
        assert y.sum().dtype == torch.float32
        assert (x + x).dtype == torch.float32
        with torch.autocast("tpu", enabled=False):
            assert (x @ x).dtype == torch.float32
    with torch.autocast("tpu", dtype=torch.float16):
        assert torch.nn.functional.linear(x, x).dtype == torch.float16


def test_widest_type_is_taken_where_operands_are_mixed():
    a = torch.randn(4, device="tpu", dtype=torch.bfloat16)
    b = torch.randn(4, device="tpu")
    with torch.autocast("tpu"):
        assert torch.atan2(a, b).dtype == torch.float32


def test_binary_cross_entropy_is_banned():
    p = torch.rand(3, device="tpu")
    with torch.autocast("tpu"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(p, p)


def test_training_with_the_gradient_scaler():
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("tpu", init_scale=16.0)
    x = torch.randn(4, 8, device="tpu")
    before = model.weight.detach().clone()
    with torch.autocast("tpu", dtype=torch.float16):
        loss = model(x).float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(before, model.weight)
    assert scaler.get_scale() == 16.0


def test_the_gradient_scaler_skips_a_step_with_infinite_gradients():
    w = torch.ones(2, device="tpu", requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    scaler = torch.tpu.amp.GradScaler(init_scale=16.0)
    scaler.scale((w * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [1, 1]
    assert scaler.get_scale() == 8.0


def test_cuda_style_names():
    with torch.tpu.amp.autocast():
        assert torch.is_autocast_enabled("tpu")
        assert torch.tpu.is_autocast_enabled()
    assert torch.bfloat16 in torch.tpu.get_amp_supported_dtype()
