"""Small tasks of the three families, steps of their training, and stored runs."""

import dataclasses
import itertools

import jax
import numpy as np

from attconv_jax import config as attconv
from attconv_jax.models.attentive_convolution import AttentiveConvolution
from attconv_jax.task import SentenceClassification
from common_jax.compare import Run
from common_jax.config import MeshConfig, OptimizerConfig, TrainConfig
from common_jax.training.mesh import make_mesh
from common_jax.training.run_writer import RunWriter
from common_jax.training.scored_run import ScoredRun
from common_jax.training.state import abstract_state, init_state
from common_jax.training.step import make_train_step
from common_jax.training.task import Scores
from csan_jax import config as csan
from csan_jax.attention.area import Area
from csan_jax.task import Translation
from qanet_jax import config as qanet
from qanet_jax.models.base import WordsConfig
from qanet_jax.models.qanet import QANet
from qanet_jax.task import SpanExtraction
from tests.toy import placed

TRANSFORMER = csan.ModelConfig(
    dim=32,
    mlp_dim=64,
    num_heads=4,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention=Area(local_layers=1, token_window=3, head_window=3),
    tie="all",
    source_vocab_size=40,
    target_vocab_size=40,
    dropout=0.0,
)
READER_WORDS = WordsConfig(dim=6, rows=60, char_rows=40, rule="english")
NO_DROPOUT = {"dropout": 0.0, "word_dropout": 0.0, "char_dropout": 0.0, "survival_prob": 1.0}
SIZES = {"dim": 8, "num_heads": 2, "char_dim": 4}
READER = QANet(**SIZES, embedding_convs=1, model_convs=1, model_blocks=1, **NO_DROPOUT)
CLASSIFIER_WORDS = attconv.WordsConfig(dim=8, rows=120)
CLASSIFIER = AttentiveConvolution(dim=8, attention="both", dropout=0.0)
CONSTANT = {"schedule": "constant", "warmup_steps": 1}


def translation(folder=None, mesh=(1, 1, 1), model=None, data=None, **train):
    """Has no corpus; its batches of training are random pieces."""
    languages = {"source_language": "en", "target_language": "de"}
    data = {"source": "generated", "examples": 10, "vocab_size": 40, **languages, **(data or {})}
    return Translation(
        csan.Config(
            model=dataclasses.replace(TRANSFORMER, **model or {}),
            data=csan.DataConfig(**data),
            optimizer=OptimizerConfig(learning_rate=1e-3, **CONSTANT),
            train=TrainConfig(ema_decay=0.9, best_metric="sacrebleu", **train),
            decode=csan.DecodeConfig(extra_length=4, beam_size=2),
            mesh=MeshConfig(*mesh),
        )
    )


def span_extraction(folder, mesh=(1, 1, 1), **train):
    data = {**GENERATED, "examples": 24, "holdout_size": 6}
    data |= {"window": 48, "stride": 18, "eval_batch_tokens": 200, "batch_size": 12}
    task = SpanExtraction(
        qanet.Config(
            words=READER_WORDS,
            model=READER,
            data=qanet.DataConfig(cache_dir=str(folder / "cache"), **data),
            optimizer=OptimizerConfig(learning_rate=1e-3, l2=3e-7, **CONSTANT),
            train=TrainConfig(ema_decay=0.9, best_metric="f1", **train),
            mesh=MeshConfig(*mesh),
        )
    )
    task.prepare()
    return task


GENERATED = {"source": "generated", "examples": 60, "holdout_size": 12, "max_shapes": 1}


def classification(folder, mesh=(1, 1, 1), data=GENERATED, **train):
    task = SentenceClassification(
        attconv.Config(
            words=CLASSIFIER_WORDS,
            model=CLASSIFIER,
            data=attconv.DataConfig(cache_dir=str(folder / "cache"), batch_size=12, **data),
            optimizer=OptimizerConfig(name="adagrad", learning_rate=0.05, eps=1e-8, **CONSTANT),
            train=TrainConfig(**train),
            mesh=MeshConfig(*mesh),
        )
    )
    task.prepare()
    return task


TASKS = {"csan": translation, "qanet": span_extraction, "attconv": classification}


def pieces():
    """Batches of random sentences, each its own translation."""
    random = np.random.default_rng(0)
    while True:
        lengths = random.integers(2, 9, 12)
        rows = random.integers(3, 40, (12, 9)) * (np.arange(9) < lengths[:, None])
        rows[np.arange(12), lengths] = 1
        rows = rows.astype(np.int32)
        yield {"index": np.arange(12, dtype=np.int32), "source": rows, "target": rows}


def begun(task):
    """The state before the first step, on the host: the same on any mesh."""
    return jax.device_get(init_state(task, make_mesh(task.config.mesh)))


def trained(task, initial, steps, per_call=1):
    """The final state, and the loss and the gradient's norm of each step, [steps, 2]."""
    mesh = make_mesh(task.config.mesh)
    state = jax.device_put(initial, jax.tree.map(lambda a: a.sharding, abstract_state(task, mesh)))
    step = make_train_step(task, mesh)
    key = jax.random.key(task.config.train.seed)
    is_translation = isinstance(task, Translation)
    batches = pieces() if is_translation else itertools.cycle(task.train_batches().epoch(0))
    numbers = []
    for _ in range(0, steps, per_call):
        group = itertools.islice(batches, per_call)
        group = tuple(placed(batch, mesh, task.config.train.accumulate) for batch in group)
        state, metrics = step(state, group, key)
        numbers += zip(*jax.device_get((metrics["loss"], metrics["grad_norm"])), strict=True)
    return state, np.array(numbers)


def stored(folder, split, predictions, notes=(), results=(), references=()):
    """A run with the scores of a split, labelled by its folder's name."""
    workdir = RunWriter(folder)
    workdir.path.mkdir()
    scores = Scores({}, dict(notes), predictions, [], dict(results), references)
    workdir.write_scores(split, scores)
    return Run(folder.name, ScoredRun(folder))


def by_head(table):
    """The rows of a report's table by their run's label, each by the table's head."""
    return {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
