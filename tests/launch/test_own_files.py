"""Fields that one's own files decide: inferred, recorded, or refused with what they can mean."""

import json
import re
import shlex

import pytest

from common_jax.config import from_values, inferred_key
from common_jax.errors import UserError
from common_jax.fields import flat, to_mapping
from common_jax.training.run_folder import RunFolder
from launch.api.configs import config
from launch.api.sweeps import plan_sweep
from launch.train import __main__ as train
from tests.refusals import refusal

SIDES = [(f"The cat sees {n} dogs in {n + 7} gardens.", f"Katze {n} {n + 7}") for n in range(300)]
LABELS = ["good", "bad", "mixed"]


def table(*head, rows=300, label=lambda n: LABELS[n % 3], sep=","):
    """A table of a label and a text; further columns repeat the row's number."""
    cells = ([label(n), SIDES[n][0], *[str(n)] * (len(head) - 2)] for n in range(rows))
    return "".join(f"{sep.join(row)}\n" for row in [head, *cells] if row)


def lines(*names, rows=SIDES):
    """JSON lines."""
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)


def reviews(*head, **options):
    return "attconv/texts", "t.csv", table(*head, **options)


def objects(config, names, rows=SIDES):
    return config, "t.jsonl", lines(*names, rows=rows)


QUESTIONS = [(f"Ada {n} lives in Rome {n}.", f"Who {n}?", f"Ada {n}") for n in range(300)]
BITS = [(n % 2, text) for n, (text, _) in enumerate(SIDES)]
HELD_OUT = {"holdout_size": 30}
STRATIFIED = HELD_OUT | {"stratified": True}
EN_DE = {"source_language": "en", "target_language": "de"}
# 307 numbers, six words and "."; padding, unknown words and 100 of their hashes; of questions the
# 270 numbers that are not held out
ROWS = {"attconv": 307 + 7 + 2 + 100, "qanet": 270 + 7 + 2, "csan": None}
NAMED = {"columns": "label=verdict,text=review text", "labels": "bad,good,mixed"}
# Config, file and its content; overrides; and the inferred fields beside `dir`.
READ = {
    "labels": (reviews("verdict", "review text", sep=";"), [], STRATIFIED | NAMED),
    "stars": (
        reviews("Stars", "Review", "id", label=lambda n: f"{n % 4}.0"),
        *([], STRATIFIED | {"labels": "0,1,2,3"}),
    ),
    "a column of few values": (
        objects("attconv/texts", "ab", BITS),
        *([], STRATIFIED | {"columns": "label=a,text=b", "labels": "0,1"}),
    ),
    "given fields": (
        reviews("verdict", "review text"),
        ["labels=mixed,good,bad", "holdout_size=3", "stratified=False"],
        {"columns": NAMED["columns"]},
    ),
    "pairs of texts": (
        ("attconv/pairs", "t.csv", table("category", "first", "second")),
        [],
        HELD_OUT | NAMED | {"columns": "label=category,first=first,second=second"},
    ),
    "questions": (
        objects("qanet/questions", ["context", "question", "answers"], QUESTIONS),
        *([], HELD_OUT),
    ),
    "passages": (
        objects("qanet/questions", ["passage", "query", "answer"], QUESTIONS),
        *([], HELD_OUT | {"columns": "context=passage,question=query,answers=answer"}),
    ),
    "given languages": (
        objects("csan/pairs", ["english", "de-AT"]),
        ["source_language=de", "target_language=en", "vocab_size=400"],
        HELD_OUT | {"columns": "source=de-AT,target=english"},
    ),
    "languages": (
        objects("csan/pairs", ["Deutsch", "en"], [pair[::-1] for pair in SIDES]),
        *([], HELD_OUT | EN_DE | {"columns": "source=en,target=Deutsch", "vocab_size": ...}),
    ),
}


def inferred(name, file, overrides=(), runs=()):
    """The fields that a file decides."""
    overrides = [f"--config.data.{text}" for text in (f"train={file}", *overrides)]
    chosen = config(name, overrides).with_inferred(runs)
    values = flat(to_mapping(chosen.values))
    names = values["data.inferred"].split(",")
    return {key: values[inferred_key(key)] for key in names if key}, chosen


