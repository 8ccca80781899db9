"""Worker of QANet in PyTorch; runs in the peer's environment."""

import sys
from typing import Any

import numpy as np
import torch
from pytorch import DEVICE, kernels, synchronize
from timing import Batch, Work, count, read, work

# of QANet_main.py
BETAS = (0.8, 0.999)
EPS = 1e-7
DECAY = 3e-7
CLIP = 5.0
AVERAGE = 0.9999


def make(job: dict[str, Any]) -> Work:
    """The step of QANet_main.py's trainer, or the logits of a batch."""
    sys.path.insert(0, job["checkout"])
    from model import QANet as module  # noqa: N813

    # The original calls get_device, which fails for a tensor on the CPU, and copies from there.
    def with_positions(x: torch.Tensor) -> torch.Tensor:
        with x.device:
            signal = module.get_timing_signal(x.size(2), x.size(1))
        return x + signal.transpose(1, 2)

    module.PosEncoder = with_positions
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    words = torch.rand(job["words"], job["word_dim"])
    characters = torch.rand(256, job["char_dim"])
    network = module.QANet(
        words, characters, None, None, job["dim"], train_cemb=True, num_head=job["heads"]
    ).to(DEVICE)
    if job.get("compile"):
        network.compile()
    trained = [p for p in network.parameters() if p.requires_grad]
    size = sum(p.numel() for p in trained)
    batches = read(job["batches"])

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array.astype(np.int64)).to(DEVICE)

    def texts(batch: Batch) -> list[torch.Tensor]:
        tensors = []
        for text in ("context", "question"):
            tensors += [tensor(batch[text]), tensor(batch[f"{text}_characters"])]
        return tensors

    if job["phase"] == "answer":
        network.eval()

        def answer(batch: Batch) -> None:
            with torch.no_grad():
                network(*texts(batch))

        return Work(answer, batches, count(batches), size, synchronize, kernels)

    # Training, with the moving average of the parameters.
    network.train()
    optimizer = torch.optim.Adam(trained, 1e-3, BETAS, EPS, DECAY)
    loss = torch.nn.CrossEntropyLoss()
    averages = [p.detach().clone() for p in trained]

    def train(item: tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]) -> None:
        inputs, first, last = item
        optimizer.zero_grad()
        start, end = network(*inputs)
        (loss(start, first) + loss(end, last)).backward()
        torch.nn.utils.clip_grad_norm_(trained, CLIP)
        optimizer.step()
        with torch.no_grad():
            for average, parameter in zip(averages, trained, strict=True):
                average.mul_(AVERAGE).add_(parameter, alpha=1 - AVERAGE)

    items = [(texts(batch), tensor(batch["start"]), tensor(batch["end"])) for batch in batches]
    return Work(train, items, count(batches), size, synchronize, kernels)


if __name__ == "__main__":
    work(make)
