"""Worker of Joey NMT; runs in its environment."""

import itertools
from pathlib import Path
from typing import Any

import torch
from joeynmt.config import parse_global_args
from joeynmt.data import load_data
from joeynmt.model import build_model
from joeynmt.training import TrainManager
from timing import Work, work


def config(job: dict[str, Any]) -> dict[str, Any]:
    """Its config, with the sizes and the training of configs/csan/multi30k.py."""
    side = {
        "level": "bpe",
        "max_length": 100,
        "voc_file": job["vocabulary"],
        "tokenizer_type": "sentencepiece",
        "tokenizer_cfg": {"model_file": job["sentencepiece"]},
    }
    layers = {
        "type": "transformer",
        "num_layers": 3,
        "num_heads": 4,
        "embeddings": {"embedding_dim": 256, "scale": True, "dropout": 0.1},
        "hidden_size": 256,
        "ff_size": 1024,
        "dropout": 0.1,
        "layer_norm": "pre",
    }
    return {
        "name": "benchmark",
        "model_dir": job["folder"],
        "use_cuda": False,
        "random_seed": 0,
        "normalization": "tokens",
        "data": {
            "train": job["train"],
            "dataset_type": "plain",
            "src": {"lang": "en", **side},
            "trg": {"lang": "de", **side},
        },
        "model": {
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": layers,
            "decoder": layers,
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "learning_rate": 1e-3,
            "scheduling": "warmupinversesquareroot",
            "learning_rate_warmup": 600,
            "clip_grad_norm": 1.0,
            "label_smoothing": 0.1,
            "loss": "crossentropy",
            "batch_size": job["batch_tokens"],
            "batch_type": "token",
            "epochs": 1,
        },
        "testing": {},
    }


def make(job: dict[str, Any]) -> Work:
    """The update of its trainer on its own first batches."""
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    Path(job["folder"]).mkdir(parents=True, exist_ok=True)
    args = parse_global_args(config(job))
    source, target, train, *_ = load_data(args.data, ["train"])
    model = build_model(args.model, source, target)
    model.loss_function = args.train.loss, args.train.label_smoothing
    trainer = TrainManager(
        rank=0,
        model=model,
        model_dir=args.model_dir,
        device=args.device,
        autocast=args.autocast,
        seed=0,
        train_args=args.train,
        dev_args=args.test,
    )
    iterator = train.make_iter(
        batch_size=args.train.batch_size,
        batch_type=args.train.batch_type,
        shuffle=True,
        pad_index=model.pad_index,
        eos_index=model.eos_index,
        device=args.device,
    )
    batches = [*itertools.islice(iterator, job["items"])]
    units = sum(int(batch.src_length.sum()) + int(batch.ntokens) for batch in batches)

    def step(batch: Any) -> None:
        trainer._train_step(batch)
        trainer.clip_grad_fun(parameters=model.parameters())
        trainer.optimizer.step()
        model.zero_grad()

    size = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return Work(step, batches, units, size)


if __name__ == "__main__":
    work(make)
