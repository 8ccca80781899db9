"""`python -m benchmarks.snli_pytorch`: attentive convolution, ESIM and RE2, on SNLI."""

from benchmarks.side_by_side import (
    FIRST_PASS,
    TORCH,
    Measure,
    Side,
    arguments,
    compare,
    eager_and_compiled,
    environment,
    first_batches,
    require_checkout,
    suite,
)
from benchmarks.workers.suite import task_of
from launch.cli import run

PEERS = {
    "esim": ("https://github.com/coetaur0/ESIM", "65611601ff9f17f76e1f246e8e46b5fc4bee13fc"),
    "re2": (
        "https://github.com/alibaba-edu/simple-effective-text-matching-pytorch",
        "05d572e30801b235e989c78c95dd24d5f5d35f74",
    ),
}
CHECKOUTS = "\n".join(
    f"  --{name}: {url} at {commit[:12]}" for name, (url, commit) in PEERS.items()
)
DESCRIPTION = f"""Times training steps and predictions of attentive convolution (advanced with
intra-attention, and light) and of two PyTorch models, each with its own sizes, in batches of 50
pairs of SNLI.

{CHECKOUTS}

example:
  python -m benchmarks.snli_pytorch --esim ESIM --re2 RE2 --data DATA"""
BATCHES = 40
CONFIG, LIGHT = (f"configs/attconv/snli_small.py:{name}" for name in ("advanced_intra", "light"))
UNEQUAL = (
    "The models differ, each has its own sizes; word vectors have 300 dimensions in all of them.",
    "The suite and ESIM train the word vectors and count them as parameters, RE2 does neither.",
    "Training: the suite with AdaGrad, without dropout and clipping; ESIM with Adam, a dropout of "
    "0.5 and clipping; RE2 with a dropout of 0.2 and clipping.",
    "The peers' batches are cut to their longest text, the suite's have fixed shapes; RE2's step "
    "includes making tensors of lists.",
    "Accuracies are not compared.",
    FIRST_PASS,
)


def main(argv: list[str]) -> None:
    args = arguments(DESCRIPTION, [*PEERS]).parse_args(argv)
    for name, (_, commit) in PEERS.items():
        require_checkout(getattr(args, name), commit)
    overrides = {
        "data.dir": args.data / "snli",
        "data.train": "train_partial.tsv",
        "data.test": "dev.tsv",
        "data.columns": "1,2,3",
        "words.rule": "english",
        "data.on_bad_example": "skip",
        "data.vectors": "",
        "words.dim": 300,
        "model.dim": 300,
        "train.steps_per_call": 1,
    }

    # Batches of the suite, which all sides read.
    batches = first_batches(task_of(CONFIG, overrides), BATCHES)
    words = 1 + max(int(b[name].max()) for b in batches for name in ("first", "second"))
    packages = (*TORCH, "tqdm==4.67.1", "scikit-learn==1.9.1")
    python = environment(args.environments / "snli_pytorch", packages)
    measures = [
        Measure("training", "train", batches),
        Measure("answers", "answer", batches, passes=3),
    ]

    # Each peer, eager and compiled, beside the suite's config and its lighter one.
    jobs = {
        name: {"checkout": str(getattr(args, name).absolute()), "words": words, "word_dim": 300}
        for name in PEERS
    }
    light = suite(LIGHT, overrides)._replace(name="suite, light")
    peers = (
        side for name in PEERS for side in eager_and_compiled(Side(name, python, name, jobs[name]))
    )
    sides = [suite(CONFIG, overrides), light, *peers]
    compare(args, "snli_pytorch", sides, measures, UNEQUAL)


if __name__ == "__main__":
    run(main)
