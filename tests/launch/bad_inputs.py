"""Mistaken and hostile inputs of each command; docs/mistakes.md has the message of each."""

import dataclasses
import functools
import gzip
import shutil
import struct

from tests.launch.corrupt_files import (
    DEEP,
    Make,
    bomb,
    damaged,
    files,
    listed,
    nothing,
    score,
    sealed,
    squad,
    tensor,
    tensors,
    text,
    trivia,
    values,
    zipped,
)


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A user's mistake.

    Attributes:
      command: of `launch`; "train csan" adds the arguments of that family's tiny run.
      argv: {here} stands for the mistake's own folder, {csan}, {qanet} and {attconv} for runs, and
        {export} for an export.
      make: makes the mistake's files.
      stdin: standard input; None if it is not read.
    """

    command: str
    argv: str
    make: Make = nothing
    stdin: bytes | None = None


QUICK = "--config configs/csan/quickstart.py"
PAIRS = "--config.data.source=files --config.data.dir={here} --config.data.dev= --config.data.test="
EN_TO_DE = "--config.data.source_language=en --config.data.target_language=de"
TABLE = f"--config.data.train=t.tsv {EN_TO_DE}"
CSV = f"--config.data.train=t.csv {EN_TO_DE}"
OWN = "--config {} --config.data.dir={{here}} --config.data.train=t.csv --prepare"
TEXTS = OWN.format("attconv/texts")


def own(head, row, rows=300):
    """A CSV of one's own, with the row of each number."""
    return files(t_csv="".join(f"{line}\n" for line in [head, *map(row, range(rows))] if line))


HATS = files(t_csv="english,german\nA hat.,Ein Hut.\n")
TRIVIA = "--config.data.format=triviaqa --config.data.train={here}/qa/t.json "
TRIVIA += "--config.data.dev={here}/qa/d.json --config.data.test="
SCORE = "--task squad --predictions {here}/p.json --data {here}/d.json"
TRIGRAMS = '[{"name": "attconv_jax.models.cdssm:LetterTrigrams", "most": 2147483647}]'
VECTORS = "--config.data.vectors={here}/v.txt"


train, evaluate, predict, report, export, sweep, bench, csan, qanet, attconv = (
    functools.partial(Mistake, command)
    for command in (
        *("train", "evaluate", "predict", "report", "export", "sweep", "bench"),
        *("train csan", "train qanet", "train attconv"),
    )
)


def of_run(source, change):
    """A damaged copy of a run, which a prediction needs."""
    return predict("--workdir {here}/run", damaged(source, change))


def of_export(change):
    """A damaged copy of an export."""
    return predict("--model {here}/run", damaged("export", change))


def of_sweep(flags):
    return sweep(f"{QUICK} {flags} --out {{here}}/o")


