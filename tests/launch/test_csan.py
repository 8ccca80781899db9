"""The commands on a tiny CSAN: translations, their attention, exports, comparisons, a report."""

import functools
import io
import json
import re
import shutil
import sys

import numpy as np
import pytest
from scipy import stats

from common_jax.deploy import load
from common_jax.deploy.answer import Answer
from common_jax.errors import UserError
from csan_jax.compare import TranslationEvaluation
from launch import evaluate
from launch.predict import __main__ as predict
from launch.train import __main__ as train
from tests.families.runs import SIZES
from tests.launch import commands
from tests.launch.commands import fails, scores
from tests.launch.corrupt_files import values

TESTED = SIZES["test"]
LINES = ["The train leaves at noon.", "", "Three cats 🐈 and a dog"]


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    return tiny("csan", tmp_path_factory.mktemp("csan"))


def test_a_run_is_tested_against_another(folder, capsys):
    """The other run's translations have one word more, and an nll of two nats more, plus noise."""
    run, other = folder / "run", shutil.copytree(folder / "run", folder / "worse")
    noise = np.random.default_rng(0).normal(2, 0.1, TESTED)
    head, *rows = (run / "eval" / "test.examples.tsv").read_text().splitlines()
    fields = [row.split("\t") for row in rows]
    worse = [
        "\t".join((*others, f"{float(nll) + more:.6f}"))
        for (*others, nll), more in zip(fields, noise, strict=True)
    ]
    (other / "eval" / "test.examples.tsv").write_text("\n".join([head, *worse]) + "\n")
    printed = scores(capsys, run, "--against", other)
    assert printed["sacrebleu_difference"] == 0
    assert printed["nll_difference"] == pytest.approx(-noise.mean(), abs=1e-3)
    expected = stats.ttest_1samp(-noise, 0).confidence_interval(0.95)
    ends = [printed[f"nll_difference_{end}"] for end in ("low", "high")]
    assert ends == pytest.approx([*expected], abs=1e-3)
    assert printed["p_nll"] < 0.001
    (other / "eval" / "test.references").write_text("another\n" * TESTED)
    with pytest.raises(UserError, match=f"{other}: its test .* {run}"):
        evaluate.main(["--workdir", str(run), "--against", str(other)])


def test_predict_answers_each_line_cleaned_as_the_corpus(folder, capsys, monkeypatch, caplog):
    lines = ["The train leaves.", "\u200b\u00ad\x07", "cats " * 200, "The train leaves."]
    text = "\ufeff" + "\n".join(lines) + "\r\n  \nno newline at the end"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    monkeypatch.setattr(predict, "configure_logging", lambda: None)
    predict.main(["--workdir", str(folder / "run")])
    first, blank, _, last, *blanks = capsys.readouterr().out.split("\n")
    assert first == last != "" and blank == ""
    assert len(blanks) == 3 and blanks[0] == blanks[2] == ""
    (message,) = caplog.messages
    assert re.fullmatch(r"standard input:3: \d+ tokens, where training has at most \d+", message)


def test_explained_translations_have_the_encoders_weights(folder):
    lines = ["the dog sleeps in the blue house", ""]
    plain = [*map(str, load(folder / "run").predict(lines))]
    full, empty = map(Answer.to_dict, load(folder / "run", explain=True).predict(lines))
    assert [full["translation"], empty["translation"]] == plain and empty["attention"] == []
    assert "".join(full["pieces"]).replace("▁", " ").strip() == f"{lines[0]}</s>"
    (layer,) = np.array(full["attention"])  # [heads, pieces, area, pieces], a window of 11
    pieces = len(full["pieces"])
    assert layer.shape == (2, pieces, 3, pieces)
    np.testing.assert_allclose(layer.sum((2, 3)), 1, atol=1e-3 * pieces)
    assert not layer[0, :, 0].any() and not layer[1, :, 2].any()  # heads beyond the edges
    far = np.abs(np.subtract.outer(np.arange(pieces), np.arange(pieces))) > 5
    assert not layer.sum(2)[:, far].any() and layer[:, :, 1][:, ~far].all()
    text, (picture,) = TranslationEvaluation.pictured(json.dumps(full), "2D", lines[0])
    drawn = [
        panel and (panel.title, len(panel.outlines), panel.outlines[0].spans[0])
        for panel in picture.panels
    ]
    within = 1, (0, 5)  # a window of 11
    assert text == plain[0] and drawn == [
        *(None, ("head 1, keys of 1", *within), ("head 1, keys of 2", *within)),
        *(("head 2, keys of 1", *within), ("head 2, keys of 2", *within), None),
    ]
    np.testing.assert_array_equal(picture.panels[4].values, layer[1, :, 1])