@pytest.mark.parametrize("case", READ)
def test_what_a_file_decides_is_a_fixed_point(case, tmp_path, monkeypatch):
    """The fields alone, given on the command line, are the same config."""
    (name, file, content), overrides, expected = READ[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_text(content)
    fields, chosen = inferred(name, file, overrides)
    assert fields.pop("dir") == str(tmp_path)
    assert fields.pop("words.rows", None) == ROWS[name.partition("/")[0]]
    if expected.get("vocab_size") is ...:
        assert 300 < fields["vocab_size"] < 8000
        expected = expected | {"vocab_size": fields["vocab_size"]}
    assert fields == {key: expected[key] for key in fields} and fields.keys() == expected.keys()
    given = [text for text in chosen.overrides if not text.startswith("--config.data.inferred")]
    again = config(name, given).with_inferred()
    before, after = (to_mapping(c.values)["data"] | {"inferred": ""} for c in (chosen, again))
    assert after == before


@pytest.mark.parametrize("name", ["labels", "passages", "languages"])
def test_it_is_prepared_at_the_first_try(name, tmp_path, monkeypatch):
    name, file, content = READ[name][0]
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_text(content)
    fields = f"--config.data.train={file}", f"--config.data.cache_dir={tmp_path / 'cache'}"
    train.main(["--config", name, *fields, "--prepare"])


def test_trials_of_a_sweep_have_the_fields_of_their_own_files(tmp_path, monkeypatch):
    """Those of the config without the swept values were those of all."""
    monkeypatch.chdir(tmp_path)
    files = {"t.csv": table("label", "text"), "short.csv": table("label", "text", rows=250)}
    for file, content in files.items():
        (tmp_path / file).write_text(content)
    swept = {"data.train": [*files][::-1], "model.dropout": ["0.0", "0.1"]}
    trials = plan_sweep("attconv/texts", swept, out="sweep").trials
    for trial in trials:
        file = trial.values["data.train"]
        expected = inferred("attconv/texts", file)[0]
        fields = flat(to_mapping(trial.config))
        assert expected == {key: fields[inferred_key(key)] for key in expected}
    assert len({trial.config.words.rows for trial in trials}) == 2


def test_a_run_has_its_fields_also_if_the_file_has_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "t.csv"
    file.write_text(READ["labels"][0][2])
    fields, chosen = inferred("attconv/texts", "t.csv")
    values = json.loads(json.dumps(to_mapping(chosen.values)))
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    run.result_file.write_text("{}")

    def record(values):
        run.config_file.write_text(json.dumps({"version": 1, "config": values}))

    record(values)
    file.write_text(table("a", "b"))
    assert inferred("attconv/texts", "t.csv", [], [run])[1].values == chosen.values
    run.require(chosen.values)
    assert from_values(type(chosen.values), values) == chosen.values

    # earlier versions had the config's values
    del values["data"]["inferred"]
    record(values)
    fields, chosen = inferred("attconv/texts", "t.csv", [], [run])
    assert fields == {} and chosen.values.data.labels == "1,2,3,4,5"


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (table("verdict", "review text", rows=299), True),
        (READ["labels"][0][2], False),
    ],
)
def test_a_path_of_two_files(other, differs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"neither in data\.dir=data nor in"):
        inferred("attconv/texts", "t.csv")
    (tmp_path / "t.csv").write_text(READ["labels"][0][2])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "t.csv").write_text(other)
    if differs:
        with pytest.raises(UserError, match=r"data\.train=t\.csv: .* differ") as error:
            inferred("attconv/texts", "t.csv")
        assert re.findall("dir=([^, ]+)", str(error.value)) == ["data", str(tmp_path)]
    else:
        assert "dir" not in inferred("attconv/texts", "t.csv")[0]


def test_a_path_from_the_root_needs_no_folder_of_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    file = tmp_path / "other" / "t.csv"
    file.write_text(READ["labels"][0][2])
    assert inferred("attconv/texts", file)[0]["dir"] == str(tmp_path)


