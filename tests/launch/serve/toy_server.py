"""A predictor of a few lines, and a server of it as a process."""

import contextlib
import dataclasses
import http.client
import json
import re
import subprocess
import sys
import time

from common_jax.deploy.answer import Answer
from common_jax.deploy.predictor import Option, Predictor
from common_jax.deploy.schema import INTEGER, STRING, Schema, Text, View, array, record
from common_jax.errors import UserError
from launch.serve import server
from launch.serve.app import Service
from launch.serve.limits import Limits
from launch.serve.metrics import Metrics
from launch.serve.models import Model
from tests.launch.tiny_runs import ROOT

LIMITS = Limits(inputs=4, length=50, queue=8, timeout=2.0)
VIEWED = {
    **{"answer": "zwei", "start": 2, "end": 6, "probability": 0.5},
    "next": [{"answer": "one", "probability": 0.25}],
    "pointers": {"words": ["one", "two"], "first": [0.25, 0.75], "last": [0.1, 0.9]},
    "pieces": ["▁one", "two", "</s>"],
    "attention": [[[[[0.5, 0.5, 0]], [[0, 1, 0]], [[0, 0.5, 0.5]]]] * 2] * 2,
    "reach": [[[[0, 1], [0, 2], [1, 2]]] * 2] * 2,
    "words": [["one", "two"], ["three"]],
    "layers": [
        [
            {"text": 1, "context": 0, "weights": [[0.2, 0.8]]},
            {"text": 0, "context": 1, "weights": [[1.0], [1.0]]},
            {"text": None, "context": 0, "weights": [[0.4, 0.6]]},
        ]
    ],
}


class Line(str):
    @property
    def lengths(self):
        return tuple(len(text.split()) for text in self.split("\t"))


@dataclasses.dataclass(frozen=True, eq=False)
class Fields(Answer):
    """An answer with any fields."""

    fields: dict

    def to_dict(self):
        return self.fields


class Reverser(Predictor):
    """Reverses the words of a text.

    Attributes:
      parsed: the argument of each call of `parse`.
      batches: the lines of each call of `answers`.
    """

    @dataclasses.dataclass(frozen=True)
    class Settings:
        delay: float = 0.0

    options = (Option("explain", bool, "also the words", detail=True),)

    def __init__(self, vocabulary=None, settings=None, programs=None, *, explain=False):
        self._settings = settings or self.Settings()
        self._explain = explain
        self.parsed = []
        self.batches = []

    @classmethod
    def read_vocabulary(cls, folder):
        return None

    def parse(self, line, place):
        self.parsed.append(line)
        if not line.split():
            raise UserError(f"{place}: a text without a word")
        return Line(line)

    def answers(self, lines):
        self.batches.append(lines)
        time.sleep(self._settings.delay)
        for line in lines:
            words = line.split()
            if "crash" in words:
                raise RuntimeError(f"{ROOT}: {line}")
            answer = {"reversed": " ".join(words[::-1]), "count": len(words)}
            yield Fields(answer | ({"words": words} if self._explain else {}))

    @property
    def schema(self):
        return Schema(
            title="Reversal",
            texts=(Text("text", "Text"),),
            output=record({"reversed": STRING, "count": INTEGER}, words=array(STRING)),
            views=(View("text", "reversed", "Reversed"), View("text", "words", "Words")),
            explained_length=5,
        )


class Ranker(Reverser):
    """The longer a sentence, the less probable."""

    options = ()

    def answers(self, lines):
        for line in lines:
            _, sentence = line.split("\t")
            yield Fields({"probabilities": {"yes": 1 / len(sentence)}, "score": -len(sentence)})

    @property
    def schema(self):
        texts = (Text("question", "Question"), Text("sentence", "Sentences", several=True))
        views = (View("ranking", "probabilities", "Sentences", of="yes"),)
        return Schema("Ranking", texts, "tab", views=views)


class Viewer(Reverser):
    """The same output for every text, with a field for each kind of view."""

    options = ()

    def answers(self, lines):
        return (Fields(VIEWED) for _ in lines)

    @property
    def schema(self):
        views = (
            View("span", "", "Answer", of="text"),
            View("table", "next", "Next"),
            View("curves", "pointers", "Curves"),
            View("heads", "attention", "Heads", of="pieces"),
            View("words", "layers", "Words", of="words"),
        )
        return Schema("Views", (Text("text", "Text"),), views=views)


def service(limits=LIMITS, log=False, delay=0.0, hosts=(), warm=True):
    metrics = Metrics()
    models = []
    for name, seconds in (("toy", delay), ("slow", 0.5)):
        settings = Reverser.Settings(seconds)
        explaining = Reverser(None, settings, explain=True)
        plain = Reverser(None, settings)
        models.append(Model(name, plain, explaining, limits, metrics, ["one two three"]))
    models.append(Model("ranker", Ranker(), None, limits, metrics, ["who?\tone two", "who?\tone"]))
    models.append(Model("viewer", Viewer(), None, limits, metrics, ["😀 zwei."]))
    made = Service(models, limits, metrics, log, hosts)
    if warm:
        made.warm_up()
    return made


@contextlib.contextmanager
def started(*command, **options):
    """The port and the process of a server, whose first line ends with its address."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, **options)
    try:
        match = re.search(r":(\d+)/?$", process.stdout.readline().strip())
        assert match, process.communicate()
        yield int(match[1]), process
    finally:
        process.kill()
        process.communicate()


def running(delay=0.0, queue=8, batch=16, timeout=2.0, stop=server.STOP_SECONDS):
    """The port and the process of a server of `service`."""
    command = [sys.executable, "-m", "tests.launch.serve.toy_server"]
    numbers = map(str, (delay, queue, batch, timeout, stop))
    return started(*command, *numbers, stderr=subprocess.PIPE)


def requested(port, path, body=None, timeout=60):
    """The response to a request, which has a body in JSON or none, and its text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    with contextlib.closing(connection):
        method = "GET" if body is None else "POST"
        connection.request(method, path, body, {"content-type": "application/json"})
        response = connection.getresponse()
        return response, response.read().decode()


def post(port, inputs, name="toy", timeout=20, **fields):
    """The status and the JSON of an answer."""
    body = json.dumps({"inputs": inputs, **fields})
    response, text = requested(port, f"/v1/models/{name}:predict", body, timeout)
    return response.status, json.loads(text)


def main(delay, queue, batch, timeout, stop):
    server.STOP_SECONDS = int(stop)
    numbers = {"queue": int(queue), "batch": int(batch), "timeout": float(timeout)}
    served = service(dataclasses.replace(LIMITS, **numbers), delay=float(delay))
    with server.listen("127.0.0.1", 0) as listening:
        print(server.address(listening), flush=True)
        server.run(served, listening, lambda: None)
    print(served._metrics.text(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