def test_an_export_answers_as_the_run_does(folder, tiny, tmp_path, monkeypatch, capsys):
    model = tiny.exported("csan", tmp_path / "export")
    ask = functools.partial(commands.answers, monkeypatch, capsys)
    expected = ask(LINES, "--workdir", folder / "run", "--beam_size", "1")
    assert expected[1] == "" and expected[0] and expected[2]
    assert ask(LINES, "--model", model, "--beam_size", "1") == expected
    long = [*LINES, "one two three " * 9]  # another shape
    expected = ask(long, "--workdir", folder / "run", "--beam_size", "2")
    assert commands.answered_without_a_model(model, long, "--beam_size", "2") == expected
    with pytest.raises(UserError, match="has no program for beam_size=3, but for beam_size=1 or"):
        ask(LINES, "--model", model, "--beam_size", "3")


def test_fsdp_shards_the_state_over_devices_that_are_not_present(capsys):
    bytes_per_device = {}
    for fsdp in (1, 64):
        mesh = [f"--config.mesh.fsdp={fsdp}", "--config.mesh.data=1"]
        train.main(["--config", "configs/csan/wmt14_ende.py:big", *mesh, "--describe"])
        last = [line.split()[-1] for line in capsys.readouterr().out.splitlines()[-2:]]
        bytes_per_device[fsdp] = [int(number.replace(",", "")) for number in last]
    for one, part in zip(bytes_per_device[1], bytes_per_device[64], strict=True):
        assert one / 64 < part < one / 50  # biases and norms are not sharded


def test_a_translator_answers_no_questions(folder, monkeypatch, capsys):
    argv = ["--workdir", str(folder / "run"), "--context", __file__, "--question", "What?"]
    line = fails(monkeypatch, capsys, argv, predict.main)
    assert "answers no questions about a text" in line


def copy_of_seed_1(run, other):
    shutil.copytree(run, other)
    values("config.json", config__train__seed=1)(other)


def test_report_compares_translations(folder):
    copy_of_seed_1(folder / "run", folder / "other")
    assert commands.titles(commands.reported(folder, "run", "other")) == [
        "Runs",
        "Speed",
        *(f"Translation: {title}" for title in ("settings", "scores", "learning")),
        "Translation: differences on test",
        "Translation: n-grams on test",
        "Translation: pictures of an example of test",
        "Translation: most confident mistakes on test",
    ]


def test_a_report_without_checkpoints_or_with_other_files(folder, tmp_path):
    """Without a checkpoint there is no picture; a missing file or one of another run ends it."""
    run = shutil.copytree(folder / "run", tmp_path / "run")
    shutil.rmtree(run / "checkpoints")
    assert "run: no picture: " in commands.reported(tmp_path, "run")
    eval_files = run / "eval"
    lines = (eval_files / "test.predictions.txt").read_text().splitlines(keepends=True)
    scored = json.loads((eval_files / "test.json").read_text())
    references = (eval_files / "test.references").read_text()
    assert scored["sacrebleu"] < 50
    for text, message in (
        (references, "test.predictions.txt: not the translations of its score"),
        ("".join(lines[1:]), "11 translations of test for 12 references"),
        (None, "test.predictions.txt: No such file"),
    ):
        file = eval_files / "test.predictions.txt"
        file.unlink() if text is None else file.write_text(text)
        with pytest.raises(UserError, match=f"^.*{message}.*$") as error:
            commands.reported(tmp_path, "run")
        assert "\n" not in str(error.value)
