"""Training on real digits: both models reach the accuracy they promise."""

import pytest
import torch


@pytest.mark.slow
@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("model", ["cnn", "vit"])
def test_a_model_reaches_the_accuracy(example, device, model, capsys):
    assert example("digits").main(["--device", device, "--model", model]) == 0
    assert "ok: test accuracy" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("no_fallback")
def test_the_cnn_trains_compiled_and_with_loader_processes(example, device):
    arguments = ["--device", device, "--model", "cnn", "--compile", "--workers", "1"]
    assert example("digits").main(arguments) == 0


def test_too_low_an_accuracy_is_a_failure(example, monkeypatch):
    digits = example("digits")
    monkeypatch.setattr(digits, "MINIMUM_ACCURACY", 1.01)
    assert digits.main(["--device", "cpu", "--model", "cnn", "--epochs", "1"]) == 1


def test_models_map_images_to_logits(example):
    digits = example("digits")
    for make in digits.MODELS.values():
        assert make()(torch.zeros(5, 1, 8, 8)).shape == (5, 10)
