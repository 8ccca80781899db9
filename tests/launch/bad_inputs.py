"""What careless and hostile people try, command by command, and the line that answers it."""

import dataclasses
import gzip
import json
import os
import shutil
import struct

from tests.launch.corrupt_files import (
    DEEP,
    DIGITS,
    Make,
    bomb,
    damaged,
    files,
    listed,
    loop,
    not_utf8,
    nothing,
    pipe,
    results,
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
    """A mistake of a user, and its message.

    Attributes:
      command: of `launch`; "train csan" is with the arguments of that family's tiny run.
      argv: with {here}, the mistake's own folder, and {csan}, {qanet}, {attconv}, which are runs.
      message: of the line, a pattern.
      make: its files.
      stdin: None is not read.
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
PAIRS = "--config.data.source=files --config.data.dir={here} --config.data.dev= --config.data.test="
TRIVIA = "--config.data.format=triviaqa --config.data.train={here}/qa/t.json --config.data.test="
SCORE = "--task squad --predictions {here}/p.json --data {here}/d.json"
VECTORS = "--config.data.vectors={here}/v.txt"
ASK = {"context": "a b", "question": "b?"}

MISTAKES = {
    # Configs.
    "no config": Mistake("train", "", "required: --config"),
    "a config that is not there": Mistake(
        "train", "--config no.py", "--config: no such file: no.py"
    ),
    "a folder for a config": Mistake("train", "--config {here}", "--config: no such file"),
    "a config's name of 300 letters": Mistake("train", "--config {long}", "--config: no such file"),
    "a config that is no Python": Mistake(
        "train", OWN, r"c\.py.*SyntaxError: .*line 1", files(c_py="def (")
    ),
    "a config in bytes": Mistake("train", OWN, "c.py: SyntaxError", files(c_py=b"\0\xff")),
    "a config of nothing": Mistake("train", OWN, "c.py: there is no get_config", files(c_py="")),
    "a config that raises": Mistake(
        "train", OWN, r"c\.py:2: ZeroDivisionError: division by zero", files(c_py="\n1/0")
    ),
    "a config that raises, swept": Mistake(
        "sweep", f"{OWN} --grid x=1 --out {{here}}/o", r"c\.py:1: KeyError", files(c_py="{}['x']")
    ),
    "a config that leaves": Mistake(
        "bench", f"train {OWN}", r"c\.py:1: SystemExit", files(c_py="raise SystemExit(0)")
    ),
    "a config's argument that it does not take": Mistake(
        "train", f"{QUICK}:big", "'big': must be transformer "
    ),
    "a key that there is not": Mistake(
        "train csan", "--config.model.token_windw=3", "unknown config key .* 'token_window'"
    ),
    "a word for a number": Mistake(
        "train qanet", "--config.train.steps=ten", "train.steps=ten: must be a whole number"
    ),
    "a number of 30 digits": Mistake(
        "train attconv",
        f"--config.train.seed={'9' * 30}",
        r"train.seed=9+\.\.\.: at most 2147483647",
    ),
    "a seed below 0": Mistake("train csan", "--config.train.seed=-1", "train.seed=-1: at least 0"),
    "no number for a rate": Mistake(
        "train csan", "--config.optimizer.learning_rate=nan", "learning_rate: must be above 0"
    ),
    "a rate without an end": Mistake(
        "train csan", "--config.optimizer.learning_rate=inf", "learning_rate: must be finite"
    ),
    "a decay above 1": Mistake(
        "train csan", "--config.optimizer.b1=7", r"optimizer.b1=7.0: a rate in \[0, 1\)"
    ),
    "an epsilon below 0": Mistake(
        "train csan", "--config.optimizer.eps=-1", "optimizer.eps=-1.0: must not be negative"
    ),
    "a window for no heads": Mistake(
        "train csan", "--config.model.head_window=5", "a window of 5 heads does not fit 2 heads"
    ),
    "heads that do not divide": Mistake(
        "train qanet", "--config.model.num_heads=3", "model.num_heads=3: must divide model.dim=8"
    ),
    "an even width": Mistake(
        "train attconv", "--config.model.filter_width=4", "model.filter_width=4: must be odd"
    ),
    "more devices than there are": Mistake(
        "train csan", "--config.mesh.data=9", "mesh.data=9: only 8 devices"
    ),
    "two open axes of a mesh": Mistake(
        "train csan", "--config.mesh.data=-1 --config.mesh.fsdp=-1", "mesh: only one axis can be -1"
    ),
    "nobody's home for a cache": Mistake(
        "train csan",
        "--config.data.cache_dir=~nobody1/x",
        "data.cache_dir=~nobody1/x: .*no such home",
    ),
    "nobody's home for data": Mistake(
        "train csan",
        "--config.data.source=files --config.data.dir=~nobody1/x",
        "data.dir=~nobody1/x: no such folder",
    ),
    "a path that is no text": Mistake(
        "train csan", "--config.data.dir=a\udcff", r"data.dir='a\\udcff': .* no character"
    ),
    "a cache that cannot be": Mistake(
        "train csan", "--config.data.cache_dir=/proc/x", "/proc/x: cannot prepare .* can be written"
    ),
    "a beam wider than the vocabulary": Mistake(
        "train csan", "--config.decode.beam_size=100000", "decode.beam_size=100000: at most"
    ),
    "a workdir without a name": Mistake("train csan", "--workdir ''", "--workdir: name a folder"),
    "a workdir's name of 300 letters": Mistake("train csan", "--workdir {long}", "name too long"),
    "a file for a workdir": Mistake(
        "train csan", "--workdir {here}/f", "f is not the folder of a run: choose", files(f="")
    ),
    "a workdir in a file": Mistake(
        "train csan", "--workdir {here}/f/g", "f/g: cannot be written: Not a directory", files(f="")
    ),
    "a workdir that links to itself": Mistake(
        "train csan", "--workdir {here}/loop", "loop: cannot be written", loop
    ),
    "the workdir of another family": Mistake(
        "train csan", "--workdir {qanet}", "holds a run of another task, .*: choose another"
    ),
    "an export for a workdir": Mistake(
        "train attconv", "--workdir {export}", "holds an export: choose another --workdir"
    ),
    # Data.
    "texts of unequal length": Mistake(
        "train csan", PAIRS, r"train\.de", files(train_en="a\nb\n", train_de="a\n")
    ),
    "a table of one column": Mistake(
        "train csan", f"{PAIRS} --config.data.train=t.tsv", r"t\.tsv:1", files(t_tsv="a\n")
    ),
    "300 MB of one line in a small file": Mistake(
        "train attconv",
        "",
        r"train\.tsv:1: a line of more than 256 MiB; split it",
        bomb("train.tsv"),
    ),
    "half a gzip": Mistake(
        "train attconv",
        "",
        r"train\.tsv:1: the gzip data is damaged or cut off",
        files(train_tsv=gzip.compress(b"neutral\ta\tb\n" * 99)[:40]),
    ),
    "a label that there is not": Mistake(
        "train attconv", "", r"train\.tsv:1", files(train_tsv="yes\ta\tb\n")
    ),
    "an empty file": Mistake("train attconv", "", r"train\.tsv", files(train_tsv="")),
    "UTF-16": Mistake(
        "train attconv", "", r"train\.tsv:1: not UTF-8", files(train_tsv="neutral".encode("utf-16"))
    ),
    "100,000 brackets in a line": Mistake(
        "train attconv",
        "--config.data.train=t.jsonl",
        r"t\.jsonl:1: not JSON that can be read \(nested too deeply\); fix it, or",
        files(t_jsonl=DEEP),
    ),
    "a number of 5,000 digits": Mistake(
        "train attconv",
        "--config.data.train=t.jsonl",
        r"t\.jsonl:1: not JSON that can be read \(a number with too many digits\)",
        files(t_jsonl=f'{{"gold_label": {DIGITS}}}'),
    ),
    "half a character": Mistake(
        "train attconv",
        "--config.data.train=t.jsonl",
        r"t\.jsonl:1: sentence1: .* is half a character",
        files(t_jsonl=json.dumps({"gold_label": "neutral", "sentence1": "\ud800"})),
    ),
    "a quotation without an end": Mistake(
        "train attconv",
        "--config.data.train=t.csv",
        r"t\.csv:1: not CSV",
        files(t_csv='"neutral,a,b\n'),
    ),
    "no name between commas": Mistake(
        "train attconv", "--config.data.train=a,,b", "data.train: name its files"
    ),
    "a vector of another size": Mistake(
        "train attconv", VECTORS, "set it to 2", files(v_txt="the 1 2\n")
    ),
    "a vector that is no number": Mistake(
        "train attconv", VECTORS, r"v\.txt:1", files(v_txt="a 1 2 3 4 5 nan\n")
    ),
    "a zip of two files": Mistake(
        "train attconv",
        "--config.data.vectors={here}/v.zip",
        r"v\.zip: 2 files in it ending in \.txt; unpack it",
        zipped("a.txt", "b.txt"),
    ),
    "brackets for questions": Mistake(
        "train qanet", "", r"train\.json: .*nested too deeply", files(train_json=DEEP)
    ),
    "an answer out of range": Mistake(
        "train qanet",
        "",
        r"train\.json: data\[0\].*answers\[0\]: answer not at its answer_start",
        files(train_json=squad(answers=[{"text": "b", "answer_start": 10**9}])),
    ),
    "an answer beyond all numbers": Mistake(
        "train qanet",
        "",
        r"train\.json: data\[0\].*answer_start: a number beyond 2\^63",
        files(train_json=squad(answers=[{"text": "b", "answer_start": 10**30}])),
    ),
    "an id twice": Mistake(
        "train qanet", "", "an id that an earlier question has", files(train_json=squad(twice=True))
    ),
    "a page out of the evidence": Mistake(
        "train qanet", TRIVIA, "no such file in .*evidence/wikipedia", trivia("../../secret.txt")
    ),
    "a page of 300 letters": Mistake("train qanet", TRIVIA, "no such file in", trivia("a" * 300)),
    # Scores.
    "neither a run nor a file": Mistake("evaluate", "", "give --workdir, or --task"),
    "a split that there is not": Mistake(
        "evaluate", "--workdir {attconv} --split train", "--split train: must be dev | test"
    ),
    "more checkpoints than there are": Mistake(
        "evaluate", "--workdir {attconv} --average 9", "has 1 checkpoints, too few to average 9"
    ),
    "a run twice": Mistake(
        "evaluate", "--workdir {attconv} --workdir {attconv}", "--workdir .*attconv: given twice"
    ),
    "a run that was not scored": Mistake(
        "evaluate", "--workdir {attconv} --against {qanet}", "test.json: not there; score test of"
    ),
    "a score that is a list": Mistake(
        "evaluate",
        AGAINST,
        "run/eval/test.json: no scores; score test of that run again",
        damaged("attconv", text("eval/test.json", "[]")),
    ),
    "more right answers than answers": Mistake(
        "evaluate",
        AGAINST,
        r"test\.json: 9 of 1 answers are right",
        damaged("attconv", score(correct=9, examples=1)),
    ),
    "a score without right answers": Mistake(
        "evaluate",
        AGAINST,
        "run: its score of test counts no right answers",
        damaged("attconv", score(accuracy=90.0)),
    ),
    "a run of another family": Mistake(
        "evaluate",
        AGAINST,
        "run: a run of SpanExtraction is not compared with one of SentenceClassification",
        damaged("qanet", score(f1=90.0)),
    ),
    "results of examples with a word": Mistake(
        "evaluate",
        AGAINST,
        r"test\.examples\.tsv:2: needs 0 and 2 numbers",
        damaged("attconv", results("index\tlength\tright\n0\tx\t1\n")),
    ),
    "a folder for data": Mistake(
        "evaluate", "--workdir {attconv} --data {here}", "a folder, not a file"
    ),
    "a program for data": Mistake(
        "evaluate", "--workdir {attconv} --data /bin/ls", "/bin/ls:1: not UTF-8"
    ),
    "brackets for predictions": Mistake(
        "evaluate", SCORE, r"p\.json: .*nested too deeply", files(p_json=DEEP, d_json=squad())
    ),
    "predictions of a list": Mistake(
        "evaluate",
        SCORE,
        "p.json: needs one object, {id: answer",
        files(p_json="[]", d_json=squad()),
    ),
    "predictions of other questions": Mistake(
        "evaluate",
        SCORE,
        r"p\.json: no answer to any question of .*d\.json",
        files(p_json='{"2": "b"}', d_json=squad()),
    ),
    "the same question twice": Mistake(
        "evaluate",
        SCORE,
        r"d\.json: .* the id '1' a second time",
        files(p_json='{"1": "b"}', d_json=squad(twice=True)),
    ),
    # Answers.
    "a run and an export": Mistake(
        "predict", "--workdir {attconv} --model {export}", "--model: not allowed with .*--workdir"
    ),
    "a folder that is no run": Mistake(
        "predict", "--workdir {here}", r"not the folder of a run \(no config.json\)"
    ),
    "an option of another family": Mistake(
        "predict", "--workdir {attconv} --beam_size 2", "no option beam_size; it has explain"
    ),
    "no hypothesis": Mistake(
        "predict", "--workdir {csan} --beam_size -1", "beam_size=-1: at least 1"
    ),
    "more hypotheses than pieces": Mistake(
        "predict", "--workdir {csan} --beam_size 99999999999", "beam_size=99999999999: at most 400"
    ),
    "no answer": Mistake("predict", "--workdir {qanet} --count 0", "count=0: at least 1"),
    "a folder for a context": Mistake(
        "predict", "--workdir {qanet} --context {here} --question b", "Is a directory"
    ),
    "a question that is no text": Mistake(
        "predict",
        "--workdir {qanet} --context README.md --question \udcff",
        "--question: not UTF-8",
    ),
    "bytes on standard input": Mistake(
        "predict", "--workdir {csan}", "standard input:1: not UTF-8", stdin=b"\xff\0"
    ),
    "standard input without a line's end": Mistake(
        "predict",
        "--workdir {csan}",
        "standard input:1: a line of more than 256 MiB; split it",
        stdin=bytes(2**28 + 1),
    ),
    "brackets on standard input": Mistake(
        "predict", "--workdir {qanet}", "standard input:1: .*nested too deeply", stdin=DEEP.encode()
    ),
    "an id that no JSON has": Mistake(
        "predict",
        "--workdir {qanet}",
        "standard input:1: id: a number where a string is needed",
        stdin=json.dumps(ASK | {"id": float("nan")}).encode(),
    ),
    "half a character in a list": Mistake(
        "predict",
        "--workdir {qanet}",
        "standard input:1: id: a list where a string is needed",
        stdin=json.dumps(ASK | {"id": ["\ud800"]}).encode(),
    ),
    "three texts for a pair": Mistake(
        "predict",
        "--workdir {attconv}",
        "a pair is 2 texts separated by a tab, not 3",
        stdin=b"a\tb\tc",
    ),
    # Damaged runs.
    "brackets for a config": Mistake(
        "predict",
        RUN,
        r"config\.json: .*nested too deeply",
        damaged("attconv", text("config.json", DEEP)),
    ),
    "a config of a newer version": Mistake(
        "predict",
        RUN,
        "version 99; this code reads 1",
        damaged("attconv", values("config.json", version=99)),
    ),
    "a rate of 400 digits": Mistake(
        "predict",
        RUN,
        r"learning_rate=10*\.\.\.: at most",
        damaged("attconv", values("config.json", config__optimizer__learning_rate=10**400)),
    ),
    "a group of keys that is a list": Mistake(
        "predict",
        RUN,
        "config key 'data' is a group of keys",
        damaged("attconv", values("config.json", config__data=[])),
    ),
    "labels of half a character": Mistake(
        "predict",
        RUN,
        "data.labels=.* no character that a file can hold",
        damaged("attconv", values("config.json", config__data__labels="a,b,\ud800")),
    ),
    "another width than was trained": Mistake(
        "predict",
        RUN,
        r"float32 \[8\], the model expects float32 \[16\]",
        damaged("attconv", values("config.json", config__model__dim=16)),
    ),
    "no vocabulary": Mistake(
        "predict",
        RUN,
        "vocabulary: not a complete vocabulary .*No such file",
        damaged("attconv", lambda r: shutil.rmtree(r / "vocabulary")),
    ),
    "brackets for a vocabulary": Mistake(
        "predict",
        RUN,
        "vocabulary: not a complete vocabulary",
        damaged("attconv", text("vocabulary/lexicon.json", DEEP)),
    ),
    "a word's number of 30 digits": Mistake(
        "predict",
        RUN,
        "not a complete vocabulary .*'a' has the number 10+",
        damaged("attconv", values("vocabulary/lexicon.json", words={"a": 10**30})),
    ),
    "a word's number without a row": Mistake(
        "predict",
        RUN,
        "not a complete vocabulary .*'a' has the number -5",
        damaged("qanet", values("vocabulary/lexicon.json", words={"a": -5})),
    ),
    "no SentencePiece": Mistake(
        "predict",
        RUN,
        "not a SentencePiece model",
        damaged("csan", text("vocabulary/joint.model", "x")),
    ),
    "bytes for SentencePiece's pieces": Mistake(
        "predict",
        RUN,
        "not a SentencePiece model",
        damaged("csan", not_utf8),
    ),
    "no checkpoint": Mistake(
        "predict",
        RUN,
        "run: has no checkpoint yet",
        damaged("attconv", lambda r: shutil.rmtree(r / "checkpoints")),
    ),
    "half a checkpoint": Mistake(
        "predict",
        RUN,
        "checkpoints/1: state/_METADATA: 9 bytes, not",
        damaged("attconv", text("checkpoints/1/state/_METADATA", "[" * 9)),
    ),
    "a pipe for checksums": Mistake(
        "predict",
        RUN,
        "checkpoints/1: checksums.json: damaged",
        damaged("attconv", pipe("checkpoints/1/checksums.json")),
    ),
    # Foreign exports.
    "an export that is a run": Mistake(
        "predict", "--model {attconv}", "it is a run: give it as --wor"
    ),
    "an export's name of 300 letters": Mistake("predict", "--model {long}", "a: no such folder"),
    "brackets for a manifest": Mistake(
        "predict",
        MODEL,
        r"export\.json: .*nested too deeply",
        damaged("export", text("export.json", DEEP)),
    ),
    "a program out of the export": Mistake(
        "predict",
        MODEL,
        r"programs: '\.\./x\.stablehlo': not a program's file",
        damaged("export", sealed(values("export.json", programs={"../x.stablehlo": {}}))),
    ),
    "a setting of 30 digits": Mistake(
        "predict",
        MODEL,
        r"settings.eval_batch_tokens=10+\.\.\.: at most",
        damaged("export", sealed(values("export.json", settings__eval_batch_tokens=10**30))),
    ),
    "checksums of a device": Mistake(
        "predict", MODEL, "checksums.json: damaged", damaged("export", listed("/dev/zero"))
    ),
    "checksums out of the export": Mistake(
        "predict", MODEL, "checksums.json: damaged", damaged("export", listed("../x"))
    ),
    "checksums of half a character": Mistake(
        "predict", MODEL, "checksums.json: damaged", damaged("export", listed("\ud800"))
    ),
    "a pipe for parameters": Mistake(
        "predict",
        MODEL,
        "parameters.safetensors: neither a file nor a folder",
        damaged("export", pipe("parameters.safetensors")),
    ),
    "a pipe for a manifest": Mistake(
        "predict", MODEL, "not an export", damaged("export", pipe("export.json"))
    ),
    "a header without an end": Mistake(
        "predict",
        MODEL,
        "not a complete safetensors file",
        damaged("export", sealed(text("parameters.safetensors", struct.pack("<Q", 2**62) + b"{}"))),
    ),
    "tensors that overlap": Mistake(
        "predict",
        MODEL,
        "not a complete safetensors file",
        damaged("export", tensors({"a": tensor(2, 0, 8), "b": tensor(2, 4, 12)})),
    ),
    "a tensor of four terabytes": Mistake(
        "predict",
        MODEL,
        "not a complete safetensors file",
        damaged("export", tensors({"a": tensor(2**40, 0, 2**42)})),
    ),
    "a tensor in a tensor": Mistake(
        "predict",
        MODEL,
        "parameters.safetensors: ",
        damaged("export", tensors({"a": tensor(1, 0, 4), "a/b": tensor(1, 4, 8)}, behind=8)),
    ),
    # Exports.
    "an export over another": Mistake(
        "export", "--workdir {attconv} --out {export}", "already exists; choose another --out"
    ),
    "an export in /proc": Mistake(
        "export", "--workdir {attconv} --out /proc/x", "/proc/x: cannot be written"
    ),
    "a form that there is not": Mistake(
        "export", "--workdir {attconv} --out {here}/x --format pickle", "choose from 'stablehlo'"
    ),
    "a program of no answers": Mistake(
        "export", "--workdir {qanet} --out {here}/x --count 0", "--count 0: at least 1"
    ),
    "a program for more answers than words": Mistake(
        "export", "--workdir {qanet} --out {here}/x --count 99999999999", "at most 1000"
    ),
    # Reports.
    "a report of no run": Mistake(
        "report", "{here} --out {here}/r.html", "not the folder of a run"
    ),
    "a report of a link to itself": Mistake(
        "report", "{here}/loop --out {here}/r.html", "loop: not the folder of a run", loop
    ),
    "a report of a run twice": Mistake("report", "{csan} {csan} --out {here}/r", "given twice"),
    "a report of an export": Mistake("report", "{export} --out {here}/r", "a report needs runs"),
    "a folder for a report": Mistake("report", "{csan} --out {here}", "is a folder; name a file"),
    "a report in no folder": Mistake(
        "report", "{csan} --out {here}/a/b", "--out: there is no folder"
    ),
    "a pipe for a report": Mistake(
        "report",
        "{csan} --out {here}/p",
        "p is a device or a pipe; name a file",
        lambda here, runs: os.mkfifo(here / "p"),
    ),
    "a report of two families' split": Mistake(
        "report", "{csan} {qanet} --out {here}/r --split x", "--split x: must be dev | test"
    ),
    "brackets for a result": Mistake(
        "report",
        REPORT,
        r"result\.json: .*nested too deeply",
        damaged("attconv", text("result.json", DEEP)),
    ),
    "a result without steps": Mistake(
        "report",
        REPORT,
        r"result\.json: no 'steps'; it has metrics",
        damaged("attconv", text("result.json", '{"metrics": {}}')),
    ),
    "a length without its accuracy": Mistake(
        "report",
        REPORT,
        r"test\.json: by_length\[0\]: 2 values where 3 are needed",
        damaged("attconv", score(by_length=[[1, 2]])),
    ),
    "a confusion with words": Mistake(
        "report",
        REPORT,
        r"test\.json: confusion\['a'\]\['b'\]: a string where a whole number is needed",
        damaged("attconv", score(confusion={"a": {"b": "much"}})),
    ),
    "a kind of question without scores": Mistake(
        "report",
        REPORT,
        r"test\.json: by_question_type: a list where an object is needed",
        damaged("qanet", score(by_question_type=["who"])),
    ),
    # Sweeps.
    "a sweep of nothing's values": Mistake(
        "sweep", f"{QUICK} --grid train.seed= --out {{here}}/o", "write KEY=VALUE,VALUE"
    ),
    "a sweep of an unknown key": Mistake(
        "sweep", f"{QUICK} --grid train.sed=1 --out {{here}}/o", "did you mean 'seed'"
    ),
    "a value twice": Mistake(
        "sweep",
        f"{QUICK} --grid train.seed=1,1 --out {{here}}/o",
        "train.seed=1: the same as another",
    ),
    "fields of unequal numbers": Mistake(
        "sweep",
        f"{QUICK} --zip train.seed=1,2 --zip model.dim=8 --out {{here}}/o",
        "equally many values, not 2 and 1",
    ),
    "a million trials": Mistake(
        "sweep", f"{QUICK} --seeds 1000000 --out {{here}}/o", "1000000 trials: at most 10000"
    ),
    "nine million trials": Mistake(
        "sweep",
        f"{QUICK} --grid train.seed={{many}} --grid data.seed={{many}} --out {{here}}/o",
        "9000000 trials: at most 10000 in one sweep; sweep fewer",
    ),
    "brackets for values": Mistake(
        "sweep", f"{QUICK} --grid train.seed={DEEP} --out {{here}}/o", "not a JSON list such as"
    ),
    "a metric that there is not": Mistake(
        "sweep", f"{QUICK} --seeds 2 --metric dev.f1 --out {{here}}/o", "dev has sacrebleu"
    ),
    "no seed": Mistake("sweep", f"{QUICK} --seeds 0 --out {{here}}/o", "a whole number above 0"),
    "a file for a sweep": Mistake("sweep", f"{QUICK} --out README.md", "README.md: not a folder"),
    # Times.
    "nothing to time": Mistake("bench", "", "required: COMMAND"),
    "an even window": Mistake("bench", "attention --window 4", "odd number of tokens, not 4"),
    "texts longer than any memory": Mistake(
        "bench", "attention --lengths 16,3000000000", "--lengths: 3000000000: .* no address"
    ),
    "a folder for numbers": Mistake(
        "bench", "attention --lengths 4 --json {here}", "--json: .* is a folder; name a file"
    ),
    "no step": Mistake("bench", f"train {QUICK} --steps 0", "must be a whole number above 0"),
    "no line to answer": Mistake(
        "bench", "predict --workdir {attconv} --model {export} --input /dev/null", "has no line"
    ),
    "a run for an export": Mistake(
        "bench", "predict --workdir {attconv} --model {csan} --input README.md", "not an export"
    ),
}
