"""Options of decoding: equal in `load`, `predict`, `evaluate`, `serve` and `export`."""

import functools
import json
import re
import shutil

import pytest

from common_jax.deploy import load, load_model
from common_jax.deploy.service import service_of
from common_jax.errors import UserError
from common_jax.training.config import read_task
from common_jax.training.run_folder import RunFolder
from launch import evaluate
from launch.export import __main__ as export
from launch.predict import __main__ as predict
from launch.serve.limits import Limits
from launch.serve.metrics import Metrics
from launch.serve.models import served
from launch.train import __main__ as train
from tests.families.runs import FAMILIES
from tests.launch import commands
from tests.launch.commands import fails, scores
from tests.launch.corrupt_files import sealed, values

LINES = FAMILIES["csan"].lines
QUESTION = json.dumps({"context": "Ada has nine cats and a dog in Rome.", "question": "What?"})


@pytest.fixture(scope="module")
def translator(tiny, tmp_path_factory):
    return tiny("csan", tmp_path_factory.mktemp("csan")) / "run"


@pytest.fixture(scope="module")
def reader(tiny, tmp_path_factory):
    return tiny("qanet", tmp_path_factory.mktemp("qanet")) / "run"


def scored(model, **options):
    """The scores of all hypotheses of the lines."""
    answers = load(model, beam_size=2, hypotheses=True, **options).predict(LINES)
    return [[h.score for h in answer.hypotheses] for answer in answers]


def test_a_translator_takes_them(translator):
    usual = scored(translator)
    assert scored(translator, length_penalty=0.0) != usual
    for n in (1, 2):
        answers = load(translator, beam_size=2, n_best=n).predict(LINES)
        assert [len(answer.hypotheses) for answer in answers] == [n, n]
    short, long = (load(translator, extra_length=extra).predict(["a"]) for extra in (1, 40))
    assert len(str(next(short))) < len(str(next(long)))  # an untrained model goes on to the limit


@pytest.mark.parametrize(
    "options,message",
    [
        ({"length_penalty": -1.0}, "length_penalty=-1.0: not negative"),
        ({"extra_length": 0}, "extra_length=0: at least 1"),
        ({"beam_size": 2, "n_best": 3}, "n_best=3: 1 to beam_size=2"),
    ],
)
def test_invalid_ones_are_refused(translator, options, message):
    with pytest.raises(UserError, match=message):
        load(translator, **options)


def test_a_card_has_the_scores_of_its_options(translator, tmp_path, monkeypatch):
    monkeypatch.setattr("common_jax.deploy.stablehlo.serialized", lambda *_: b"")  # takes long
    best = json.loads((translator / "result.json").read_text())["best_step"]
    for name, stored in (
        ("dev", {"sacrebleu": 30.0}),  # of an earlier version, which wrote no step
        ("dev-length_penalty0", {"sacrebleu": 12.34, "step": best}),
        ("dev-length_penalty2", {"sacrebleu": 1.0, "step": best - 1}),  # before it was continued
        ("dev-length_penalty3", {"sacrebleu": 2.0}),  # perhaps of another step
    ):
        (translator / "eval" / f"{name}.json").write_text(json.dumps(stored))

    def exported(name, *options):
        argv = ["--workdir", str(translator), "--beam_size", "1", "--out", str(tmp_path / name)]
        export.main([*argv, *options])
        card = (tmp_path / name / "README.md").read_text()
        return re.findall(r"^\| dev \| sacrebleu \| (\S+) \|", card, re.M), card

    assert exported("own", "--length_penalty", "0.6")[0] == ["30.00"]
    assert exported("without", "--length_penalty", "0")[0] == ["12.34"]
    for penalty in "234":
        scores, card = exported(f"other{penalty}", "--length_penalty", penalty)
        assert not scores and f"--length_penalty {penalty}" in card
        assert "with these settings" in card


def test_an_evaluation_takes_them(translator, capsys):
    split = scores(capsys, translator, "--beam_size", "1", "--length_penalty", "1.5")["split"]
    assert split == "test-beam_size1-length_penalty1.5"
    sources, predictions = (
        (translator / "eval" / f"{split}.{ending}").read_text().splitlines()
        for ending in ("sources", "predictions.txt")
    )
    assert predictions == [*map(str, load(translator, beam_size=1).predict(sources))]
    with pytest.raises(UserError, match=r"beam_size=0: at least 1|decode.beam_size"):
        evaluate.main(["--workdir", str(translator), "--beam_size", "0"])


def test_a_server_takes_them(translator):
    model = served("de", load_model(translator), Limits(), Metrics(), {"beam_size": 1, "n_best": 1})
    assert not model.schema.plain
    with pytest.raises(UserError, match="n_best=3: 1 to beam_size=1"):
        served("de", load_model(translator), Limits(), Metrics(), {"beam_size": 1, "n_best": 3})


def test_a_reader_takes_the_longest_answer(reader, tmp_path, capsys):
    for words in (3, 1):
        (best,) = load(reader, answer_length=words, count=9).predict([QUESTION])
        assert max(len(span.answer.split()) for span in [best, *best.next]) <= words
    with pytest.raises(UserError, match="answer_length=0: 1 to"):
        load(reader, answer_length=0)
    out = tmp_path / "export"
    export.main(["--workdir", str(reader), "--out", str(out), "--answer_length", "1"])
    assert next(load(out).predict([QUESTION])).answer == best.answer
    with pytest.raises(UserError, match="has no program for count=3, answer_length=2"):
        load(out, answer_length=2)
    split = scores(capsys, reader, "--answer_length", "1")["split"]
    answers = json.loads((reader / "eval" / f"{split}.predictions.json").read_text())
    assert split.endswith("-answer_length1") and answers


