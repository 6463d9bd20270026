"""Generation with every model family and both caches."""

import pytest

FAMILIES = ["llama", "qwen3", "mixtral", "gemma"]


@pytest.mark.slow
@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_tokens_are_those_of_the_cpu_with_both_caches(example, device, family, capsys):
    assert example("generate").main(["--device", device, "--models", family, "--tokens", "8"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("yes") == 4
    assert "static" in printed
    assert "dynamic" in printed


@pytest.mark.slow
@pytest.mark.usefixtures("no_fallback")
def test_the_static_cache_generates_compiled(example, device):
    arguments = ["--device", device, "--models", "llama", "--tokens", "6", "--compile"]
    assert example("generate").main(arguments) == 0


def test_prompts_are_padded_on_the_left_and_differ_in_length(example):
    generate = example("generate")
    tokens, mask = generate.make_prompts(3, 12, seed=0)
    assert (tokens[mask == 0] == generate.PAD).all()
    assert (tokens[mask == 1] > generate.END).all()
    assert mask[:, -1].all()
    assert len(set(mask.sum(1).tolist())) == 3


def test_more_tokens_than_positions_are_refused(example, capsys):
    with pytest.raises(SystemExit):
        example("generate").main(["--device", "cpu", "--tokens", "250", "--prompt", "12"])
    assert "256 tokens in all" in capsys.readouterr().err
