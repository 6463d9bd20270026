"""Training a byte-level GPT: agreement with the CPU, and exact continuation."""

import pytest
import torch

SMALL = ["--layers", "2", "--width", "32", "--heads", "2", "--context", "32", "--batch-size", "4"]
SMALL += ["--bytes", "100000", "--log-every", "2", "--warmup", "2"]


@pytest.fixture
def train_gpt(example):
    return example("train_gpt")


@pytest.mark.slow
@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("mode", [[], ["--compile"]], ids=["eager", "compiled"])
def test_losses_of_fifty_steps_are_those_of_the_cpu(train_gpt, device, mode, capsys):
    arguments = [*SMALL, *mode, "--device", device, "--steps", "50", "--compare-cpu"]
    assert train_gpt.main(arguments) == 0
    assert "ok: loss" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("fused", [[], ["--fused"]], ids=["foreach", "fused"])
def test_a_resumed_run_continues_with_the_same_bits(train_gpt, device, fused, tmp_path):
    # Dropout makes the comparison depend on the state of the device's random generator too.
    shared = [*SMALL, *fused, "--device", device, "--steps", "8", "--dropout", "0.2"]
    parse = train_gpt.argument_parser().parse_args
    whole, _ = train_gpt.run(parse(shared))

    file = tmp_path / "checkpoint.pt"
    train_gpt.run(parse([*shared, "--checkpoint", str(file), "--stop-after", "4"]))
    torch.manual_seed(1234)
    resumed, _ = train_gpt.run(parse([*shared, "--resume", str(file)]))

    assert resumed.losses == whole.losses
    for mine, theirs in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_checkpoint_of_another_run_is_refused_with_the_options_it_needs(train_gpt, tmp_path):
    file = tmp_path / "checkpoint.pt"
    shared = [*SMALL, "--device", "cpu", "--steps", "4"]
    assert train_gpt.main([*shared, "--lr", "0.01", "--checkpoint", str(file)]) == 0
    with pytest.raises(SystemExit, match=r"--lr 0\.01"):
        train_gpt.main([*shared, "--lr", "0.02", "--resume", str(file)])


def test_the_rate_warms_up_and_falls_to_a_tenth(train_gpt):
    rates = [train_gpt.learning_rate(step, 10, 50) for step in range(51)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[50] == pytest.approx(0.1)


@pytest.mark.usefixtures("no_fallback")
def test_sampling_continues_the_prompt(train_gpt, device):
    arguments = [*SMALL, "--device", device, "--steps", "2"]
    trainer, _ = train_gpt.run(train_gpt.argument_parser().parse_args(arguments))
    text = trainer.sample(b"import ", 40)
    assert text.startswith(b"import ")
    assert len(text) == 47


def test_comparing_with_dropout_is_refused(train_gpt, capsys):
    with pytest.raises(SystemExit):
        train_gpt.main(["--device", "cpu", "--compare-cpu", "--dropout", "0.1"])
    assert "--dropout 0" in capsys.readouterr().err