FIXED = {  # other values than the run's
    "csan": ({"length_penalty": 3.0, "extra_length": 1}, {"length_penalty": -1.0}, LINES),
    "qanet": ({"answer_length": 1}, {"answer_length": 0}, [QUESTION]),
}


@pytest.fixture(scope="module", params=FIXED)
def fixed(request, tmp_path_factory):
    """A run, its export with other options of decoding, which has no programs, as they take long,
    and these options, impossible ones, and lines."""
    run = request.getfixturevalue({"csan": "translator", "qanet": "reader"}[request.param])
    options, impossible, lines = FIXED[request.param]
    out = tmp_path_factory.mktemp("fixed") / "export"
    flags = [f"--{name}={value}" for name, value in options.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("common_jax.deploy.stablehlo.serialized", lambda *_: b"")
        export.main(["--workdir", str(run), "--out", str(out), *flags])
    return run, out, options, impossible, lines


def test_an_export_that_is_data_has_its_own(fixed, tmp_path):
    run, out, options, impossible, lines = fixed
    answers = lambda path, **chosen: [str(answer) for answer in load(path, **chosen).predict(lines)]
    own = answers(out, untrusted=True)
    assert own == answers(run, **options) != answers(run)

    # options of the command replace them one by one
    settings = vars(service_of(read_task(RunFolder(run))).settings)
    for name in options:
        others = {key: value for key, value in options.items() if key != name}
        chosen = {name: settings[name]}
        assert answers(out, untrusted=True, **chosen) == answers(run, **others, **chosen)

    # they are those of a stranger
    model = shutil.copytree(out, tmp_path / "model")
    saved = json.loads((model / "export.json").read_text())
    for changes, message in (
        (impossible, "_length=0|not negative"),
        ({"more": 1}, "key 'settings.more'"),
    ):
        sealed(values("export.json", settings=saved["settings"] | changes))(model)
        with pytest.raises(UserError, match=rf"export\.json: .*({message})"):
            load(model, untrusted=True)


def test_an_evaluation_of_an_export_has_its_own(fixed, tmp_path, monkeypatch, capsys):
    run, out, options, _, _ = fixed
    monkeypatch.setenv("HOME", str(tmp_path))  # of the cache

    def scored(model, **chosen):
        data = run.parent / ("test.json" if "answer_length" in options else "test")
        flags = [f"--{name}={value}" for name, value in chosen.items()]
        printed = scores(capsys, model, "--data", str(data), "--name", "x", *flags)
        (file,) = (model / "eval").glob(f"{printed['split']}.predictions.*")
        return file.read_text()

    assert scored(out) == scored(run, **options) != scored(run)
    first, *others = options
    own = vars(service_of(read_task(RunFolder(run))).settings)[first]
    assert scored(out, **{first: own}) == scored(run, **{name: options[name] for name in others})


@pytest.mark.slow
def test_an_export_has_one_value_of_each_option_and_refuses_others(translator, tiny, tmp_path):
    plain = tiny.exported("csan", tmp_path / "plain")
    changed = tmp_path / "changed"
    argv = ["--workdir", str(translator), "--beam_size", "2", "--out", str(changed)]
    export.main([*argv, "--length_penalty", "0"])
    close = lambda scores: [pytest.approx(row, abs=2e-4) for row in scores]
    assert scored(changed) == close(scored(translator, length_penalty=0.0))
    assert scored(changed, length_penalty=0.0) == scored(changed)
    assert scored(plain) == close(scored(translator))
    message = r"has no program for beam_size=2, .*length_penalty=0.0.*launch\.export makes others"
    with pytest.raises(UserError, match=message):
        scored(plain, length_penalty=0.0)


@pytest.mark.slow
def test_ctranslate2_answers_as_the_run_does(tmp_path, monkeypatch, capsys):
    folder = FAMILIES["csan"].written(tmp_path)
    train.main(FAMILIES["csan"].arguments(folder, **{"model.encoder_attention.local_layers": 0}))
    out = folder / "engine"
    run = ["--workdir", str(folder / "run")]
    argv = [*run, "--out", str(out), "--format", "ctranslate2"]
    capsys.readouterr()
    assert "--length_penalty 0" in fails(monkeypatch, capsys, argv, export.main)
    export.main([*argv, "--length_penalty", "0"])
    search = ["--length_penalty", "0", "--n_best", "2", "--beam_size", "2"]
    lines = [LINES[0], "", "Three cats 🐈 and a dog"]
    ask = functools.partial(commands.answers, monkeypatch, capsys, lines)
    assert ask("--model", out) == ask(*run, "--length_penalty", "0")
    actual = [json.loads(line) for line in ask("--model", out, *search[2:])]
    expected = [json.loads(line) for line in ask(*run, *search)]
    hypotheses = [answer["hypotheses"] for answer in actual]
    assert hypotheses == [commands.close(answer["hypotheses"], 1e-3) for answer in expected]
    penalised = ["--model", str(out), "--length_penalty", "0.6"]
    assert "another length penalty; 0 only" in fails(monkeypatch, capsys, penalised, predict.main)
