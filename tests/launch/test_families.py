"""What the commands do with a run of each family: its files, scores, report; mistaken options."""

import functools
import json

import pytest

from attconv_jax.data.synthetic import generate as generate_pairs
from attconv_jax.data.text import tokenize
from common_jax.deploy import load_model
from common_jax.errors import UserError
from launch import evaluate
from launch.export import __main__ as export
from launch.predict import __main__ as predict
from launch.serve.limits import Limits
from launch.serve.metrics import Metrics
from launch.serve.models import served
from launch.train import __main__ as train
from qanet_jax.data.synthetic import generate
from tests.families.runs import FAMILIES, SIZES
from tests.launch import commands
from tests.launch.commands import fails
from tests.launch.test_csan import LINES
from tests.launch.tiny_runs import evaluated, result


def test_train_leaves_the_files_of_the_contract(trained):
    family, folder = trained
    metrics = result(folder / "run")["metrics"]
    assert {*metrics} == {"dev", "test"}
    for split, values in metrics.items():
        assert {*values} == {*family.metrics}
        results = commands.example_results(folder / "run", split)
        assert results["index"] == [*range(SIZES[split])]
        files = evaluated(folder / "run")
        if family.name == "csan":
            nll = sum(results["nll"]) / sum(results["length"])
            assert nll == pytest.approx(values["nll"], rel=1e-6)
            for ending in ("predictions.txt", "references", "sources"):
                assert files[f"{split}.{ending}"].count(b"\n") == SIZES[split]
            assert b"nrefs:1" in files[f"{split}.json"]
        elif family.name == "qanet":
            answers = json.loads(files[f"{split}.predictions.json"])
            assert len(answers) == SIZES[split] and all(answers.values())
            for name in ("exact_match", "f1"):
                assert 100 * sum(results[name]) / SIZES[split] == pytest.approx(values[name])
        else:
            rows = commands.labelled(folder / "run", split)
            assert results["right"] == [gold == label for gold, label, *_ in rows]
            lines = (folder / f"{split}.tsv").read_text().splitlines()
            pairs = [line.split("\t")[1:3] for line in lines]
            lengths = [sum(len(tokenize(text, "english")) for text in pair) for pair in pairs]
            assert results["length"] == lengths


