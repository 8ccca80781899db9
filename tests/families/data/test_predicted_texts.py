"""A predictor reads a file's texts as evaluation does: the same words, at the same characters."""

import numpy as np
import pytest

from attconv_jax.models.convolution_pooling import ConvolutionPooling
from attconv_jax.task import SentenceClassification
from common_jax.data.corpus import Corpus
from common_jax.deploy.service import service_of
from launch.predict.records import file_records
from qanet_jax.task import SpanExtraction
from tests.common_jax.data.other_tools import copied, json_lines
from tests.families import tasks
from tests.families.data import corpora

# Blank lines end sentences, and NLTK splits at few blanks as at tabs; escapes; quotation marks.
TEXTS = [
    "Good food.\n\nJ. Doe\ncooks it.",
    "We met Mr.\r\n\r\nB. came,\ttoo.",
    "a\t \tb ''\tc' \t'd\t.\te\x0b",
    "\ufeffit &apos;s &amp;lt; R &amp; D\u00a0&quot;",
]
QUOTED = ['"He said ""yes"""', '"He said ""no"", twice"', '"R &amp; D"']
COLUMNS = {
    "csan": ("source", "target"),
    "texts": ("text", "label"),
    "pairs": ("first", "second", "label"),
    "qanet": ("question", "context", "answers"),
}


def row(name, text):
    cells = {"label": "neutral", "answers": '["End"]'}
    texts = (text, text.replace(" ", " End ", 1))
    return dict(zip(COLUMNS[name], texts, strict=False)) | {
        column: cells[column] for column in COLUMNS[name] if column in cells
    }


def task_on(name, folder, train, dev, **data):
    """The task of a family, or of a form of the classifier's examples, with prepared files."""
    data |= {"dir": str(folder), "cache_dir": str(folder / "cache"), "train": train, "dev": dev}
    data |= {"source": "files"}
    if name == "csan":
        corpora.write_parallel(folder)
        data |= {"train": "train", "test": "test", "vocab_size": 330, "examples": 0}
        model = {"source_vocab_size": 0, "target_vocab_size": 0}
        task = tasks.translation(model=model, data=data)
        task.prepare()
        return task
    if name == "qanet":
        config = tasks.qanet.Config(
            words=tasks.READER_WORDS, model=tasks.READER, data=tasks.qanet.DataConfig(**data)
        )
        task = SpanExtraction(config)
    else:
        data |= {"format": name, "test": dev}
        config = tasks.attconv.Config(
            words=tasks.CLASSIFIER_WORDS,
            model=ConvolutionPooling(),
            data=tasks.attconv.DataConfig(**data),
        )
        task = SentenceClassification(config)
    task.prepare()
    return task


def evaluated(name, task, count):
    """What evaluation reads of each of a file's rows."""
    folder = task.data.path / "dev"
    if name == "qanet":
        passages = Corpus.open(folder / "passages")
        columns = (passages.rows(np.arange(count), side) for side in ("starts", "ends"))
    else:
        names = {"csan": ["source"], "texts": ["first"]}.get(name, ["first", "second"])
        columns = (Corpus.open(folder).rows(np.arange(count), column) for column in names)
    return [[cell.tolist() for cell in cells] for cells in zip(*columns, strict=True)]


def predicted(name, service, path):
    """What a predictor reads of them."""
    predictor = service.predictor({})
    for record in file_records(path, "", predictor.schema).rows:
        line = predictor.schema.to_line(record.input.value, "here")
        parsed = predictor.parse(predictor.schema.to_line(line, "here"), "here")
        if name == "csan":
            yield [[*parsed.pieces, 1]]
        elif name == "qanet":
            yield [list(side) for side in zip(*parsed.context.spans, strict=True)]
        else:
            yield [[*service.vocabulary.word_ids(words)] for words in parsed.texts]


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("ending", ["jsonl", "tsv"])
def test_a_prediction_reads_the_words_of_evaluation(name, ending, tmp_path):
    texts = TEXTS if ending == "jsonl" else QUOTED
    rows = [row(name, text) for text in texts]
    lines = "".join("\t".join(cells) + "\n" for cells in [COLUMNS[name], *map(dict.values, rows)])
    content = json_lines(rows) if ending == "jsonl" else lines.encode()
    (tmp_path / f"t.{ending}").write_bytes(content)
    data = {"quotes": "text"} | ({"moses_escapes": "undo"} if name == "csan" else {})
    task = task_on(name, tmp_path, f"t.{ending}", copied(tmp_path, f"t.{ending}"), **data)
    expected = evaluated(name, task, len(rows))
    assert [*predicted(name, service_of(task), tmp_path / f"t.{ending}")] == expected
