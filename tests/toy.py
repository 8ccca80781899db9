"""A toy task, to test the training library without a paper's model."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from common_jax.config import MeshConfig, OptimizerConfig, SourceConfig, TrainConfig
from common_jax.data.batches import Batches
from common_jax.data.corpus import Corpus, Writer, prepare
from common_jax.data.epoch_plan import BucketPlan
from common_jax.deploy.answer import Answer
from common_jax.deploy.predictor import Option, Predictor
from common_jax.deploy.service import Service
from common_jax.dropout import dropout
from common_jax.paper_config import PaperConfig
from common_jax.training.mesh import local_rows, put_batch
from common_jax.training.task import Scores, Task


@dataclasses.dataclass(frozen=True)
class ToyConfig:
    task: str = "tests.toy:Toy"
    rate: float = 0.1
    data: SourceConfig = dataclasses.field(default_factory=lambda: SourceConfig("generated"))
    optimizer: OptimizerConfig = dataclasses.field(
        default_factory=lambda: OptimizerConfig(schedule="constant", warmup_steps=1)
    )
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    mesh: MeshConfig = dataclasses.field(default_factory=MeshConfig)
    paper: PaperConfig = dataclasses.field(default_factory=PaperConfig)


def four_steps(folder, task="tests.toy:Toy", **changes):
    """A config of four steps with its cache in the folder; `changes` are of `TrainConfig`."""
    rhythm = {"steps": 4, "evaluate_every": 2, "checkpoint_every": 2}
    return ToyConfig(
        task,
        data=SourceConfig("generated", cache_dir=str(folder / "cache")),
        train=TrainConfig(**(rhythm | changes)),
        mesh=MeshConfig(data=1),
    )


def changed(config, section, **values):
    """The config with other values in a section."""
    new = dataclasses.replace(getattr(config, section), **values)
    return dataclasses.replace(config, **{section: new})


class Digits(str):
    @property
    def lengths(self):
        return (len(self),)


@dataclasses.dataclass(frozen=True, eq=False)
class Sum(Answer):
    plain = "output"

    output: str


class Adder(Predictor):
    """Adds the digits of a line."""

    @dataclasses.dataclass(frozen=True)
    class Settings:
        digits: int

    options = (Option("times", int, "a factor of each sum"),)

    def __init__(self, vocabulary, settings, programs, *, times=1):
        self._vocabulary, self._settings, self._add = vocabulary, settings, programs()
        self._times = times

    @classmethod
    def read_vocabulary(cls, folder):
        return (folder / "digits.txt").read_text()

    def parse(self, line, place):
        return Digits(line)

    def answers(self, lines):
        for line in lines:
            numbers = np.array([[self._vocabulary.index(c) for c in line]], np.int32)
            sums = np.asarray(self._add({"numbers": numbers})["sum"])
            yield Sum(f"{self._times * sums[0]:.{self._settings.digits}f}")


class Toy(Task[ToyConfig]):
    """Learns the sum of a row of small numbers from embeddings."""

    config_class = ToyConfig
    service = "tests.toy:ToyService"
    metric_names = ("loss", "rounded")

    def init(self, key):
        return {"table": {"row": jax.random.normal(key, (10, 4))}, "out": jnp.ones((4,))}

    def predict(self, params, batch):
        return (params["table"]["row"][batch["numbers"]].sum(axis=1) * params["out"][None]).sum(1)

    def _dropped(self, params, key):
        row = dropout(params["table"]["row"], self.config.rate, key)
        return {**params, "table": {"row": row}}

    def loss(self, params, batch, key):
        valid = batch["index"] >= 0
        truth = batch["numbers"].sum(1).astype(jnp.float32)
        error = self.predict(self._dropped(params, key), batch) - truth
        loss = jnp.sum(error**2, where=valid)
        return {"loss": loss, "nll": loss, "weight": valid.sum().astype(jnp.float32)}

    def prepare(self, workers=None):
        self._path = prepare(self.config.data.cache_dir, {"toy": 1}, _build)

    def write_vocabulary(self, folder):
        (folder / "digits.txt").write_text("0123456789")

    def read_vocabulary(self, folder):
        assert (folder / "digits.txt").read_text() == "0123456789"

    def train_batches(self):
        return _batches(self._path / "train", self.config.train.seed)

    def split_batches(self, split):
        return _batches(self._path / split, None)

    def predict_step(self, params, batch, *, final):
        return {"sum": self.predict(params, batch)}

    def score(self, split, predictions):
        corpus = Corpus.open(self._path / split)
        truth = np.array([corpus.row(i, "numbers").sum() for i in range(len(corpus))])
        error = predictions["sum"] - truth
        lines = "".join(f"{value:.3f}\n" for value in predictions["sum"])
        metrics = {
            "loss": float((error**2).mean()),
            "rounded": 100 * float((abs(error) < 0.5).mean()),
        }
        return Scores(metrics, {}, {"txt": lines}, [lines.split()[0]])


class ToyService(Service):
    """Answers sums of digits."""

    predictor_class = Adder
    vocabulary = "0123456789"
    settings = Adder.Settings(digits=1)
    inputs: ClassVar = {"numbers": ("B, T", np.int32)}

    def serve(self, params, arrays):
        return {"sum": self.task.predict(params, arrays)}


class WideToy(Toy):
    """A toy with a kernel and a table that are large enough for smaller types; no dropout."""

    def init(self, key):
        keys = jax.random.split(key)
        table = jax.random.normal(keys[0], (128, 16))
        kernel = 0.1 * jax.random.normal(keys[1], (16, 64))
        return {"digit_embedding": table, "out": {"kernel": kernel, "bias": jnp.ones(64)}}

    def _dropped(self, params, key):
        return params

    def predict(self, params, batch):
        sums = params["digit_embedding"][batch["numbers"]].sum(axis=1)
        return (sums @ params["out"]["kernel"] * params["out"]["bias"][None]).sum(1)


ROWS = np.random.default_rng(0).integers(1, 10, (150, 3))
SPLITS = {"train": slice(101), "dev": slice(101, 130), "test": slice(130, 150)}


def _build(folder):
    for split, rows in SPLITS.items():
        with Writer(folder / split, ("numbers",)) as writer:
            writer.extend({"numbers": ROWS[rows].tolist()})


def _batches(path, seed):
    corpus = Corpus.open(path)
    plan = BucketPlan(corpus.lengths("numbers"), np.array([[3]]), 36, seed)  # 12 rows a batch
    return Batches(corpus, ("numbers",), plan)


def placed(batch, mesh, parts=1):
    """The batch on the mesh, with the empty rows that fill up the devices and parts."""
    count = len(batch["index"])
    missing = len(local_rows(mesh, parts)(count)) - count
    empty = {k: np.full_like(v[:1], -1 if k == "index" else 0) for k, v in batch.items()}
    return put_batch(
        {k: np.concatenate([v, *[empty[k]] * missing]) for k, v in batch.items()}, mesh
    )
