"""The device itself: what there is, which is current, and the Python it is used through."""

import os
import subprocess
import sys
import threading

import pytest
import torch

import torch_tpu  # noqa: F401


def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "import torch, torch_tpu\n" + code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
    )


def check(code: str, **env: str) -> str:
    result = run(code, **env)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_device_module_is_found_by_every_way():
    assert torch.get_device_module("tpu") is torch.tpu
    assert torch.get_device_module() is torch.tpu
    assert torch.accelerator.current_accelerator() == torch.device("tpu")
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == torch.tpu.device_count() == 1


def test_properties_say_plainly_what_the_device_is():
    properties = torch.tpu.get_device_properties()
    assert properties.platform == "cpu"
    assert properties.plugin.endswith(".so")
    assert properties.api_version > (0, 0)
    assert properties.total_memory > 0
    assert properties.multi_processor_count == 1
    assert torch.tpu.get_device_name() == properties.name
    assert torch.tpu.get_device_properties("tpu:0") is properties


def test_capability_lists_the_dtypes_that_work():
    dtypes = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64} <= dtypes
    assert torch.quint8 not in dtypes


def test_wrong_devices_are_refused():
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.tpu.set_device(99)
    with pytest.raises(RuntimeError):
        torch.ones(1, device="tpu:99")
    with pytest.raises(ValueError, match="tpu device"):
        torch.tpu.set_device("cpu")
    assert torch.tpu.current_device() == 0


def test_tensor_and_module_methods():
    t = torch.ones(2).tpu()
    assert t.is_tpu
    assert t.device == torch.device("tpu", 0)
    assert not t.cpu().is_tpu
    module = torch.nn.Linear(2, 2).tpu()
    assert module.weight.is_tpu
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(2)]).tpu()
    assert packed.is_tpu


def test_construction_printing_and_reading_back():
    t = torch.tensor([[1.5, 2.0]], device="tpu")
    assert t.tolist() == [[1.5, 2.0]]
    assert t.sum().item() == 3.5
    assert "device='tpu:0'" in repr(t)
    with pytest.raises(TypeError, match="can't convert tpu:0 device type tensor to numpy"):
        t.numpy()


def test_default_device():
    with torch.device("tpu"):
        assert torch.ones(2).is_tpu
    torch.set_default_device("tpu")
    try:
        assert torch.arange(3).is_tpu
    finally:
        torch.set_default_device(None)


def test_moving_a_module_keeps_identity_tying_and_optimizer():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    model[1].weight = model[0].weight
    weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model.to("tpu")
    assert model[0].weight is weight
    assert model[1].weight is weight
    assert weight.is_tpu
    before = weight.detach().clone()
    model(torch.ones(1, 4, device="tpu")).sum().backward()
    optimizer.step()
    assert not torch.equal(weight.detach(), before)


def test_cuda_style_contexts():
    with torch.tpu.device(0):
        assert torch.tpu.current_device() == 0
    with torch.tpu.device(None), torch.tpu.device_of(torch.ones(1)):
        pass
    with torch.tpu.device_of(torch.ones(1, device="tpu")):
        pass
    with torch.accelerator.device_index(0):
        pass
    torch.tpu.synchronize()
    torch.accelerator.synchronize()
    torch.tpu.init()
    assert torch.tpu._initialized
    assert torch.tpu.is_initialized()
    assert not torch.tpu._is_in_bad_fork()


