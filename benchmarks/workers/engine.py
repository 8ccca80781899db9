"""Worker of CTranslate2; runs in the environment of the benchmark."""

from typing import Any

import ctranslate2

from benchmarks.workers.timing import Batch, Work, count, read, work
from csan_jax.data.subwords import PAD
from csan_jax.engine import names


def make(job: dict[str, Any]) -> Work:
    """The translation of all batches in one call; answers are piece ids."""
    translator = ctranslate2.Translator(
        job["model"], inter_threads=job["inter_threads"], intra_threads=job["intra_threads"]
    )
    by_id = names(job["pieces"])
    by_name = {name: piece for piece, name in enumerate(by_id)}
    batches = read(job["batches"])

    def step(batches: list[Batch]) -> list[list[int]]:
        rows = [row for batch in batches for row in batch["source"][batch["index"] >= 0]]
        texts = [[by_id[piece] for piece in row[row != PAD].tolist()] for row in rows]
        results = translator.translate_batch(
            texts,
            max_batch_size=64,
            beam_size=job["beam_size"],
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=max(map(len, texts)) + job["extra_length"],
            max_input_length=0,
        )
        return [[by_name[name] for name in result.hypotheses[0]] for result in results]

    return Work(step, [batches], count(batches), job["parameters"])


if __name__ == "__main__":
    work(make)
