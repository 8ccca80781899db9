"""Mistaken and hostile inputs of each command, and the error message of each."""

import dataclasses
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
    """A user's mistake and its message.

    Attributes:
      command: of `launch`; "train csan" adds the arguments of that family's tiny run.
      argv: {here} stands for the mistake's own folder, {csan}, {qanet} and {attconv} for runs, and
        {export} for an export.
      message: a pattern that the line matches.
      make: makes the mistake's files.
      stdin: standard input; None if it is not read.
    """

    command: str
    argv: str
    message: str
    make: Make = nothing
    stdin: bytes | None = None


QUICK = "--config configs/csan/quickstart.py"
OWN = "--config {here}/c.py"
RUN = "--workdir {here}/run"
AGAINST = "--workdir {attconv} --against {here}/run"
REPORT = "{here}/run --out {here}/r"
MODEL = "--model {here}/run"
LANGUAGES = "--config.data.source_language=en --config.data.target_language=de"
PAIRS = "--config.data.source=files --config.data.dir={here} --config.data.dev= --config.data.test="
EN_TO_DE = "--config.data.source_language=en --config.data.target_language=de"
TABLE = f"--config.data.train=t.tsv {EN_TO_DE}"
TRIVIA = "--config.data.format=triviaqa --config.data.train={here}/qa/t.json --config.data.test="
SCORE = "--task squad --predictions {here}/p.json --data {here}/d.json"
TRIGRAMS = '[{"name": "attconv_jax.models.cdssm:LetterTrigrams", "most": 2147483647}]'
VECTORS = "--config.data.vectors={here}/v.txt"


def of_run(message, source, change):
    """A damaged copy of a run, which a prediction needs."""
    return Mistake("predict", RUN, message, damaged(source, change))


def of_export(message, change):
    """A damaged copy of an export."""
    return Mistake("predict", MODEL, message, damaged("export", change))


def of_sweep(flags, message):
    return Mistake("sweep", f"{QUICK} {flags} --out {{here}}/o", message)


