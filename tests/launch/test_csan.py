"""The commands on a tiny CSAN: train, evaluate, predict, export, report."""

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
from common_jax.errors import UserError
from common_jax.predictor_answer import Answer
from csan_jax.compare import TranslationEvaluation
from launch import evaluate, export, predict, train
from tests import browser
from tests.launch import commands, tiny_runs
from tests.launch.commands import fails

TINY = {
    **tiny_runs.EVERY_STEP,
    **tiny_runs.TINY["csan"],
    "train.steps": 6,
    "train.evaluate_every": 4,
    "train.checkpoint_every": 4,
    "train.log_every": 2,
}


def arguments(folder, **changes):
    return commands.arguments("configs/csan/quickstart.py", folder, **(TINY | changes))


def write_data(folder):
    """Writes nothing: the corpus is generated."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("csan")
    train.main(arguments(folder))
    return folder


def test_train_leaves_the_files_of_the_contract(folder):
    run = folder / "run"
    result = json.loads((run / "result.json").read_text())
    assert set(result["metrics"]) == {"dev", "test"}
    assert set(result["metrics"]["test"]) == {"sacrebleu", "chrf", "tokenized_bleu", "nll"}
    for split in ("dev", "test"):
        for ending in (".predictions.txt", ".references", ".sources"):
            assert (run / "eval" / f"{split}{ending}").read_text().count("\n") == 12
        assert "nrefs:1" in (run / "eval" / f"{split}.json").read_text()
        results = commands.example_results(run, split)
        nll = sum(results["nll"]) / sum(results["length"])
        assert nll == pytest.approx(result["metrics"][split]["nll"], rel=1e-6)
        assert results["index"] == list(range(12))


def test_the_same_command_reports_that_the_run_is_finished(folder, capsys):
    train.main(arguments(folder))
    assert "is finished" in capsys.readouterr().out


def test_evaluate_repeats_the_final_score(folder, capsys):
    evaluate.main(["--workdir", str(folder / "run"), "--split", "test"])
    printed = json.loads(capsys.readouterr().out)
    result = json.loads((folder / "run" / "result.json").read_text())
    for name, value in result["metrics"]["test"].items():
        assert printed[name] == pytest.approx(value, rel=1e-5)
    assert printed["sacrebleu_signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert json.loads((folder / "run" / "eval" / "test.json").read_text()) == {
        name: value for name, value in printed.items() if name != "split"
    }


def test_a_run_is_tested_against_another(folder, capsys):
    """The other run's translations have one word more, and an nll of two nats more, plus noise."""
    run, other = folder / "run", shutil.copytree(folder / "run", folder / "worse")
    noise = np.random.default_rng(0).normal(2, 0.1, 12)
    head, *rows = (run / "eval" / "test.examples.tsv").read_text().splitlines()
    fields = [row.split("\t") for row in rows]
    worse = [
        "\t".join((*others, f"{float(nll) + more:.6f}"))
        for (*others, nll), more in zip(fields, noise, strict=True)
    ]
    (other / "eval" / "test.examples.tsv").write_text("\n".join([head, *worse]) + "\n")
    evaluate.main(["--workdir", str(run), "--against", str(other)])
    printed = json.loads(capsys.readouterr().out)
    assert printed["sacrebleu_difference"] == 0
    assert printed["nll_difference"] == pytest.approx(-noise.mean(), abs=1e-3)
    expected = stats.ttest_1samp(-noise, 0).confidence_interval(0.95)
    ends = [printed[f"nll_difference_{end}"] for end in ("low", "high")]
    assert ends == pytest.approx([*expected], abs=1e-3)
    assert printed["p_nll"] < 0.001
    (other / "eval" / "test.references").write_text("another\n" * 12)
    with pytest.raises(UserError) as error:
        evaluate.main(["--workdir", str(run), "--against", str(other)])
    assert str(error.value) == f"{other}: its test differs from that of {run}"


def test_predict_answers_line_for_line(folder, capsys, monkeypatch):
    text = "The train leaves at noon.\n\n  \nThree cats 🐈 and a dog\r\nno newline at the end"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    predict.main(["--workdir", str(folder / "run"), "--beam_size", "2"])
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 6 and lines[1] == lines[2] == lines[5] == ""