def test_evaluate_repeats_the_final_score(trained, capsys):
    family, folder = trained
    printed = commands.scores(capsys, folder / "run", "--split", "test")
    expected = result(folder / "run")["metrics"]["test"]
    assert {name: printed[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    stored = json.loads((folder / "run" / "eval" / "test.json").read_text())
    assert {"split": "test", **stored} == printed
    if family.name == "csan":
        assert printed["sacrebleu_signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")


def test_an_export_has_examples_of_dev_that_are_pushed_upon_yes(trained, tmp_path, capsys):
    family, folder = trained
    argv = ["--workdir", str(folder / "run"), "--out", str(tmp_path / "export")]
    argv += ["--format", "safetensors", "--examples", "2"]
    with pytest.raises(UserError, match="--yes"):
        export.main([*argv, "--push", "hf://ada/private"])
    assert not (tmp_path / "export").exists()
    printed = capsys.readouterr().out.splitlines()
    export.main(argv)
    loaded = load_model(tmp_path / "export")
    assert loaded.examples == printed[1:] and len(loaded.examples) == 2
    model = served("model", loaded, Limits(), Metrics())
    if family.name == "qanet":
        texts = [tuple(json.loads(line).values()) for line in printed[1:]]
    else:
        files = {"csan": "dev.en", "attconv": "dev.tsv"}
        lines = (folder / files[family.name]).read_text().splitlines()[:2]
        texts = [tuple(line.split("\t")[:3])[1 if "\t" in line else 0 :] for line in lines]
    assert model.examples == texts
    assert load_model(folder / "run").examples == ()


@pytest.mark.parametrize(
    "argv,total,above",
    [
        ("csan/wmt14_ende.py:base", "88,022,528", None),
        ("csan/wmt14_ende.py:base --config.model.source_vocab_size=24005", "88,023,040", None),
        # without 40,000 vectors of 300
        ("attconv/snli.py:cnn", "12,635,403", "without word vectors 635,403"),
    ],
)
def test_describe_counts_parameters_without_data(argv, total, above, capsys):
    train.main(["--config", *f"configs/{argv}".split(), "--describe"])
    *_, before, last = (line.split() for line in capsys.readouterr().out.splitlines())
    assert last[:2] == ["total", total]
    assert above is None or before[:4] == above.split()


OVERRIDES = {  # and what the message names
    "csan": {
        "model=3": "config key 'model' is a group of keys",
        "train.steps=1.5": "train.steps=1.5: must be a whole number",
        "train.steps=0": "train.steps=0: at least 1",
        "optimizer.eps=0": "optimizer.eps=0: above 0, as a gradient of 0 is divided by it",
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
        "data.source_vocab_size=77": "data.source_vocab_size=77 and target_vocab_size=310",
        "data.target_vocab_size=-1": "data.target_vocab_size=-1: at least 0",
        "data.batch_tokens=10": "data.batch_tokens=10: must hold one sentence",
        "data.vocab_size=99999": "data.vocab_size=99999",
        "task=csan_jax.task:Nothing": "no such task",
    },
    "qanet": {
        "words.rows=0": "data.vectors",
        "data.stride=400": "data.stride=400",
        "data.train=train.json,dev.json data.weights=1": "data.weights=1: 1 weights for 2 files",
        "data.train=train.json,dev.json data.weights=0,0": "data.weights=0,0: one of them",
        "data.train=train.json,dev.json data.weights=1,-1": "data.weights=1,-1: numbers from 0",
    },
    "attconv": {
        "model.attention=sideways": "model.attention='sideways': must be inter",
        "data.format=texts data.columns= model.attention=inter": "model.attention=inter",
        "model.focus=states": "model.energy=dot",
        "data.labels=one": "data.labels='one'",
    },
}


@pytest.mark.parametrize(
    "family,override,named",
    [(family, *case) for family, cases in OVERRIDES.items() for case in cases.items()],
)
def test_a_wrong_override_is_one_line(family, override, named, tmp_path, monkeypatch, capsys):
    argv = FAMILIES[family].arguments(FAMILIES[family].written(tmp_path))
    argv += [f"--config.{one}" for one in override.split()]
    assert named in fails(monkeypatch, capsys, argv)


STATES = "model.source=states model.focus=states model.beneficiary=states"
WITHOUT_EFFECT = [  # an override, others that it needs, and what would give it an effect
    *(
        (family, *case)
        for family in FAMILIES
        for case in (
            ("data.dir=elsewhere", "", "data.source=files"),
            ("data.train=train.txt", "", "data.source=files"),
            ("data.tfds=squad", "", "data.source=tfds"),
            ("optimizer.initial_sum=0.1", "optimizer.name=adam", "optimizer.name=adagrad"),
            ("optimizer.cooldown=0.1", "optimizer.cooldown_start=4", "optimizer.cooldown_start=-1"),
            ("optimizer.cooldown=0.1", "optimizer.cooldown_steps=4", "optimizer.cooldown_steps=-1"),
            (
                "optimizer.warmup=exponential",
                "optimizer.warmup_steps=0",
                "optimizer.warmup_steps=1000",
            ),
        )
    ),
    ("qanet", "model.char_kernel=3", "model.char_pooling=max", "model.char_pooling=convolution"),
    ("qanet", "model.model_kernel=3", "model.convolution=none", "model.convolution=separable"),
    ("qanet", "model.num_heads=4", "model.self_attention=False", "model.self_attention=True"),
    ("qanet", "model.scale_sublayers=True", "model.survival_prob=1.0", "model.survival_prob=0.9"),
    ("attconv", "model.gate=False", STATES, "model.beneficiary=unigram"),
    ("attconv", "model.phrase_width=5", STATES, "model.beneficiary=phrase"),
    ("attconv", "model.author_length=9", "", "model.unmasked_softmax=True"),
]


@pytest.mark.parametrize("family,override,others,fix", WITHOUT_EFFECT)
def test_an_override_without_effect_is_refused(family, override, others, fix, monkeypatch, capsys):
    argv = ["--config", f"configs/{family}/quickstart.py", "--prepare"]
    argv += [f"--config.{text}" for text in (override, *others.split())]
    line = fails(monkeypatch, capsys, argv)
    assert f"--config.{override}: has no effect" in line and f"--config.{fix} would" in line


@pytest.mark.parametrize(
    "argv,named",
    [
        ("stray", "unexpected argument 'stray'"),
        ("--config.data.joint_vocabulary false", "in one argument"),
        ("--descrbe", "unexpected argument '--descrbe'"),
    ],
)
def test_a_stray_argument_is_one_line(argv, named, tmp_path, monkeypatch, capsys):
    argv = [*FAMILIES["csan"].arguments(tmp_path), *argv.split()]
    assert named in fails(monkeypatch, capsys, argv)


def test_prepare_makes_the_corpus_and_no_run(tmp_path, capsys):
    sizes = {"data.examples": 200, "data.holdout_size": 10, "data.vocab_size": 400}
    argv = [*commands.arguments("configs/csan/quickstart.py", tmp_path, **sizes), "--prepare"]
    train.main([*argv, "--workers", "2"])
    assert "prepared 220 pairs in " in capsys.readouterr().err
    assert len(list((tmp_path / "cache").glob("*/train/meta.json"))) == 1
    assert not (tmp_path / "run").exists()
    train.main(argv)
    assert "found 220 prepared pairs" in capsys.readouterr().err


OPTIONS = {  # of a run, unless they have a task; and what the message names
    predict: {
        "--question What?": "--context and --question belong together",
        "--context no/file --question What?": "no/file: No such",
        "--context {empty} --question What?": "{empty}:1: the context",
        "--context {empty} --question _": "--question: has no word",
        "--context {broken} --question x": "not UTF-8 (after 3 bytes)",
    },
    evaluate: {
        "--data no/file": "no/file: no such file",
        "--data x --split dev": "instead of --split",
        "--predictions x": "--predictions does not go with --workdir",
        "--skip_bad": "--skip_bad goes with --workdir and --data",
        "--name x": "--name goes with --workdir and --data",
        "--config.data.columns=1": "--config.data.columns=1 goes with --workdir and --data",
        "--data x --name dev": "--name dev: letters and digits, and not dev or test",
        "--data x --name ../a": "--name ../a: letters and digits",
        "--data x --config.data.train=y": "--config.data.train: not for a test set",
        "--data x --config.train.steps=1": "--config.train.steps: not for a test set",
        "--data x --config.data.colums=1": "did you mean 'columns'?",
        "--data x,": "--data: name its files",
        "--datta x": "unrecognized arguments: --datta x",
        "--task squad --split dev": "--split does not go with --task",
        "--task squad --average 1": "--average does not go with",
        "--task squad": "--task needs --predictions and --data",
    },
}


@pytest.mark.parametrize(
    "command,argv,named",
    [(command, *case) for command, cases in OPTIONS.items() for case in cases.items()],
)
def test_mistaken_options_are_one_line(command, argv, named, reader, tmp_path, monkeypatch, capsys):
    files = {name: tmp_path / f"{name}.txt" for name in ("empty", "broken")}
    files["empty"].write_bytes(b" \r\n")
    files["broken"].write_bytes(b"abc\xff")
    argv = [" " if word == "_" else word for word in argv.format(**files).split()]
    run = [] if "--task" in argv else ["--workdir", str(reader)]
    line = fails(monkeypatch, capsys, [*run, *argv], command.main)
    assert named.format(**files) in line


@pytest.fixture(scope="module")
def reader(tiny, tmp_path_factory):
    return tiny("qanet", tmp_path_factory.mktemp("reader")) / "run"


def asked(context, question):
    return json.dumps({"context": context, "question": question})


STORY, OTHER = generate(2, 5, "test").contexts
QUESTIONS = [  # one of several windows, and one with fewer words than spans that are asked for
    asked(STORY, "Who was there?"),
    asked(f"{OTHER} " * 20, "what?"),
    asked("one", "two"),
]
PAIRS = [f"{premise}\t{text}" for premise, text, _ in generate_pairs(6, 5, "test")]
ASKED = {  # lines, options of the export, options of the answers
    "csan": (LINES, (), ()),
    "qanet": (QUESTIONS, ("--count", "5"), ("--count", "5")),
    "attconv": (PAIRS, (), ("--explain",)),
}


@pytest.mark.slow
def test_exports_in_each_format_answer_as_the_run_does(trained, monkeypatch, capsys):
    family, folder = trained
    lines, compiled, options = ASKED[family.name]
    ask = functools.partial(commands.answers, monkeypatch, capsys, lines)
    expected = ask("--workdir", folder / "run", *options)
    exports = commands.exports(folder, *compiled)
    answered = [ask("--model", model, *options) for model in exports.values()]
    answered.append(commands.answered_without_a_model(exports["stablehlo"], lines, *options))
    for answers in answered:
        if family.name == "csan":
            assert answers == expected
        else:
            assert commands.same_answers(answers, expected)
    if family.name == "qanet":
        assert [len(json.loads(line)["next"]) for line in expected] == [4, 4, 0]
        fewer = ask("--workdir", folder / "run", "--count", "2")
        assert commands.same_answers(ask("--model", exports["stablehlo"], "--count", "2"), fewer)
        with pytest.raises(UserError, match="has no program for count=6, but for count=5"):
            ask("--model", exports["stablehlo"], "--count", "6")