MISTAKES = {
    "no --config": train(""),
    "a missing config file": train("--config no.py"),
    "a config with a syntax error": train("--config {here}/c.py", files(c_py="def (")),
    "a config that raises an exception": train("--config {here}/c.py", files(c_py="\n1/0")),
    "an unknown system of a config": train(f"{QUICK}:big"),
    "a misspelt installed config": train("--config csan/quikstart"),
    "a misspelt system": train("--config qanet/squad:no_convolutoin"),
    "an unknown config key": csan("--config.model.token_windw=3"),
    "text where a number is needed": qanet("--config.train.steps=ten"),
    "nan as the learning rate": csan("--config.optimizer.learning_rate=nan"),
    "a window of more heads than the model has": csan("--config.model.head_window=5"),
    "a number of heads that does not divide the width": qanet("--config.model.num_heads=3"),
    "an even filter width": attconv("--config.model.filter_width=4"),
    "an unknown rule of words": attconv("--config.words.rule=latin"),
    "more devices than the machine has": csan("--config.mesh.data=9"),
    "two mesh axes of -1": csan("--config.mesh.data=-1 --config.mesh.fsdp=-1"),
    "a cache folder that cannot be written": csan("--config.data.cache_dir=/proc/x"),
    "a beam wider than the vocabulary": csan("--config.decode.beam_size=100000"),
    "a workdir that cannot be written": csan("--workdir /proc/x/run"),
    "text as --profile": csan("--profile 3-5"),
    "a --profile beyond the end": csan("--profile 100:102"),
    "an unknown tracker": csan("--config.train.trackers=wandbb"),
    "a file as --workdir": csan("--workdir {here}/f", files(f="")),
    "the workdir of another family": csan("--workdir {qanet}"),
    "an export as --workdir": attconv("--workdir {export}"),
    "a backslash in --workdir": csan(r"--workdir {here}/a\\b"),
    "a bracket in --workdir": qanet("--workdir {here}/a[1]"),
    # Data.
    "parallel files of different lengths": csan(PAIRS, files(train_en="a\nb\n", train_de="a\n")),
    "a table of one column": csan(f"{PAIRS} {TABLE}", files(t_tsv="a\n")),
    "a table without its languages": csan(f"{PAIRS} --config.data.train=t.tsv"),
    "a file as its own translation": csan(
        f"{PAIRS} {EN_TO_DE.replace('=de', '=en')}", files(train_en="a\n")
    ),
    "a table with a header that is not known": csan(f"{PAIRS} {CSV}", HATS),
    "a column that a table does not have": csan(
        f"{PAIRS} {CSV} --config.data.columns=source=en,target=de", HATS
    ),
    "a table with more columns than are read": attconv(
        "--config.data.train=t.tsv --config.data.columns=",
        files(t_tsv="neutral\tA man.\tA dog.\tcat\n"),
    ),
    "two columns that can be the label": train(
        TEXTS, own("verdict,category,text", lambda n: f"{'ab'[n % 2]},{'cd'[n % 2]},Text {n}")
    ),
    "two columns that can be the text": train(
        TEXTS, own("label,title,body", lambda n: f"{'ab'[n % 2]},Title {n},Body {n}")
    ),
    "labels that differ by case": train(
        TEXTS, own("label,text", lambda n: f"{'Bad' if n < 5 else ['bad', 'good'][n % 2]},Text {n}")
    ),
    "labels 1 and 1.0": train(
        TEXTS, own("label,text", lambda n: f"{'1.0' if n < 5 else n % 2},Text {n}")
    ),
    "rows without a label": train(
        TEXTS, own("label,text", lambda n: f"{'' if n < 5 else 'ab'[n % 2]},Text {n}")
    ),
    "a first row that may be a header": train(TEXTS, own("", lambda n: f"{'ab'[n % 2]},Text {n}")),
    "too few texts to hold some out": train(
        TEXTS, own("label,text", lambda n: f"{'ab'[n % 2]},Text {n}", rows=90)
    ),
    "columns whose languages are not known": train(
        OWN.format("csan/pairs"), own("left,right", lambda n: f"Hat {n}.,Hut {n}.")
    ),
    "a small gzip file with a line of 300 MB": attconv("", bomb("train.tsv")),
    "a truncated gzip file": attconv(
        "", files(train_tsv=gzip.compress(b"neutral\ta\tb\n" * 99)[:40])
    ),
    "an unknown label": attconv("", files(train_tsv="neutral\ta\tb\nyes\ta\tb\n")),
    "an empty file": attconv("", files(train_tsv="")),
    "a file in UTF-16": attconv("", files(train_tsv="neutral".encode("utf-16"))),
    "JSON with 100,000 nested brackets": attconv(
        "--config.data.train=t.jsonl", files(t_jsonl=DEEP)
    ),
    "an unclosed quotation mark in CSV": attconv(
        "--config.data.train=t.csv", files(t_csv='"neutral,a,b\n')
    ),
    "a column that a JSON file does not have": attconv(
        "--config.data.train=t.json --config.data.columns=label=stars,first=a,second=b",
        files(t_json='[{"label": "neutral", "a": "x", "b": "y"}]'),
    ),
    "a table of an unknown layout": attconv(
        "--config.data.train=t.jsonl --config.data.columns=",
        files(t_jsonl='{"a": "neutral", "b": "x", "c": "y"}'),
    ),
    "a parquet file that is none": attconv(
        "--config.data.train=t.parquet", files(t_parquet="label,premise,hypothesis\n")
    ),
    "a pattern without files": attconv("--config.data.train=part-*.csv"),
    "an archive of two tables": attconv("--config.data.train=v.zip", zipped("a.csv", "b.csv")),
    "the same file for train and dev": attconv(
        "--config.data.train=t.tsv --config.data.dev=t.tsv", files(t_tsv="neutral\ta b\tc d\n")
    ),
    "text that is already cut into pieces": csan(
        f"{PAIRS} --config.data.holdout_size=1 --config.data.vocab_size=300 "
        f"--config.data.train=t {EN_TO_DE}",
        files(**{f"t_{end}": "".join(f"▁a ▁b {n}\n" for n in range(31)) for end in ("en", "de")}),
    ),
    "an empty name in a list of files": attconv("--config.data.train=a,,b"),
    "word vectors of another size": attconv(VECTORS, files(v_txt="the 1 2\n")),
    "a word vector with nan": attconv(VECTORS, files(v_txt="a 1 2 3 4 5 nan\n")),
    "a zip of two files": attconv("--config.data.vectors={here}/v.zip", zipped("a.txt", "b.txt")),
    "an answer outside its context": qanet(
        "", files(train_json=squad(answers=[{"text": "d", "answer_start": 2}]))
    ),
    "a repeated question id": qanet("", files(train_json=squad(twice=True))),
    "a path outside the evidence folder": qanet(TRIVIA, trivia("../../secret.txt")),
    "several files of TriviaQA": qanet(f"{TRIVIA}a,b"),
    # Scores.
    "neither a run nor a file": evaluate(""),
    "an unknown split": evaluate("--workdir {attconv} --split train"),
    "a mean of more checkpoints than are stored": evaluate("--workdir {attconv} --average 9"),
    "the same run twice": evaluate("--workdir {attconv} --workdir {attconv}"),
    "a comparison with an unscored run": evaluate("--workdir {attconv} --against {qanet}"),
    "a comparison with a run of another family": evaluate(
        "--workdir {attconv} --against {here}/run", damaged("qanet", score(f1=90.0))
    ),
    "a folder as --data": evaluate("--workdir {attconv} --data {here}"),
    "predictions in a list": evaluate(SCORE, files(p_json="[]", d_json=squad())),
    "two predictions for a question": evaluate(
        SCORE,
        files(p_json='{"id": "1", "answer": "b"}\n{"id": 1, "answer": "c"}\n', d_json=squad()),
    ),
    "predictions of other questions": evaluate(SCORE, files(p_json='{"2": "b"}', d_json=squad())),
    # Answers.
    "both a run and an export": predict("--workdir {attconv} --model {export}"),
    "a folder that is no run": predict("--workdir {here}"),
    "an option of another family": predict("--workdir {attconv} --beam_size 2"),
    "a beam of -1": predict("--workdir {csan} --beam_size -1"),
    "zero answers": predict("--workdir {qanet} --count 0"),
    "a file for the answer to --question": predict(
        "--workdir {qanet} --context README.md --question b --output {here}/o.jsonl"
    ),
    "its input as --output": predict(
        "--workdir {attconv} --input {here}/p.csv --output {here}/p.csv",
        files(p_csv="first,second\na,b\n"),
    ),
    "a folder as --context": predict("--workdir {qanet} --context {here} --question b"),
    "standard input that is not UTF-8": predict(
        "--workdir {csan} --on_bad_line stop", stdin=b"\xff\0"
    ),
    "three texts for a pair": predict("--workdir {attconv} --on_bad_line stop", stdin=b"a\tb\tc"),
    # Damaged runs.
    "a run of a newer version": of_run("attconv", values("config.json", version=99)),
    "a config with another width than the checkpoint": of_run(
        "attconv", values("config.json", config__model__dim=16)
    ),
    "a run without its vocabulary": of_run("attconv", lambda r: shutil.rmtree(r / "vocabulary")),
    "a damaged SentencePiece model": of_run("csan", text("vocabulary/joint.model", "x")),
    "a run without a checkpoint": of_run("attconv", lambda r: shutil.rmtree(r / "checkpoints")),
    "a truncated checkpoint": of_run("attconv", text("checkpoints/4/state/_METADATA", "[" * 9)),
    # Foreign exports.
    "a run as --model": predict("--model {attconv}"),
    "a program's path outside the export": of_export(
        sealed(values("export.json", programs={"../x.stablehlo": {}}))
    ),
    "a checksum's path outside the export": of_export(listed("../x")),
    "a safetensors header of impossible length": of_export(
        sealed(text("parameters.safetensors", struct.pack("<Q", 2**62) + b"{}"))
    ),
    "overlapping tensors": of_export(tensors({"a": tensor(2, 0, 8), "b": tensor(2, 4, 12)})),
    "parameters of 2^40 rows": of_export(
        tensors({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 12]}})
    ),
    "a vocabulary of more words than the parameters have": of_export(
        sealed(values("vocabulary/lexicon.json", shared=2**40))
    ),
    "inputs of 2^31 numbers a word": of_export(
        sealed(values("export.json", settings__inputs=TRIGRAMS))
    ),
    # Models by name.
    "a model of a hub without its owner": predict("--model hf://translator@main"),
    "a model of a hub without a revision": predict("--model hf://ada/translator"),
    "an address of an archive": predict("--model https://example.org/model.zip"),
    "a model of a hub without hf://": predict("--model ada/translator"),
    "a misspelt demo": predict("--model demo:csam"),
    "a vocabulary of a model without a revision": csan("--config.data.vocabulary_from=hf://ada/mt"),
    "a push without an owner": export("--workdir {attconv} --out {here}/x --push hf://mt"),
    # Exports.
    "an export into an existing folder": export("--workdir {attconv} --out {export}"),
    "an unknown format": export("--workdir {attconv} --out {here}/x --format pickle"),
    "a smaller type of a format without it": export(
        "--workdir {attconv} --out {here}/x --dtype int8"
    ),
    # Reports.
    "a report of a folder that is no run": report("{here} --out {here}/r.html"),
    "a report with a run twice": report("{csan} {csan} --out {here}/r"),
    "a report of an export": report("{export} --out {here}/r"),
    "a folder as --out": report("{csan} --out {here}"),
    "a report that is never written again": report("{csan} --out {here}/r --every 0"),
    "a report of an unknown split": report("{csan} {qanet} --out {here}/r --split x"),
    # Sweeps.
    "a field without values": of_sweep("--grid train.seed="),
    "a sweep of an unknown config key": of_sweep("--grid train.sed=1"),
    "a repeated value": of_sweep("--grid train.seed=1,1"),
    "zipped fields with different numbers of values": of_sweep(
        "--zip train.seed=1,2 --zip model.dim=8"
    ),
    "a million trials": of_sweep("--seeds 1000000"),
    "an unknown metric": of_sweep("--seeds 2 --metric dev.f1"),
    "a field that is swept, and set by its other name": of_sweep(
        "--grid model.token_window=3 --config.model.encoder_attention.token_window=5"
    ),
    "a field without effect in one of the systems": of_sweep(
        "--grid model.token_window=3,11 --systems transformer,csan_1d"
    ),
    "a metric by which no checkpoint is chosen": of_sweep("--config.train.best_metric=accuracy"),
    "the CPUs of a trial on this machine": of_sweep("--cpus 8"),
    "a list of trials as JSON": of_sweep("--dry_run --json"),
    "a sweep in no folder": sweep(f"{QUICK} --out ''"),
    "zero seeds": of_sweep("--seeds 0"),
    "a file as the sweep's folder": sweep(f"{QUICK} --out README.md"),
    # Times.
    "no command of bench": bench(""),
    "an even window": bench("attention --window 4"),
    "zero steps": bench(f"train {QUICK} --steps 0"),
    "an empty input file": bench("predict --workdir {attconv} --model {export} --input /dev/null"),
    "a benchmark of a run as --model": bench(
        "predict --workdir {attconv} --model {csan} --input README.md"
    ),
}
