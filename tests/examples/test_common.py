"""The corpus and the tables that the examples share."""

import subprocess
import sys

import pytest


@pytest.fixture
def common(example):
    return example("_common")


def test_sentences_are_distinct_and_the_same_every_time(common):
    sentences = common.stdlib_sentences(300)
    assert len({sentence.text for sentence in sentences}) == 300
    assert sentences == common.stdlib_sentences(300)
    assert all(sentence.text.endswith(".") and sentence.name for sentence in sentences)


def test_asking_for_more_sentences_than_there_are_is_an_error(common):
    with pytest.raises(ValueError, match="the library has"):
        common.stdlib_sentences(10**6)


def test_source_bytes_are_cut_at_the_limit(common):
    assert len(common.stdlib_bytes(10_000)) == 10_000
    assert common.stdlib_bytes(20_000)[:10_000] == common.stdlib_bytes(10_000)


def test_a_table_shows_cells_that_look_like_markup(common, capsys):
    common.print_table("title", ["name", "number"], [["[bold]", "1.5"]])
    printed = capsys.readouterr().out
    assert "[bold]" in printed
    assert "1.5" in printed


@pytest.mark.parametrize("name", ["demo", "digits", "generate", "train_gpt"])
def test_help_of_an_example_names_the_device_option(repository, name):
    done = subprocess.run(
        [sys.executable, repository / "examples" / f"{name}.py", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--device" in done.stdout
    assert "--seed" in done.stdout