MISTAKES = {
    # Configs.
    "no --config": Mistake("train", "", "required: --config"),
    "a missing config file": Mistake("train", "--config no.py", "--config: no such file: no.py"),
    "a config with a syntax error": Mistake(
        "train", OWN, r"c\.py.*SyntaxError: .*line 1", files(c_py="def (")
    ),
    "a config that raises an exception": Mistake(
        "train", OWN, r"c\.py:2: ZeroDivisionError: division by zero", files(c_py="\n1/0")
    ),
    "an unknown system of a config": Mistake(
        "train", f"{QUICK}:big", "'big': must be transformer "
    ),
    "a misspelt installed config": Mistake(
        "train", "--config csan/quikstart", "no such file: .*; did you mean 'csan/quickstart'"
    ),
    "a misspelt system": Mistake(
        "train", "--config qanet/squad:no_convolutoin", "did you mean 'no_convolution'"
    ),
    "an unknown config key": Mistake(
        "train csan", "--config.model.token_windw=3", "unknown config key .* 'token_window'"
    ),
    "text where a number is needed": Mistake(
        "train qanet", "--config.train.steps=ten", "train.steps=ten: must be a whole number"
    ),
    "nan as the learning rate": Mistake(
        "train csan", "--config.optimizer.learning_rate=nan", "learning_rate: must be above 0"
    ),
    "a window of more heads than the model has": Mistake(
        "train csan", "--config.model.head_window=5", "a window of 5 heads does not fit 2 heads"
    ),
    "a number of heads that does not divide the width": Mistake(
        "train qanet", "--config.model.num_heads=3", "model.num_heads=3: must divide model.dim=8"
    ),
    "an even filter width": Mistake(
        "train attconv", "--config.model.filter_width=4", "model.filter_width=4: must be odd"
    ),
    "an unknown rule of words": Mistake(
        "train attconv",
        "--config.words.rule=latin",
        "words.rule='latin': must be english . unicode",
    ),
    "more devices than the machine has": Mistake(
        "train csan", "--config.mesh.data=9", "mesh.data=9: only 8 devices"
    ),
    "two mesh axes of -1": Mistake(
        "train csan", "--config.mesh.data=-1 --config.mesh.fsdp=-1", "mesh: only one axis can be -1"
    ),
    "a cache folder that cannot be written": Mistake(
        "train csan", "--config.data.cache_dir=/proc/x", "/proc/x: cannot prepare .* can be written"
    ),
    "a beam wider than the vocabulary": Mistake(
        "train csan", "--config.decode.beam_size=100000", "decode.beam_size=100000: at most"
    ),
    "a workdir that cannot be written": Mistake(
        "train csan", "--workdir /proc/x/run", "/proc/x/run: cannot be written: "
    ),
    "an unknown tracker": Mistake(
        "train csan", "--config.train.trackers=wandbb", "no tracker 'wandbb'; did you mean 'wandb'"
    ),
    "a file as --workdir": Mistake(
        "train csan", "--workdir {here}/f", "f is not the folder of a run: choose", files(f="")
    ),
    "the workdir of another family": Mistake(
        "train csan", "--workdir {qanet}", "holds a run of another task, .*: choose another"
    ),
    "an export as --workdir": Mistake(
        "train attconv", "--workdir {export}", "holds an export: choose another --workdir"
    ),
    "a backslash in --workdir": Mistake(
        "train csan", r"--workdir {here}/a\\b", r"a\\b: \\ in the path of a run: the libraries"
    ),
    "a bracket in --workdir": Mistake(
        "train qanet", "--workdir {here}/a[1]", r"a\[1\]: \[ in the path of a run: the libraries"
    ),
    # Data.
    "parallel files of different lengths": Mistake(
        "train csan", PAIRS, r"train\.de", files(train_en="a\nb\n", train_de="a\n")
    ),
    "a table of one column": Mistake(
        "train csan", f"{PAIRS} {TABLE}", r"t\.tsv:1", files(t_tsv="a\n")
    ),
    "a table without its languages": Mistake(
        "train csan", f"{PAIRS} --config.data.train=t.tsv", "t.tsv: name its languages, as in --"
    ),
    "a file as its own translation": Mistake(
        "train csan",
        f"{PAIRS} {EN_TO_DE.replace('=de', '=en')}",
        r"train\.en: the same file as train\.en",
        files(train_en="a\n"),
    ),
    "a table with a header that is not known": Mistake(
        "train csan",
        f"{PAIRS} {LANGUAGES} --config.data.train=t.csv",
        r"t\.csv:1: no header that is known",
        files(t_csv="english,german\nA hat.,Ein Hut.\n"),
    ),
    "a column that a table does not have": Mistake(
        "train csan",
        f"{PAIRS} {LANGUAGES} --config.data.train=t.csv --config.data.columns=source=en,target=de",
        r"data\.columns: .*t\.csv has no column 'en'; it has english, german",
        files(t_csv="english,german\nA hat.,Ein Hut.\n"),
    ),
    "a table with more columns than are read": Mistake(
        "train attconv",
        "--config.data.train=t.tsv --config.data.columns=",
        r"t\.tsv:1: 4 columns where 3 are needed",
        files(t_tsv="neutral\tA man.\tA dog.\tcat\n"),
    ),
    "a small gzip file with a line of 300 MB": Mistake(
        "train attconv",
        "",
        r"train\.tsv:1: a line of more than 256 MiB; split it",
        bomb("train.tsv"),
    ),
    "a truncated gzip file": Mistake(
        "train attconv",
        "",
        r"train\.tsv:1: the gzip data is damaged or cut off",
        files(train_tsv=gzip.compress(b"neutral\ta\tb\n" * 99)[:40]),
    ),
    "an unknown label": Mistake(
        "train attconv", "", r"train\.tsv:2", files(train_tsv="neutral\ta\tb\nyes\ta\tb\n")
    ),
    "an empty file": Mistake("train attconv", "", r"train\.tsv", files(train_tsv="")),
    "a file in UTF-16": Mistake(
        "train attconv", "", r"train\.tsv:1: not UTF-8", files(train_tsv="neutral".encode("utf-16"))
    ),
    "JSON with 100,000 nested brackets": Mistake(
        "train attconv",
        "--config.data.train=t.jsonl",
        r"t\.jsonl:1: not JSON that can be read \(nested too deeply\); fix it, or",
        files(t_jsonl=DEEP),
    ),
    "an unclosed quotation mark in CSV": Mistake(
        "train attconv",
        "--config.data.train=t.csv",
        r"t\.csv:1: not CSV",
        files(t_csv='"neutral,a,b\n'),
    ),
    "a column that a JSON file does not have": Mistake(
        "train attconv",
        "--config.data.train=t.json --config.data.columns=label=stars,first=a,second=b",
        r"data\.columns: .*t\.json has no column 'stars'; it has label, a, b",
        files(t_json='[{"label": "neutral", "a": "x", "b": "y"}]'),
    ),
    "a table of an unknown layout": Mistake(
        "train attconv",
        "--config.data.train=t.jsonl --config.data.columns=",
        r"t\.jsonl: no columns that are known: a, b, c; set data\.columns=label=NAME,first=NAME",
        files(t_jsonl='{"a": "neutral", "b": "x", "c": "y"}'),
    ),
    "a parquet file that is none": Mistake(
        "train attconv",
        "--config.data.train=t.parquet",
        r"t\.parquet: not a parquet file that can be read",
        files(t_parquet="label,premise,hypothesis\n"),
    ),
    "a list of JSON as JSON lines": Mistake(
        "train attconv",
        "--config.data.train=t.jsonl",
        r"t\.jsonl:1: a list where JSON lines, an object a line, are needed; name it \.json",
        files(t_jsonl='[\n{"label": "neutral"}\n]'),
    ),
    "a pattern without files": Mistake(
        "train attconv",
        "--config.data.train=part-*.csv",
        r"data\.train=part-\*\.csv: no file in .* matches this pattern",
    ),
    "an archive of two tables": Mistake(
        "train attconv",
        "--config.data.train=v.zip",
        r"v\.zip: 2 files in it \(a\.csv, b\.csv\); unpack it and name the one",
        zipped("a.csv", "b.csv"),
    ),
    "the same file for train and dev": Mistake(
        "train attconv",
        "--config.data.train=t.tsv --config.data.dev=t.tsv",
        r"data\.dev=t\.tsv: .*t\.tsv is also in data\.train; name other files",
        files(t_tsv="neutral\ta b\tc d\n"),
    ),
    "text that is already cut into pieces": Mistake(
        "train csan",
        f"{PAIRS} --config.data.holdout_size=1 --config.data.vocab_size=300 {TABLE}",
        r"data\.train=t\.tsv: 29 of 29 pairs have ▁ \(U\+2581\): already cut into pieces",
        files(t_tsv="".join(f"▁a ▁b {n}\t▁c ▁d {n}\n" for n in range(31))),
    ),
    "an empty name in a list of files": Mistake(
        "train attconv", "--config.data.train=a,,b", "data.train: name its files"
    ),
    "word vectors of another size": Mistake(
        "train attconv", VECTORS, "set it to 2", files(v_txt="the 1 2\n")
    ),
    "a word vector with nan": Mistake(
        "train attconv", VECTORS, r"v\.txt:1", files(v_txt="a 1 2 3 4 5 nan\n")
    ),
    "a zip of two files": Mistake(
        "train attconv",
        "--config.data.vectors={here}/v.zip",
        r"v\.zip: 2 files in it ending in \.txt; unpack it",
        zipped("a.txt", "b.txt"),
    ),
    "an answer outside its context": Mistake(
        "train qanet",
        "",
        r"train\.json: data\[0\].*answers\[0\]: answer not at its answer_start",
        files(train_json=squad(answers=[{"text": "b", "answer_start": 10**9}])),
    ),
    "a repeated question id": Mistake(
        "train qanet", "", "an id that an earlier question has", files(train_json=squad(twice=True))
    ),
    "a path outside the evidence folder": Mistake(
        "train qanet", TRIVIA, "no such file in .*evidence/wikipedia", trivia("../../secret.txt")
    ),
    "several files of TriviaQA": Mistake(
        "train qanet", f"{TRIVIA}a,b", "data.test=a,b: one file, unless data.format is squad"
    ),
    # Scores.
    "neither a run nor a file": Mistake("evaluate", "", "give --workdir, or --task"),
    "an unknown split": Mistake(
        "evaluate", "--workdir {attconv} --split train", "--split train: must be dev | test"
    ),
    "a mean of more checkpoints than are stored": Mistake(
        "evaluate", "--workdir {attconv} --average 9", "has 1 checkpoints, too few to average 9"
    ),
    "the same run twice": Mistake(
        "evaluate", "--workdir {attconv} --workdir {attconv}", "--workdir .*attconv: given twice"
    ),
    "a comparison with an unscored run": Mistake(
        "evaluate", "--workdir {attconv} --against {qanet}", "test.json: not there; score test of"
    ),
    "a comparison with a run of another family": Mistake(
        "evaluate",
        AGAINST,
        "run: a run of SpanExtraction is not compared with one of SentenceClassification",
        damaged("qanet", score(f1=90.0)),
    ),
    "a folder as --data": Mistake(
        "evaluate", "--workdir {attconv} --data {here}", "a folder, not a file"
    ),
    "predictions in a list": Mistake(
        "evaluate",
        SCORE,
        "p.json: needs one object, {id: answer, ...}, or rows of id and answer; it has no row",
        files(p_json="[]", d_json=squad()),
    ),
    "two predictions for a question": Mistake(
        "evaluate",
        SCORE,
        r"p\.json:2: repeats the id '1'",
        files(p_json='{"id": "1", "answer": "b"}\n{"id": 1, "answer": "c"}\n', d_json=squad()),
    ),
    "predictions of other questions": Mistake(
        "evaluate",
        SCORE,
        r"p\.json: no answer to any question of .*d\.json",
        files(p_json='{"2": "b"}', d_json=squad()),
    ),
    # Answers.
    "both a run and an export": Mistake(
        "predict", "--workdir {attconv} --model {export}", "--model: not allowed with .*--workdir"
    ),
    "a folder that is no run": Mistake(
        "predict", "--workdir {here}", r"not the folder of a run \(no config.json\)"
    ),
    "an option of another family": Mistake(
        "predict", "--workdir {attconv} --beam_size 2", "no option beam_size; it has explain"
    ),
    "a beam of -1": Mistake(
        "predict", "--workdir {csan} --beam_size -1", "beam_size=-1: at least 1"
    ),
    "zero answers": Mistake("predict", "--workdir {qanet} --count 0", "count=0: at least 1"),
    "a file for the answer to --question": Mistake(
        "predict",
        "--workdir {qanet} --context README.md --question b --output {here}/o.jsonl",
        "--output does not go with --context",
    ),
    "its input as --output": Mistake(
        "predict",
        "--workdir {attconv} --input {here}/p.csv --output {here}/p.csv",
        "--output: the same file as --input",
        files(p_csv="first,second\na,b\n"),
    ),
    "a folder as --context": Mistake(
        "predict", "--workdir {qanet} --context {here} --question b", "Is a directory"
    ),
    "standard input that is not UTF-8": Mistake(
        "predict",
        "--workdir {csan} --on_bad_line stop",
        "standard input:1: not UTF-8",
        stdin=b"\xff\0",
    ),
    "three texts for a pair": Mistake(
        "predict",
        "--workdir {attconv} --on_bad_line stop",
        "a pair is 2 texts separated by a tab, not 3",
        stdin=b"a\tb\tc",
    ),
    # Damaged runs.
    "a run of a newer version": of_run(
        "version 99; this code reads 1", "attconv", values("config.json", version=99)
    ),
    "a config with another width than the checkpoint": of_run(
        r"float32 \[8\], the model expects float32 \[16\]",
        "attconv",
        values("config.json", config__model__dim=16),
    ),
    "a run without its vocabulary": of_run(
        "vocabulary: not a complete vocabulary .*No such file",
        "attconv",
        lambda r: shutil.rmtree(r / "vocabulary"),
    ),
    "a damaged SentencePiece model": of_run(
        "not a SentencePiece model", "csan", text("vocabulary/joint.model", "x")
    ),
    "a run without a checkpoint": of_run(
        "run: has no checkpoint yet", "attconv", lambda r: shutil.rmtree(r / "checkpoints")
    ),
    "a truncated checkpoint": of_run(
        "checkpoints/1: state/_METADATA: 9 bytes, not",
        "attconv",
        text("checkpoints/1/state/_METADATA", "[" * 9),
    ),
    # Foreign exports.
    "a run as --model": Mistake("predict", "--model {attconv}", "it is a run: give it as --wor"),
    "a program's path outside the export": of_export(
        r"programs: '\.\./x\.stablehlo': not a program's file",
        sealed(values("export.json", programs={"../x.stablehlo": {}})),
    ),
    "a checksum's path outside the export": of_export("checksums.json: damaged", listed("../x")),
    "a safetensors header of impossible length": of_export(
        "not a complete safetensors file",
        sealed(text("parameters.safetensors", struct.pack("<Q", 2**62) + b"{}")),
    ),
    "overlapping tensors": of_export(
        "not a complete safetensors file", tensors({"a": tensor(2, 0, 8), "b": tensor(2, 4, 12)})
    ),
    "parameters of 2^40 rows": of_export(
        "not a complete safetensors file",
        tensors({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 12]}}),
    ),
    "a vocabulary of more words than the parameters have": of_export(
        "vocabulary: has .* ids, but word_embedding has .* rows",
        sealed(values("vocabulary/lexicon.json", shared=2**40)),
    ),
    "inputs of 2^31 numbers a word": of_export(
        "export.json: inputs: .*LetterTrigrams: 2147483647 numbers; at most 1000",
        sealed(values("export.json", settings__inputs=TRIGRAMS)),
    ),
    # Models by name.
    "a model of a hub without its owner": Mistake(
        "predict", "--model hf://translator@main", "write hf://OWNER/NAME@REVISION"
    ),
    "a model of a hub without a revision": Mistake(
        "predict", "--model hf://ada/translator", "has no revision; add @ and a commit, a tag or a"
    ),
    "a page in the place of an archive": Mistake(
        "predict", "--model https://example.org/model", "not the address of an archive"
    ),
    "a blank in the address of an archive": Mistake(
        "predict", "--model 'https://example.org/my model.zip'", "cannot be read: URL can't contain"
    ),
    "no address of an archive": Mistake(
        "predict", "--model https://[abc/m.zip", "not the address of an archive"
    ),
    "a model at an address without encryption": Mistake(
        "predict", "--model http://example.org/m.zip", "also by name: hf://.*, https://HOST/ARCH"
    ),
    "a model of a hub without hf://": Mistake(
        "predict", "--model ada/translator", "no such folder; models also by name: hf://OWNER/NA"
    ),
    "a misspelt demo": Mistake("predict", "--model demo:csam", "did you mean 'csan'"),
    "a vocabulary of a model without a revision": Mistake(
        "train csan", "--config.data.vocabulary_from=hf://ada/mt", "hf://ada/mt: has no revision"
    ),
    "a push without an owner": Mistake(
        "export", "--workdir {attconv} --out {here}/x --push hf://mt", "write hf://OWNER/NAME"
    ),
    # Exports.
    "an export into an existing folder": Mistake(
        "export", "--workdir {attconv} --out {export}", "already exists; choose another --out"
    ),
    "an unknown format": Mistake(
        "export", "--workdir {attconv} --out {here}/x --format pickle", "choose from 'stablehlo'"
    ),
    # Reports.
    "a report of a folder that is no run": Mistake(
        "report", "{here} --out {here}/r.html", "not the folder of a run"
    ),
    "a report with a run twice": Mistake("report", "{csan} {csan} --out {here}/r", "given twice"),
    "a report of an export": Mistake("report", "{export} --out {here}/r", "a report needs runs"),
    "a folder as --out": Mistake("report", "{csan} --out {here}", "is a folder; name a file"),
    "a report of an unknown split": Mistake(
        "report", "{csan} {qanet} --out {here}/r --split x", "--split x: must be dev | test"
    ),
    # Sweeps.
    "a field without values": of_sweep("--grid train.seed=", "write KEY=VALUE,VALUE"),
    "a sweep of an unknown config key": of_sweep("--grid train.sed=1", "did you mean 'seed'"),
    "a repeated value": of_sweep("--grid train.seed=1,1", "train.seed=1: the same as another"),
    "zipped fields with different numbers of values": of_sweep(
        "--zip train.seed=1,2 --zip model.dim=8", "equally many values, not 2 and 1"
    ),
    "a million trials": of_sweep("--seeds 1000000", "1000000 trials: at most 10000"),
    "an unknown metric": of_sweep("--seeds 2 --metric dev.f1", "dev has sacrebleu"),
    "a field that is swept, and set by its other name": of_sweep(
        "--grid model.token_window=3 --config.model.encoder_attention.token_window=5",
        "model.token_window: swept, and set with --config.model.encoder_attention.token_window too",
    ),
    "a field without effect in one of the systems": of_sweep(
        "--grid model.token_window=3,11 --systems transformer,csan_1d",
        "has no effect with this config's model.encoder_attention.local_layers",
    ),
    "a metric by which no checkpoint is chosen": of_sweep(
        "--config.train.best_metric=accuracy", "train.best_metric='accuracy': must be sacrebleu"
    ),
    "the CPUs of a trial on this machine": of_sweep("--cpus 8", "--cpus: goes with --executor ray"),
    "a list of trials as JSON": of_sweep("--dry_run --json", "--json does not go with --dry_run"),
    "a sweep in no folder": Mistake("sweep", f"{QUICK} --out ''", "--out: name a folder"),
    "zero seeds": of_sweep("--seeds 0", "a whole number above 0"),
    "a file as the sweep's folder": Mistake(
        "sweep", f"{QUICK} --out README.md", "README.md: not a folder"
    ),
    # Times.
    "no command of bench": Mistake("bench", "", "required: COMMAND"),
    "an even window": Mistake("bench", "attention --window 4", "odd number of tokens, not 4"),
    "zero steps": Mistake("bench", f"train {QUICK} --steps 0", "must be a whole number above 0"),
    "an empty input file": Mistake(
        "bench", "predict --workdir {attconv} --model {export} --input /dev/null", "has no line"
    ),
    "a benchmark of a run as --model": Mistake(
        "bench", "predict --workdir {attconv} --model {csan} --input README.md", "not an export"
    ),
}