def test_ctranslate2_answers_as_the_run_does(folder, tmp_path, monkeypatch, capsys):
    plain = arguments(tmp_path, **{"model.encoder_attention.local_layers": 0})
    train.main(plain)
    capsys.readouterr()
    out, lines = tmp_path / "engine", ["The train leaves at noon.", "", "Three cats 🐈"]
    run = ["--workdir", str(tmp_path / "run")]
    argv = [*run, "--out", str(out), "--format", "ctranslate2"]
    assert "--length_penalty 0" in fails(monkeypatch, capsys, argv, export.main)
    export.main([*argv, "--length_penalty", "0"])
    search = ["--length_penalty", "0", "--n_best", "2", "--beam_size", "2"]
    ask = functools.partial(commands.answers, monkeypatch, capsys, lines)
    assert ask("--model", out) == ask(*run, "--length_penalty", "0")
    with_scores = [json.loads(line) for line in ask("--model", out, *search[2:])]
    expected = [json.loads(line) for line in ask(*run, *search)]
    for actual, wanted in zip(with_scores, expected, strict=True):
        for a, b in zip(actual["hypotheses"], wanted["hypotheses"], strict=True):
            assert a["translation"] == b["translation"]
            assert a["score"] == pytest.approx(b["score"], abs=1e-3)
    penalised = ["--model", str(out), "--length_penalty", "0.6"]
    assert "another length penalty; 0 only" in fails(monkeypatch, capsys, penalised, predict.main)


