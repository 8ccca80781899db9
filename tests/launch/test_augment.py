"""`launch.augment` with translators or a file, and training on the augmented corpus."""

import json
import re
import shutil
from unittest.mock import Mock

import pytest

from common_jax.bad_examples import BadExamples
from common_jax.errors import UserError
from common_jax.text.sentence_splitter import split_sentences
from common_jax.text.squad import read_squad, write_squad
from launch import augment, export, train
from qanet_jax.data.synthetic import generate
from tests.launch import test_csan, test_qanet
from tests.launch.commands import begun, fails


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus, and a paraphrase of each of its sentences."""
    folder = tmp_path_factory.mktemp("augment")
    for split, count in (("train", 40), ("dev", 6), ("test", 6)):
        squad = generate(count, 0, split)
        write_squad(folder / f"{split}.json", squad)
    squad = generate(40, 0, "train")
    texts = [c[start:end] for c in squad.contexts for start, end in split_sentences(c)]
    lines = [{"sentence": t, "paraphrases": [f"Well , {t}", t]} for t in dict.fromkeys(texts)]
    content = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "paraphrases.jsonl").write_text(content)
    return folder


def arguments(folder, out="new.json", **options):
    values = {"paraphrases": folder / "paraphrases.jsonl", **options}
    flags = [str(v) for name, value in values.items() for v in (f"--{name}", value)]
    return ["--data", str(folder / "train.json"), "--out", str(folder / out), *flags]


def trained(folder, run, names, **changes):
    """Trains on several files; returns the result."""
    argv = test_qanet.arguments(folder, run, **{"data.train": names, **changes})
    train.main(argv)
    return json.loads((folder / run / "result.json").read_text())


def test_a_file_of_paraphrases(folder, capsys):
    augment.main(arguments(folder, report=folder / "page.html"))
    printed = capsys.readouterr().out
    old, new = (read_squad(folder / n, BadExamples("error")) for n in ("train.json", "new.json"))
    assert f"{len(new.questions):9,} new questions" in printed
    assert [q.text for q in new.questions] == [q.text for q in old.questions]
    for before, after in zip(old.questions, new.questions, strict=True):
        assert after.answers[0].text == before.answers[0].text
        assert new.contexts[after.context].startswith("Well , ")
    augment.main(arguments(folder, out="sample.json", passages=3))
    assert f"{3:9,} new passages" in capsys.readouterr().out
    page = (folder / "page.html").read_text()
    assert "Relocated answers" in page and "launch.augment" in page
    argv = test_qanet.arguments(folder, "prepared", **{"data.train": "train.json,new.json"})
    train.main([*argv, "--config.data.on_bad_example=error", "--prepare"])
    assert "92 questions" in capsys.readouterr().err  # 12 in dev and test


@pytest.mark.slow
def test_weights_of_one_and_zero_are_plain_training(folder):
    augment.main(arguments(folder))
    plain = trained(folder, "plain", "train.json")
    weighted = trained(folder, "weighted", "train.json,new.json", **{"data.weights": "1,0"})
    mixed = trained(folder, "mixed", "train.json,new.json", **{"data.weights": "1,1"})
    assert weighted["parameters_sha256"] == plain["parameters_sha256"]
    assert mixed["parameters_sha256"] != plain["parameters_sha256"]


@pytest.fixture(scope="module")
def translators(tmp_path_factory):
    """A run from English to German, one from German to English, and an export of the former."""
    folder = tmp_path_factory.mktemp("translators") / "csan"
    begun(test_csan, folder)
    back = shutil.copytree(folder / "run", folder / "back")
    config = json.loads((back / "config.json").read_text())
    data = config["config"]["data"]
    data["source_language"], data["target_language"] = "de", "en"
    (back / "config.json").write_text(json.dumps(config))
    out = str(folder / "export")
    export.main(["--workdir", str(folder / "run"), "--out", out, "--beam_size", "3"])
    return folder


def test_translators_there_and_back(folder, translators, tmp_path, monkeypatch):
    """A run and an export; the threshold is 0, since the models are untrained. Resumes."""
    exported = shutil.copytree(translators / "export", tmp_path / "export")
    both = {"forward": exported, "backward": translators / "back", "beam": 3}
    flags = [str(v) for name, value in both.items() for v in (f"--{name}", value)]
    few = generate(2, 0, "train")
    write_squad(tmp_path / "few.json", few)
    argv = ["--data", str(tmp_path / "few.json"), "--threshold", "0", *flags]
    monkeypatch.chdir(tmp_path)
    augment_or_nothing([*argv, "--out", "a.json"])
    (file,) = tmp_path.glob("a.*.paraphrases.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    sentences = [c[start:end] for c in few.contexts for start, end in split_sentences(c)]
    assert [line["sentence"] for line in lines] == [*dict.fromkeys(sentences)]
    assert all(1 <= len(line["paraphrases"]) <= 9 for line in lines)
    killed = file.read_bytes()
    file.write_bytes(killed[: len(killed) // 2])
    augment_or_nothing([*argv, "--out", "a.json"])
    assert file.read_bytes() == killed
    load = Mock(side_effect=UserError("translates"))
    monkeypatch.setattr("common_jax.deploy.load", load)
    augment_or_nothing([*argv, "--out", "a.json"])  # a complete file needs no translator
    assert file.read_bytes() == killed
    checksums = tmp_path / "export/checksums.json"
    checksums.write_text(checksums.read_text() + "\n")  # an export of other parameters
    with pytest.raises(UserError, match="translates"):
        augment.main([*argv, "--out", "a.json"])


def augment_or_nothing(argv):
    """Runs the command; with untrained translators it may change no passage."""
    try:
        augment.main(argv)
    except UserError as error:
        assert "no passage changes" in str(error)


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"paraphrases": "{here}/none"}, "none: No such file"),
        ({"paraphrases": "{here}/broken"}, r"broken:2:1.: not JSON(?!.*on_bad_example)"),
        ({"paraphrases": "{here}/same"}, "no passage changes"),
        ({"forward": "{run}", "backward": "{run}"}, "give --forward and --backward, or"),
        ({"paraphrases": None, "forward": "{run}"}, "give --forward and --backward, or"),
        (
            {"paraphrases": None, "forward": "{run}", "backward": "{run}"},
            "--backward .*run: translates en into de, but must translate de into en",
        ),
        (
            {"paraphrases": None, "forward": "{back}", "backward": "{here}"},
            "not the folder of a run",
        ),
        ({"threshold": 1.5}, "--threshold: 1.5: from 0 to 1"),
        ({"seed": -1}, "--seed: must be a whole number, not '-1'"),
        ({"count": 0}, "--count"),
        (
            {"paraphrases": None, "forward": "{back}", "backward": "{run}"},
            "--forward .*back: translates de into en, but must translate from en, the corpus's",
        ),
        ({"out": "{here}/no/such/new.json"}, "--out: there is no folder .*no/such"),
        ({"out": "{here}/train.json"}, "--out: the same file as --data"),
        ({"out": "{here}/paraphrases.jsonl"}, "--out: the same file as --paraphrases"),
        ({"report": "{here}/train.json"}, "--report: the same file as --data"),
        ({"data": "{here}/broken"}, "not JSON"),
    ],
)
def test_mistakes(folder, translators, changes, message, monkeypatch, capsys):
    (folder / "broken").write_text('{"sentence": "s", "paraphrases": []}\n{"sentence": "t"')
    squad = generate(40, 0, "train")
    sentence = squad.contexts[0][slice(*split_sentences(squad.contexts[0])[0])]
    (folder / "same").write_text(json.dumps({"sentence": sentence, "paraphrases": [sentence]}))
    places = {"here": folder, "run": translators / "run", "back": translators / "back"}
    values = {
        **{"data": folder / "train.json", "out": folder / "never.json"},
        **{"paraphrases": folder / "paraphrases.jsonl", **changes},
    }
    given = {name: value for name, value in values.items() if value is not None}
    argv = [t.format(**places) for n, v in given.items() for t in (f"--{n}", str(v))]
    inputs = [folder / "train.json", folder / "paraphrases.jsonl"]
    before = [file.read_bytes() for file in inputs]
    line = fails(monkeypatch, capsys, argv, augment.main)
    assert re.search(message, line), line
    assert not (folder / "never.json").exists()
    assert [file.read_bytes() for file in inputs] == before


@pytest.mark.parametrize(
    "weights,message",
    [
        ("1", "data.weights=1: 1 weights for 2 files of data.train"),
        ("0,0", "data.weights=0,0: one of them must be above 0"),
        ("1,-1", "data.weights=1,-1: numbers from 0, as in 3,1"),
    ],
)
def test_weights_that_do_not_fit(folder, weights, message, monkeypatch, capsys):
    changes = {"data.train": "train.json,dev.json", "data.weights": weights}
    assert message in fails(monkeypatch, capsys, test_qanet.arguments(folder, "bad", **changes))
