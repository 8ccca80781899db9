"""What careless and hostile people try, command by command, and the line that answers it."""

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
    "a config that is no Python": Mistake(
        "train", OWN, r"c\.py.*SyntaxError: .*line 1", files(c_py="def (")
    ),
    "a config that raises": Mistake(
        "train", OWN, r"c\.py:2: ZeroDivisionError: division by zero", files(c_py="\n1/0")
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
    "no number for a rate": Mistake(
        "train csan", "--config.optimizer.learning_rate=nan", "learning_rate: must be above 0"
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
    "a cache that cannot be": Mistake(
        "train csan", "--config.data.cache_dir=/proc/x", "/proc/x: cannot prepare .* can be written"
    ),
    "a beam wider than the vocabulary": Mistake(
        "train csan", "--config.decode.beam_size=100000", "decode.beam_size=100000: at most"
    ),
    "a file for a workdir": Mistake(
        "train csan", "--workdir {here}/f", "f is not the folder of a run: choose", files(f="")
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
    "an answer out of range": Mistake(
        "train qanet",
        "",
        r"train\.json: data\[0\].*answers\[0\]: answer not at its answer_start",
        files(train_json=squad(answers=[{"text": "b", "answer_start": 10**9}])),
    ),
    "an id twice": Mistake(
        "train qanet", "", "an id that an earlier question has", files(train_json=squad(twice=True))
    ),
    "a page out of the evidence": Mistake(
        "train qanet", TRIVIA, "no such file in .*evidence/wikipedia", trivia("../../secret.txt")
    ),
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
    "a run of another family": Mistake(
        "evaluate",
        AGAINST,
        "run: a run of SpanExtraction is not compared with one of SentenceClassification",
        damaged("qanet", score(f1=90.0)),
    ),
    "a folder for data": Mistake(
        "evaluate", "--workdir {attconv} --data {here}", "a folder, not a file"
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
    "no answer": Mistake("predict", "--workdir {qanet} --count 0", "count=0: at least 1"),
    "a folder for a context": Mistake(
        "predict", "--workdir {qanet} --context {here} --question b", "Is a directory"
    ),
    "bytes on standard input": Mistake(
        "predict", "--workdir {csan}", "standard input:1: not UTF-8", stdin=b"\xff\0"
    ),
    "three texts for a pair": Mistake(
        "predict",
        "--workdir {attconv}",
        "a pair is 2 texts separated by a tab, not 3",
        stdin=b"a\tb\tc",
    ),
    # Damaged runs.
    "a config of a newer version": Mistake(
        "predict",
        RUN,
        "version 99; this code reads 1",
        damaged("attconv", values("config.json", version=99)),
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
    "no SentencePiece": Mistake(
        "predict",
        RUN,
        "not a SentencePiece model",
        damaged("csan", text("vocabulary/joint.model", "x")),
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
    # Foreign exports.
    "an export that is a run": Mistake(
        "predict", "--model {attconv}", "it is a run: give it as --wor"
    ),
    "a program out of the export": Mistake(
        "predict",
        MODEL,
        r"programs: '\.\./x\.stablehlo': not a program's file",
        damaged("export", sealed(values("export.json", programs={"../x.stablehlo": {}}))),
    ),
    "checksums out of the export": Mistake(
        "predict", MODEL, "checksums.json: damaged", damaged("export", listed("../x"))
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
    # Exports.
    "an export over another": Mistake(
        "export", "--workdir {attconv} --out {export}", "already exists; choose another --out"
    ),
    "a form that there is not": Mistake(
        "export", "--workdir {attconv} --out {here}/x --format pickle", "choose from 'stablehlo'"
    ),
    # Reports.
    "a report of no run": Mistake(
        "report", "{here} --out {here}/r.html", "not the folder of a run"
    ),
    "a report of a run twice": Mistake("report", "{csan} {csan} --out {here}/r", "given twice"),
    "a report of an export": Mistake("report", "{export} --out {here}/r", "a report needs runs"),
    "a folder for a report": Mistake("report", "{csan} --out {here}", "is a folder; name a file"),
    "a report of two families' split": Mistake(
        "report", "{csan} {qanet} --out {here}/r --split x", "--split x: must be dev | test"
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
    "a metric that there is not": Mistake(
        "sweep", f"{QUICK} --seeds 2 --metric dev.f1 --out {{here}}/o", "dev has sacrebleu"
    ),
    "no seed": Mistake("sweep", f"{QUICK} --seeds 0 --out {{here}}/o", "a whole number above 0"),
    "a file for a sweep": Mistake("sweep", f"{QUICK} --out README.md", "README.md: not a folder"),
    # Times.
    "nothing to time": Mistake("bench", "", "required: COMMAND"),
    "an even window": Mistake("bench", "attention --window 4", "odd number of tokens, not 4"),
    "no step": Mistake("bench", f"train {QUICK} --steps 0", "must be a whole number above 0"),
    "no line to answer": Mistake(
        "bench", "predict --workdir {attconv} --model {export} --input /dev/null", "has no line"
    ),
    "a run for an export": Mistake(
        "bench", "predict --workdir {attconv} --model {csan} --input README.md", "not an export"
    ),
}
