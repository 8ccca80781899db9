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
from launch import augment
from launch.train import __main__ as train
from qanet_jax.data.synthetic import generate
from tests.families.runs import FAMILIES, SIZES
from tests.launch.commands import fails
from tests.launch.tiny_runs import result

FAMILY = FAMILIES["qanet"]
COUNT = SIZES["train"]


def sentences(squad):
    texts = [text[start:end] for text in squad.contexts for start, end in split_sentences(text)]
    return [*dict.fromkeys(texts)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return with_paraphrases(FAMILY.written(tmp_path_factory.mktemp("augment")))


def with_paraphrases(folder):
    """Writes a paraphrase of each sentence of a corpus; returns its folder."""
    texts = sentences(generate(COUNT, 0, "train"))
    rows = [{"sentence": text, "paraphrases": [f"Well , {text}", text]} for text in texts]
    (folder / "paraphrases.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def flags(**options):
    return [str(part) for name, value in options.items() for part in (f"--{name}", value)]


def arguments(folder, out="new.json", **options):
    files = {"data": folder / "train.json", "paraphrases": folder / "paraphrases.jsonl"}
    return flags(**files, out=folder / out, **options)


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
    fields = {"data.train": "train.json,new.json", "data.on_bad_example": "error"}
    train.main([*FAMILY.arguments(folder, "prepared", **fields), "--prepare"])
    assert f"{2 * COUNT + SIZES['dev'] + SIZES['test']} questions" in capsys.readouterr().err


@pytest.mark.slow
def test_weights_of_one_and_zero_are_plain_training(tiny, tmp_path):
    folder = with_paraphrases(tiny("qanet", tmp_path))
    augment.main(arguments(folder))
    for run, weights in (("weighted", "1,0"), ("mixed", "1,1")):
        fields = {"data.train": "train.json,new.json", "data.weights": weights}
        train.main(FAMILY.arguments(folder, run, **fields))
    plain, weighted, mixed = (
        result(folder / run)["parameters_sha256"] for run in ("run", "weighted", "mixed")
    )
    assert weighted == plain != mixed


@pytest.fixture(scope="module")
def translators(tiny, tmp_path_factory):
    """A run from English to German, one from German to English, and an export of the former."""
    folder = tiny("csan", tmp_path_factory.mktemp("translators"))
    back = shutil.copytree(folder / "run", folder / "back")
    config = json.loads((back / "config.json").read_text())
    data = config["config"]["data"]
    data["source_language"], data["target_language"] = "de", "en"
    (back / "config.json").write_text(json.dumps(config))
    tiny.exported("csan", folder / "export")
    return folder


def test_translators_there_and_back(translators, tmp_path, monkeypatch):
    """A run and an export; the threshold is 0, since the models are untrained. Resumes."""
    exported = shutil.copytree(translators / "export", tmp_path / "export")
    few = generate(2, 0, "train")
    write_squad(tmp_path / "few.json", few)
    both = {"forward": exported, "backward": translators / "back", "beam": 2}
    argv = flags(data=tmp_path / "few.json", threshold=0, **both, out="a.json")
    monkeypatch.chdir(tmp_path)
    augment_or_nothing(argv)
    (file,) = tmp_path.glob("a.*.paraphrases.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["sentence"] for line in lines] == sentences(few)
    assert all(1 <= len(line["paraphrases"]) <= 4 for line in lines)
    complete = file.read_bytes()
    file.write_bytes(complete[: len(complete) // 2])
    augment_or_nothing(argv)
    assert file.read_bytes() == complete
    load = Mock(side_effect=UserError("translates"))
    monkeypatch.setattr("common_jax.deploy.load", load)
    augment_or_nothing(argv)  # a complete file needs no translator
    assert file.read_bytes() == complete
    checksums = exported / "checksums.json"
    checksums.write_text(checksums.read_text() + "\n")  # an export of other parameters
    with pytest.raises(UserError, match="translates"):
        augment.main(argv)


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
        ({"paraphrases": None, "forward": "{back}", "backward": "{here}"}, "not the folder of a"),
        ({"threshold": 1.5}, "--threshold: 1.5: from 0 to 1"),
        ({"seed": -1}, "--seed: must be a whole number, not '-1'"),
        ({"count": 0}, "--count"),
        ({"paraphrases": None, "forward": "{back}", "backward": "{run}"}, "--forward .*back: tran"),
        ({"out": "{here}/no/such/new.json"}, "--out: there is no folder .*no/such"),
        ({"out": "{here}/train.json"}, "--out: the same file as --data"),
        ({"out": "{here}/paraphrases.jsonl"}, "--out: the same file as --paraphrases"),
        ({"report": "{here}/train.json"}, "--report: the same file as --data"),
        ({"data": "{here}/broken"}, "not JSON"),
    ],
)
def test_mistakes(folder, translators, changes, message, monkeypatch, capsys):
    (folder / "broken").write_text('{"sentence": "s", "paraphrases": []}\n{"sentence": "t"')
    sentence = sentences(generate(COUNT, 0, "train"))[0]
    (folder / "same").write_text(json.dumps({"sentence": sentence, "paraphrases": [sentence]}))
    inputs = {"data": folder / "train.json", "paraphrases": folder / "paraphrases.jsonl"}
    values = {**inputs, "out": folder / "never.json", **changes}
    given = {name: value for name, value in values.items() if value is not None}
    places = {"here": folder, "run": translators / "run", "back": translators / "back"}
    before = [file.read_bytes() for file in inputs.values()]
    argv = [part.format(**places) for part in flags(**given)]
    line = fails(monkeypatch, capsys, argv, augment.main)
    assert re.search(message, line), line
    assert not (folder / "never.json").exists()
    assert [file.read_bytes() for file in inputs.values()] == before