def test_threads_have_their_own_current_device_and_share_the_client():
    results = []

    def work(i):
        x = torch.full((100,), float(i), device="tpu")
        results.append((x * 2).sum().item() == 200.0 * i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 8


def test_many_devices_with_peer_copies():
    check(
        """
assert torch.tpu.device_count() == 4
x = torch.arange(6.0, device="tpu:1").view(2, 3)
y = x.to("tpu:3")
assert y.device.index == 3 and y.tolist() == x.tolist()
with torch.tpu.device(2):
    assert torch.ones(1, device="tpu").device.index == 2
    assert torch.tpu.current_stream().device.index == 2
assert torch.tpu.current_device() == 0
torch.tpu.set_device("tpu:1")
assert torch.ones(1, device="tpu").device.index == 1
try:
    x + torch.ones(2, 3, device="tpu:0")
except RuntimeError as e:
    assert "device" in str(e)
else:
    raise AssertionError
x.requires_grad_()
(x.to("tpu:2") * 2).sum().backward()
assert x.grad.device.index == 1 and x.grad.tolist() == [[2.0] * 3] * 2
assert torch.randn(2, device="tpu:3", generator=torch.Generator("tpu:3")).shape == (2,)
assert len(torch.tpu.default_generators) == 4
assert torch.tpu.get_device_properties(3).platform == "cpu"
""",
        TORCH_TPU_CPU_DEVICES="4",
    )


def test_use_after_fork_is_refused_clearly_and_cpu_work_goes_on():
    check(
        """
import os
x = torch.ones(1, device="tpu")
(x + 1).sum().item()
pid = os.fork()
if pid == 0:
    code = 1
    try:
        assert torch.ones(2).sum().item() == 2
        torch.manual_seed(0)
        assert torch.tpu._is_in_bad_fork()
        for use in (lambda: torch.ones(1, device="tpu"), lambda: x + 1):
            try:
                use()
            except RuntimeError as e:
                assert "forked subprocess" in str(e) and "spawn" in str(e), e
            else:
                raise AssertionError(use)
        del x
        code = 0
    finally:
        os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert torch.ones(3, device="tpu").sum().item() == 3
"""
    )


class _Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.tensor(float(i * i))


@pytest.mark.parametrize("pin_memory", [False, True])
def test_data_loader_workers_with_the_client_started_in_the_parent(pin_memory):
    torch.ones(1, device="tpu").sum().item()
    loader = torch.utils.data.DataLoader(
        _Squares(), batch_size=4, num_workers=2, pin_memory=pin_memory
    )
    batches = list(loader)
    assert all(b.is_pinned() == pin_memory for b in batches)
    total = sum(b.to("tpu", non_blocking=True).sum().item() for b in batches)
    assert total == sum(i * i for i in range(8))


def test_eager_modes():
    mode = torch.tpu.EagerMode
    assert torch.tpu.eager_mode is mode.DEFER_NEVER
    with torch.tpu.set_eager_mode(mode.DEFER_NEVER_AND_LAUNCH_BLOCKING):
        assert torch.tpu.eager_mode is mode.DEFER_NEVER_AND_LAUNCH_BLOCKING
        assert torch.ones(2, device="tpu").sum().item() == 2
    assert torch.tpu.eager_mode is mode.DEFER_NEVER
    with pytest.raises(NotImplementedError, match="DEFER_AND_FUSE"):
        torch.tpu.eager_mode = mode.DEFER_AND_FUSE
    with pytest.raises(TypeError):
        torch.tpu.eager_mode = "fast"


def test_precision_settings_are_nested_and_restored():
    from torch_tpu import _C

    before = _C._get_float32_matmul_precision()
    with torch.tpu.precision("high"):
        assert _C._get_float32_matmul_precision() == 1
        with torch.tpu.precision(torch.tpu.Precision.HIGHEST):
            assert _C._get_float32_matmul_precision() == 2
    assert _C._get_float32_matmul_precision() == before
    chosen = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert _C._get_float32_matmul_precision() == 0
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(chosen)
        _C._set_float32_matmul_precision(before)


def test_excess_precision_is_off_and_can_be_allowed():
    assert torch.tpu.allow_excess_precision is False
    torch.tpu.allow_excess_precision = True
    assert torch.tpu.allow_excess_precision is True
    torch.tpu.allow_excess_precision = False


def test_a_bad_environment_variable_is_reported_at_first_use():
    code = """
try:
    torch.ones(1, device="tpu")
except ValueError as error:
    assert "TORCH_TPU_FALLBACK" in str(error)
else:
    raise AssertionError
"""
    check(code, TORCH_TPU_FALLBACK="nonsense")


def test_deferred_mode_asked_for_by_the_environment_is_refused_at_first_use():
    code = """
try:
    torch.ones(1, device="tpu")
except NotImplementedError as error:
    assert "TORCH_TPU_DEFER_AND_FUSE" in str(error)
else:
    raise AssertionError
"""
    check(code, TORCH_TPU_DEFER_AND_FUSE="1")


def test_device_queries_and_autocast_are_traced_by_dynamo_without_a_graph_break():
    @torch.compile(backend="eager", fullgraph=True)
    def f(x):
        if x.is_tpu and torch.tpu.is_available():
            x = x + torch.tpu.device_count()
        with torch.autocast("tpu"):
            x = x @ x
        return x.to(torch.get_autocast_dtype("tpu"))

    assert f(torch.ones(2, 2, device="tpu")).dtype == torch.bfloat16
