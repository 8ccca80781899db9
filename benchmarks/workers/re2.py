"""Worker of RE2 in PyTorch; runs in the peer's environment."""

import sys
from types import SimpleNamespace
from typing import Any

import torch
from timing import Batch, Work, count, read, work

# configs/default.json5 and configs/data/snli.json5 of the checkout.
SETTINGS = {
    "hidden_size": 150,
    "dropout": 0.2,
    "blocks": 3,
    "fix_embeddings": True,
    "encoder": "cnn",
    "enc_layers": 2,
    "kernel_sizes": [3],
    "alignment": "linear",
    "fusion": "full",
    "connection": "aug",
    "prediction": "full",
    "grad_clipping": 5,
    "weight_decay": 0,
    "lr": 2e-3,
    "min_lr": 1e-4,
    "beta1": 0.9,
    "beta2": 0.999,
    "lr_decay_rate": 1.0,
    "cuda": False,
    "padding": 0,
    "num_classes": 3,
}


def make(job: dict[str, Any]) -> Work:
    """The update of RE2's trainer, or its `predict`."""
    sys.path.insert(0, job["checkout"])
    from src.model import Model

    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    sizes = {"num_vocab": job["words"], "embedding_dim": job["word_dim"]}
    model = Model(SimpleNamespace(**SETTINGS, **sizes))
    model.set_embeddings(torch.rand(job["words"], job["word_dim"]).numpy())
    if job.get("compile"):
        model.network.compile()

    def texts(batch: Batch) -> dict[str, Any]:
        longest = {name: (batch[name] != 0).sum(1).max() for name in ("first", "second")}
        return {
            "text1": batch["first"][:, : longest["first"]].tolist(),
            "text2": batch["second"][:, : longest["second"]].tolist(),
            "target": batch["label"].tolist(),
        }

    compute = model.update if job["phase"] == "train" else model.predict
    batches = read(job["batches"])

    def step(batch: Batch) -> None:
        compute(texts(batch))

    return Work(step, batches, count(batches), model.num_parameters())


if __name__ == "__main__":
    work(make)
