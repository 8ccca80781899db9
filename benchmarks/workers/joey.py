"""Worker of Joey NMT; runs in the peer's environment."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joeynmt.batch import Batch
from joeynmt.config import parse_global_args
from joeynmt.data import load_data
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.training import TrainManager
from timing import Work, count, read, work


def config(job: dict[str, Any]) -> dict[str, Any]:
    """Joey NMT's config with the job's sizes and the suite's training."""
    # Both languages have the vocabulary and subwords of the suite.
    side = {
        "level": "bpe",
        "max_length": 100,
        "voc_file": job["vocabulary"],
        "tokenizer_type": "sentencepiece",
        "tokenizer_cfg": {"model_file": job["sentencepiece"]},
    }

    # The encoder's and the decoder's layers.
    sizes = job["sizes"]
    dim = sizes["dim"]
    dropout = sizes["dropout"]
    layers = {
        "type": "transformer",
        "num_heads": sizes["num_heads"],
        "embeddings": {"embedding_dim": dim, "scale": True, "dropout": dropout},
        "hidden_size": dim,
        "ff_size": sizes["mlp_dim"],
        "dropout": dropout,
        "layer_norm": "pre",
    }

    # The suite's optimiser and loss.
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
            "encoder": {**layers, "num_layers": sizes["encoder_layers"]},
            "decoder": {**layers, "num_layers": sizes["decoder_layers"]},
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
    """The update of Joey NMT's trainer on its own first batches, or translation of the job's."""
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    Path(job["folder"]).mkdir(parents=True, exist_ok=True)
    args = parse_global_args(config(job))
    source, target, train, *_ = load_data(args.data, ["train"])
    model = build_model(args.model, source, target)
    if job["phase"] == "translate":
        return translation(model, job)

    # The trainer, on the first batches of its own order.
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

    return Work(step, batches, units, sum(p.numel() for p in model.parameters() if p.requires_grad))


def translation(model: Any, job: dict[str, Any]) -> Work:
    """Joey NMT's search with the suite's parameters; answers are the suite's piece ids."""
    with np.load(job["parameters"]) as parameters:
        set_parameters(model, dict(parameters), job["ids"])
    model.eval()
    ids = np.array(job["ids"])
    pieces = {peer: piece for piece, peer in enumerate(job["ids"])}
    batches = read(job["batches"])

    def step(arrays: dict[str, np.ndarray]) -> list[list[int]]:
        # The sources without padded examples, as a batch of Joey NMT.
        source = arrays["source"][arrays["index"] >= 0]
        lengths = torch.from_numpy((source != 0).sum(axis=1))
        batch = Batch(
            src=torch.from_numpy(ids[source]),
            src_length=lengths,
            src_prompt_mask=None,
            trg=None,
            trg_prompt_mask=None,
            indices=torch.arange(len(source)),
            device=torch.device("cpu"),
            pad_index=model.pad_index,
            eos_index=model.eos_index,
            is_train=False,
        )

        # Beam search, up to the suite's limit of length.
        longest = int(lengths.max()) + job["extra_length"]
        outputs, *_ = search(
            model,
            batch,
            max_output_length=longest,
            beam_size=job["beam_size"],
            beam_alpha=job["length_penalty"],
        )

        # The pieces before the end symbol.
        end = (model.eos_index, model.pad_index)
        return [
            [pieces[n] for n in itertools.takewhile(lambda n: n not in end, row)]
            for row in outputs.tolist()
        ]

    return Work(step, batches, count(batches), sum(p.numel() for p in model.parameters()))


def set_parameters(model: Any, parameters: dict[str, np.ndarray], ids: list[int]) -> None:
    """Copies the suite's parameters, by their names in its exports, and its position encodings."""

    def fill(module: Any, name: str, layer: int | None = None) -> None:
        for key in ("kernel", "scale", "bias"):
            if f"{name}/{key}" not in parameters:
                continue
            array = parameters[f"{name}/{key}"]
            array = array if layer is None else array[layer]
            target = module.bias if key == "bias" else module.weight
            target.data.copy_(torch.from_numpy(array.T if key == "kernel" else array))

    def fill_attention(module: Any, name: str, layer: int) -> None:
        names = {"query": "q_layer", "key": "k_layer", "value": "v_layer", "out": "output_layer"}
        for key, attribute in names.items():
            fill(getattr(module, attribute), f"{name}/{key}", layer)

    def fill_feed_forward(module: Any, name: str, layer: int) -> None:
        fill(module.layer_norm, f"{name}_norm", layer)
        products = [linear for linear in module.pwff_layer if isinstance(linear, torch.nn.Linear)]
        for linear, part in zip(products, ("in", "out"), strict=True):
            fill(linear, f"{name}/{part}", layer)

    for number, layer in enumerate(model.encoder.layers):
        name = "encoder/layers"
        fill(layer.layer_norm, f"{name}/self_attention_norm", number)
        fill_attention(layer.src_src_att, f"{name}/self_attention", number)
        fill_feed_forward(layer.feed_forward, f"{name}/feed_forward", number)
    for number, layer in enumerate(model.decoder.layers):
        name = "decoder/layers"
        fill(layer.x_layer_norm, f"{name}/self_attention_norm", number)
        fill_attention(layer.trg_trg_att, f"{name}/self_attention", number)
        fill(layer.dec_layer_norm, f"{name}/cross_attention_norm", number)
        fill_attention(layer.src_trg_att, f"{name}/cross_attention", number)
        fill_feed_forward(layer.feed_forward, f"{name}/feed_forward", number)
    fill(model.encoder.layer_norm, "encoder_norm")
    fill(model.decoder.layer_norm, "decoder_norm")
    table = torch.zeros_like(model.src_embed.lut.weight)
    table[torch.tensor(ids)] = torch.from_numpy(parameters["target_embedding"])
    model.src_embed.lut.weight.data.copy_(table)
    model.trg_embed.lut.weight.data.copy_(table)
    model.decoder.output_layer.weight.data.copy_(table)
    positions = torch.from_numpy(parameters["positions"])[None]
    model.decoder.pe.pe = positions
    model.encoder.pe.pe = positions + torch.from_numpy(parameters["source_bias"])


if __name__ == "__main__":
    work(make)