def test_input_is_cleaned_as_the_corpus_is(folder, capsys, monkeypatch, caplog):
    lines = ["The train leaves.", "\u200b\u00ad\x07", "cats " * 200, "The train leaves."]
    text = "\ufeff" + "\n".join(lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    monkeypatch.setattr(predict, "configure_logging", lambda: None)
    predict.main(["--workdir", str(folder / "run")])
    first, blank, _, last, _ = capsys.readouterr().out.split("\n")
    assert first == last and blank == ""
    (message,) = caplog.messages
    assert re.fullmatch(r"standard input:3: \d+ tokens, where training has at most \d+", message)


def test_explained_translations_have_the_encoders_weights(folder):
    lines = ["one two three four five", ""]
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


LINES = ["The train leaves at noon.", "", "Three cats 🐈 and a dog"]


def test_exports_answer_as_the_run_does(folder, monkeypatch, capsys):
    ask = functools.partial(commands.answers, monkeypatch, capsys)
    exports = commands.exports(folder, "--beam_size", "2", "--beam_size", "1")
    expected = ask(LINES, "--workdir", folder / "run", "--beam_size", "1")
    assert expected[1] == "" and expected[0] and expected[2]
    model = exports["stablehlo"]
    assert ask(LINES, "--model", model, "--beam_size", "1") == expected
    long = [*LINES, "one two three " * 9]  # another shape
    expected = ask(long, "--workdir", folder / "run", "--beam_size", "2")
    assert commands.answered_without_a_model(model, long, "--beam_size", "2") == expected
    with pytest.raises(UserError, match="has no program for beam_size=3, but for beam_size=1 or"):
        ask(LINES, "--model", model, "--beam_size", "3")


def test_describe_counts_parameters_without_data(capsys):
    config = ["--config", "configs/csan/wmt14_ende.py:base", "--describe"]
    sizes = {"": "88,022,528", "--config.model.source_vocab_size=24005": "88,023,040"}
    for override, count in sizes.items():
        train.main([*config, *filter(None, [override])])
        assert capsys.readouterr().out.splitlines()[-1].split()[:2] == ["total", count]


def test_fsdp_shards_the_state_over_devices_that_are_not_present(capsys):
    bytes_per_device = {}
    for fsdp in (1, 64):
        mesh = [f"--config.mesh.fsdp={fsdp}", "--config.mesh.data=1"]
        train.main(["--config", "configs/csan/wmt14_ende.py:big", *mesh, "--describe"])
        last = [line.split()[-1] for line in capsys.readouterr().out.splitlines()[-2:]]
        bytes_per_device[fsdp] = [int(number.replace(",", "")) for number in last]
    for one, part in zip(bytes_per_device[1], bytes_per_device[64], strict=True):
        assert one / 64 < part < one / 50  # biases and norms are not sharded


BAD_OVERRIDES = {
    "model=3": "config key 'model' is a group of keys",
    "train.steps=1.5": "train.steps=1.5: must be a whole number",
    "train.steps=0": "train.steps=0: at least 1",
    "data.joint_vocabulary=maybe": "data.joint_vocabulary",
    "model.head_window=2": "model.head_window=2: must be odd",
    "model.num_heads=3": "model.num_heads=3: must divide model.dim=16",
    "model.head_edge=mirror": "must be truncate | wrap | clamp | authors",
    "model.dropout=1.0": "model.dropout",
    "train.best_metric=bleu": "must be sacrebleu | chrf | tokenized_bleu | nll",
    "train.compute_dtype=float16": "must be float32 | bfloat16",
    "data.joint_vocabulary=False": "model.tie=all: needs data.joint_vocabulary=True",
    "model.target_vocab_size=77": "model.tie=all",
    "model.tie=none model.source_vocab_size=20": "model.source_vocab_size=20",
    "data.source_vocab_size=77": "data.source_vocab_size=77 and target_vocab_size=400: must be",
    "data.target_vocab_size=-1": "data.target_vocab_size: must not be negative",
    "data.batch_tokens=10": "data.batch_tokens=10: must hold one sentence",
    "data.vocab_size=99999": "data.vocab_size=99999",
    "task=csan_jax.task:Nothing": "no such task",
}


@pytest.mark.parametrize("override,words", BAD_OVERRIDES.items())
def test_a_wrong_override_is_one_line(override, words, tmp_path, monkeypatch, capsys):
    argv = [*arguments(tmp_path), *(f"--config.{one}" for one in override.split())]
    assert words in fails(monkeypatch, capsys, argv)


@pytest.mark.parametrize(
    "extra,words",
    [
        (["stray"], "unexpected argument 'stray'"),
        (["--config.data.joint_vocabulary", "false"], "in one argument"),
        (["--descrbe"], "unexpected argument '--descrbe'"),
    ],
)
def test_a_stray_argument_is_one_line(extra, words, tmp_path, monkeypatch, capsys):
    assert words in fails(monkeypatch, capsys, [*arguments(tmp_path), *extra])


def test_the_workdir_of_another_run(folder, monkeypatch, capsys):
    argv = arguments(folder, **{"train.seed": 5})
    assert "holds another run; it differs in train.seed" in fails(monkeypatch, capsys, argv)


def test_a_translator_answers_no_questions(folder, monkeypatch, capsys):
    argv = ["--workdir", str(folder / "run"), "--context", __file__, "--question", "What?"]
    line = fails(monkeypatch, capsys, argv, predict.main)
    assert "answers no questions about a text" in line


def test_report_compares_translations(folder, tmp_path):
    other = shutil.copytree(folder / "run", folder / "other")
    saved = json.loads((other / "config.json").read_text())
    saved["config"]["train"]["seed"] = 1
    (other / "config.json").write_text(json.dumps(saved))
    page = commands.reported(folder, "run", "other")
    assert commands.titles(page) == [
        "Runs",
        "Translation: settings",
        "Translation: scores",
        "Translation: learning",
        "Translation: differences on test",
        "Translation: n-grams on test",
        "Translation: pictures of an example of test",
    ]
    if browser.CHROMIUM is None:
        pytest.skip("waits for a Chromium on the path to look at the page")
    for width in (390, 1200):
        result = browser.look(page, tmp_path, width)
        assert result["console"] == [] and result["overflow"] == 0
        assert len(result["figures"]) == 7 and all(f["marks"] > 10 for f in result["figures"])
    assert "mean of 2: run, other" in result["text"]


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
        (references, "test.predictions.txt: not the translations of its score, whose BLEU is"),
        ("".join(lines[1:]), "11 translations of test for 12 references; score it again"),
        (None, "test.predictions.txt: No such file"),
    ):
        file = eval_files / "test.predictions.txt"
        file.unlink() if text is None else file.write_text(text)
        with pytest.raises(UserError) as error:
            commands.reported(tmp_path, "run")
        assert message in str(error.value) and "\n" not in str(error.value)