ABSENT = [(context, question, "Bo") for context, question, _ in QUESTIONS]
NESTED = [({"a": 1}, text) for text, _ in SIDES]
# Config, file and its content in Latin-1; and the words with which its one message begins.
INVALID = {
    "another encoding": (
        ("csan/pairs", "t.csv", table("en", "de", label=lambda n: "é")),
        r"t\.csv:2: not UTF-8 .*on_bad_example=skip; also .* too few",
    ),
    "answers of no passage": (
        objects("qanet/questions", ["context", "question", "answer"], ABSENT),
        r"t\.jsonl:1\.answers\[0\]: answer not in its context; fix it, .*; also .* 0 distinct",
    ),
    "no label": (
        objects("attconv/texts", ["label", "text"], NESTED),
        r"t\.jsonl:1: label: an object .*; also t\.jsonl: labels: none; there must be two",
    ),
    "an empty sentence": (
        objects("csan/pairs", ["en", "de"], [*SIDES, ("a", "")]),
        r"t\.jsonl:301: empty target; fix it, or [^;]*$",
    ),
    "columns of one name": (
        reviews("label", "text", "text"),
        r"t\.csv: the column of the text .* text, text, of which one must be renamed$",
    ),
    "another name": (
        objects("qanet/questions", ["text", "question", "answer"], QUESTIONS),
        r"t\.jsonl: .* may be one of text; --config\.data\.columns=context=text,question=question,",
    ),
    "no label beside a text without a usual name": (
        reviews("number", "blurb", label=str),
        r"label may be one of number; '?--config\.data\.columns=label=number,text=blurb'?$",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_what_is_invalid_is_said_first(case, tmp_path, monkeypatch):
    (name, file, content), message = INVALID[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_text(content, encoding="latin-1")
    with pytest.raises(UserError, match=message):
        inferred(name, file)


def test_all_problems_are_one_message(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = table("verdict", "text", rows=90, label=lambda n: " " if n == 3 else "bB"[n % 2])
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(UserError, match=r"'b' .*/'B' .*; also .* 1 rows .*; also .* too few"):
        inferred("attconv/texts", "t.csv")


def labels_table(*labels, head="label,text\n"):
    """A table of a text for each label, which is repeated."""
    return head + "".join(f"{label},{SIDES[n][0]}\n" for n, label in enumerate(labels))


BY_NUMBER = ["columns=label=1,text=2"]
STARS = ["1", "2", "3"] * 50
SIGNED = ["0", "1", "2", "-1"] * 40
# Files of train and their content, overrides, and a part of the refusal, or the inferred labels.
MEANINGS = {
    "an unknown header": (
        [labels_table(*STARS, head="Mark,Comment\n")],
        BY_NUMBER,
        "'Mark' (1 rows) may be of a header; --config.data.labels=1,2,3 "
        "--config.data.ignored_labels=-,Mark, or --config.data.labels=1,2,3,Mark",
    ),
    "an unknown header in each file": (
        [labels_table(*"ab" * 50, head="Mark,Comment\n")] * 2,
        BY_NUMBER,
        "'Mark' (2 rows) may be of a header; --config.data.labels=a,b --config.data.ignored_labels",
    ),
    "a header in the middle": (
        [labels_table(*STARS) * 2],
        [],
        "'label' (1 rows) may be of a header; --config.data.labels=1,2,3 ",
    ),
    "a rare label that is not in the first row": (
        [labels_table(*"ab" * 50, "c")],
        BY_NUMBER,
        ("a,b,c",),
    ),
    "ids": (
        [labels_table(*map(str, range(100)), head="")],
        BY_NUMBER,
        "100 of 100 occur once (0, 1, 2, ...) and may be no labels; "
        "--config.data.columns=label=NAME,text=2, or --config.data.labels=0,1,2,...",
    ),
    "-1 beside numbers": (
        [labels_table(*SIGNED)],
        [],
        "-1 may be a label or the lack of one; --config.data.labels=-1,0,1,2, or "
        "--config.data.labels=0,1,2 --config.data.ignored_labels=-,-1",
    ),
    "-1.0 beside numbers": ([labels_table(*[f"{n}.0" for n in SIGNED])], [], "-1 may be a label"),
    "-1 that is ignored": (
        [labels_table(*[f"{n}.0" for n in SIGNED])],
        ["ignored_labels=-,-1"],
        ("0,1,2",),
    ),
    "-1 and 1": ([labels_table(*["-1", "1"] * 50)], [], ("-1,1",)),
    "-2 to 2": ([labels_table(*["-2", "-1", "0", "1", "2"] * 30)], [], ("-2,-1,0,1,2",)),
    "bools beside numbers": (
        [labels_table(*["True", "False"] * 50), labels_table(*"01" * 50)],
        [],
        "numbers (0, 1) and bools (False, True); names of numbers or bools must be in the order "
        "of these; --config.data.labels=False,True, or --config.data.labels=0,1 "
        "--config.data.ignored_labels=-,False,True, or --config.data.labels=0,1,False,True",
    ),
    "names beside numbers": (
        [labels_table(*["good", "bad"] * 50), labels_table(*"01" * 50)],
        [],
        "numbers (0, 1) and names (bad, good); ",
    ),
    "names beside bools": (
        [labels_table(*["good", "bad"] * 50), labels_table(*["true", "false"] * 50)],
        [],
        "bools (false, true) and names (bad, good); ",
    ),
    "a name beside numbers of one file": (
        [labels_table(*STARS, "none", "none")],
        [],
        "--config.data.labels=1,2,3 --config.data.ignored_labels=-,none, or ",
    ),
    "bools with names of one file": (
        [labels_table(*["true", "false", "half-true"] * 40)],
        [],
        ("false,half-true,true",),
    ),
    "composed and decomposed characters": (
        [labels_table(*["caf\u00e9", "cafe\u0301", "bar"] * 40)],
        [],
        r"'cafe\u0301' (40 rows)",
    ),
    "format characters": (
        [labels_table(*["good", "good\u200b", "bad"] * 40)],
        [],
        r"'good' (40 rows)/'good\u200b' (40 rows) may be the same; ",
    ),
    "signs": (
        [labels_table(*"+-0" * 40)],
        [],
        "'-' beside 0,+ may be a label or the lack of one; --config.data.labels=0,+,- "
        "--config.data.ignored_labels=, or --config.data.labels=0,+",
    ),
    "signs with =": ([labels_table(*"+-=" * 40)], [], "'-' beside +,= may be a label"),
    "- of no label": ([labels_table(*["a", "b", "-"] * 40)], [], ("a,b",)),
}


@pytest.mark.parametrize("case", MEANINGS)
def test_labels_of_several_meanings(case, tmp_path, monkeypatch):
    contents, overrides, expected = MEANINGS[case]
    monkeypatch.chdir(tmp_path)
    files = [f"t{n}.csv" for n in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        (tmp_path / file).write_text(content, "utf-8")
    arguments = "attconv/texts", ",".join(files), [*overrides, "holdout_size=9"]
    if isinstance(expected, tuple):
        assert (inferred(*arguments)[0]["labels"],) == expected
    else:
        line = refusal(inferred, *arguments)
        assert line.startswith(f"{','.join(files)}: labels: ") and expected in line
        assert "; also " not in line


REFUSED = [case for case, (*_, text) in MEANINGS.items() if isinstance(text, str)]


@pytest.mark.parametrize("case", [case for case in REFUSED if case != "ids"])
def test_each_meaning_is_prepared(case, tmp_path, monkeypatch):
    contents, overrides, _ = MEANINGS[case]
    test_labels_of_several_meanings(case, tmp_path, monkeypatch)
    files = ",".join(f"t{n}.csv" for n in range(len(contents)))
    overrides = [*overrides, "holdout_size=9"]
    line = refusal(inferred, "attconv/texts", files, overrides)
    commands = [part for part in re.split("; |, or ", line) if "--config" in part]
    assert len(commands) > 1
    given = [f"--config.data.{text}" for text in (f"train={files}", *overrides)]
    for number, command in enumerate(commands):
        cache = f"--config.data.cache_dir={tmp_path / str(number)}"
        flags = [*given, *shlex.split(command), cache]
        train.main(["--config", "attconv/texts", *flags, "--prepare"])
