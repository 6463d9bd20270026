"""Saving, loading, copying and exporting tensors of the device."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch

import torch_tpu  # noqa: F401


def saved(obj) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("location", [None, "cpu", "tpu", "tpu:0", torch.device("tpu")])
def test_save_and_load(location):
    x = torch.arange(6.0, device="tpu").view(2, 3)
    y = torch.load(saved({"x": x, "t": x.t()}), map_location=location)
    assert y["x"].device.type == ("cpu" if location == "cpu" else "tpu")
    assert torch.equal(y["x"].cpu(), x.cpu())
    assert torch.equal(y["t"].cpu(), x.t().cpu())
    y["x"][0, 0] = 9  # storage sharing survives
    assert y["t"][0, 0].item() == 9


def test_load_of_cpu_tensors_to_the_device():
    x = torch.load(saved(torch.ones(3)), map_location="tpu")
    assert x.is_tpu
    assert x.sum().item() == 3


def test_state_dict_round_trip():
    model = torch.nn.Linear(3, 3).to("tpu")
    other = torch.nn.Linear(3, 3).to("tpu")
    other.load_state_dict(torch.load(saved(model.state_dict())))
    assert torch.equal(model.weight.cpu(), other.weight.cpu())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_pickle(dtype):
    x = torch.tensor([0, 1, 2], device="tpu").to(dtype)
    y = pickle.loads(pickle.dumps(x))
    assert y.is_tpu
    assert torch.equal(x.cpu(), y.cpu())


def test_deepcopy_is_independent_and_keeps_sharing():
    x = torch.zeros(4, device="tpu")
    a, b = copy.deepcopy([x, x[:2]])
    a.fill_(1)
    assert b.tolist() == [1, 1]
    assert x.tolist() == [0] * 4
    p = copy.deepcopy(torch.nn.Parameter(x))
    assert isinstance(p, torch.nn.Parameter)
    assert p.is_tpu


def test_generators_and_devices_pickle():
    g = torch.Generator("tpu").manual_seed(3)
    torch.rand(4, device="tpu", generator=g)
    h = pickle.loads(pickle.dumps(g))
    assert torch.equal(g.get_state(), h.get_state())
    assert pickle.loads(pickle.dumps(torch.device("tpu", 0))) == torch.device("tpu:0")


def test_safetensors_to_the_device(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    x = torch.arange(6.0, device="tpu").view(2, 3)
    path = tmp_path / "x.safetensors"
    safetensors.save_file({"x": x}, path)
    y = safetensors.load_file(path, device="tpu")["x"]
    assert y.is_tpu
    assert torch.equal(x.cpu(), y.cpu())


def test_dlpack_exports_to_numpy_and_the_cpu():
    x = torch.arange(6.0, device="tpu").view(2, 3)
    assert np.array_equal(np.from_dlpack(x), x.cpu().numpy())
    y = torch.from_dlpack(x)
    assert y.device.type == "cpu"
    y.fill_(0)
    assert x.sum().item() == 15
    assert torch.from_dlpack(np.ones(3, dtype=np.float32)).to("tpu").sum().item() == 3
    with pytest.raises(BufferError):
        torch.from_dlpack(x.requires_grad_())


def test_storage_methods():
    storage = torch.arange(4.0).untyped_storage().tpu()
    assert storage.is_tpu
    assert storage.nbytes() == 16
    x = torch.empty(0, device="tpu").set_(storage, 0, (4,))
    assert x.tolist() == [0, 1, 2, 3]
    assert storage.cpu().tolist() == storage.tolist()
    with pytest.raises(NotImplementedError, match="slice a tensor"):
        storage[4:8]
