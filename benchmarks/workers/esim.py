"""Worker of ESIM in PyTorch; runs in the peer's environment."""

import sys
from typing import Any

import numpy as np
import torch
from timing import Batch, Work, count, read, work


def make(job: dict[str, Any]) -> Work:
    """The training step of ESIM's script, or the probabilities of a batch."""
    sys.path.insert(0, job["checkout"])
    from esim.model import ESIM

    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    network = ESIM(job["words"], job["word_dim"], 300, torch.rand(job["words"], job["word_dim"]))
    if job.get("compile"):
        network.compile()
    parameters = [*network.parameters()]
    loss = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(parameters, lr=4e-4)

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array.astype(np.int64))

    def texts(batch: Batch) -> list[torch.Tensor]:
        tensors = []
        for name in ("first", "second"):
            lengths = (batch[name] != 0).sum(1)
            tensors += [tensor(batch[name][:, : lengths.max()]), tensor(lengths)]
        return tensors

    def answer(batch: Batch) -> None:
        with torch.no_grad():
            network(*texts(batch))

    def train(batch: Batch) -> None:
        optimizer.zero_grad()
        loss(network(*texts(batch))[0], tensor(batch["label"])).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 10.0)
        optimizer.step()

    network.train(job["phase"] == "train")
    step = train if job["phase"] == "train" else answer
    batches = read(job["batches"])
    return Work(step, batches, count(batches), sum(p.numel() for p in parameters))


if __name__ == "__main__":
    work(make)
