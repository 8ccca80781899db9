"""Exports a trained model as a folder that can be used without its run.

Writes tokenizer or vocabulary, config, parameters, checksums and a model card (README.md) into a
new folder, in one of these formats:

  stablehlo    compiled programs and the parameters: used without model code, flax or Orbax, on a
               CPU, a CUDA GPU or a TPU, for texts of any length. A translator has one program for
               each --beam_size, a question answerer for each --count of answers; other options of
               decoding are fixed in them. --workdir RUN --help lists those of a run's model.
  safetensors  parameters by name
  or one of the model's own, which --workdir RUN --help names and docs/exports.md describes

--push also writes the export to a model hub (HF_TOKEN, extra hub), from which load and --model read
it: hf://OWNER/NAME@REVISION. --examples N stores N examples of dev, which a server shows; --push
prints them, and asks for --yes, since everyone can then read them.
Exports the best checkpoint; for a run with train.ema_decay, its moving average.

example:
  python -m launch.export --workdir runs/csan/quickstart --out exports/translator
  python -m launch.predict --model exports/translator --beam_size 1 < sentences.txt
"""

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from common_jax.deploy import hub
from common_jax.fields import require
from launch.arguments import (
    Parser,
    add_options,
    early_arguments,
    folder,
    natural,
    option_values,
    positive,
)
from launch.cli import command_line, configure_logging, run, spelled

if TYPE_CHECKING:
    from common_jax.deploy.predictor import Option, Predictor

OLDEST_JAX = "0.10.2"  # oldest supported version; newer ones can read its programs
MOST = 1000  # hypotheses or answers; more would not fit into memory


def main(argv: list[str]) -> None:
    from common_jax.deploy.format import FORMATS

    # The formats and options depend on the model.
    predictor = _predictor(argv)
    further = {} if predictor is None else predictor.formats
    every = [] if predictor is None else [*predictor.options]
    options = [option for option in every if option.compiled]
    decoding = [option for option in every if option.decoding and not option.compiled]
    parser = _parser([*FORMATS, *further], options, decoding)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.error(f"{unknown[0]}: the predictor of {args.workdir} has no such choice")

    # What argparse cannot check.
    choices = {o.name: values for o in options if (values := getattr(args, o.name))}
    for name, values in choices.items():
        if max(values) > MOST:
            parser.error(f"--{name} {max(values)}: at most {MOST}")
    if args.push and args.format not in FORMATS:
        parser.error(f"--push: goes with --format {' or '.join(FORMATS)}")
    if args.push:
        hub.Repository.of(args.push)
        hub.library(args.push)

    configure_logging()
    import jax

    from common_jax.deploy.named import located
    from common_jax.training.scored_run import ScoredRun
    from launch.export.write import ExportRequest, dev_examples, export

    # What everyone could read.
    workdir = ScoredRun(located(args.workdir))
    examples = dev_examples(workdir, args.examples) if args.examples else ()
    if args.push and examples:
        print(f"examples of dev that {args.push} will have:", *examples, sep="\n")
        require(args.yes, "--push with --examples: everyone can read these; --yes confirms it")

    command = command_line("export", argv)
    request = ExportRequest(
        workdir=workdir,
        out=args.out,
        format=args.format,
        average=args.average,
        ema=args.ema,
        choices=choices,
        decoding=option_values(args, decoding),
        dtype=args.dtype,
        command=command,
        name=hub.revision(args.push),
        license=args.license,
        examples=examples,
    )
    export(request)

    # What was written, and how to use it.
    print(f"wrote {args.out}; see {args.out / 'README.md'}")
    if args.push:
        print(f"pushed {hub.upload(args.out, args.push)}")
    if args.format == "stablehlo" and jax.__version__ != OLDEST_JAX:
        print(
            f"it needs jax {jax.__version__} or newer; for all versions from {OLDEST_JAX} on: "
            f"uv run --with jax=={OLDEST_JAX} {command}"
        )
    print(spelled(f"next:\n  python -m launch.predict --model {shlex.quote(str(args.out))}"))


def _parser(
    formats: Sequence[str], options: Sequence["Option"], decoding: Sequence["Option"]
) -> Parser:
    parser = Parser(prog="python -m launch.export", description=__doc__)
    add = parser.add_argument
    add("--workdir", required=True, metavar="RUN", help="folder of the run")
    add("--out", required=True, type=folder, metavar="DIR", help="folder to write, a new one")
    text = f"{' | '.join(formats)} ({formats[0]})"
    add("--format", choices=formats, default=formats[0], metavar="FORMAT", help=text)
    text = "in which a format of the model's own stores the weights: float32 | int8 (float32)"
    add("--dtype", default="", metavar="DTYPE", help=text)
    add("--average", type=positive, default=1, metavar="K", help="mean of the K newest checkpoints")
    text = "the moving average of the parameters (if the run has one)"
    add("--ema", action=argparse.BooleanOptionalAction, help=text)
    text = "also replace the files of this repository of a hub: hf://OWNER/NAME"
    add("--push", metavar="NAME", default="", help=text)
    text = "store N examples of dev, which pages of a server show; they may be private (0)"
    add("--examples", type=natural, default=0, metavar="N", help=text)
    add("--yes", action="store_true", help="--push also the examples")
    text = "of the card: apache-2.0, cc-by-4.0, ... (unknown; of generated data apache-2.0)"
    add("--license", metavar="ID", default="", help=text)

    # What the programs of the export are for, and what is fixed in them.
    add_options(parser, decoding)
    for option in options:
        add(
            f"--{option.name}",
            type=positive,
            action="append",
            default=[],
            metavar=option.metavar,
            help=f"{option.help}: a program for this number; may be repeated",
        )
    return parser


def _predictor(argv: list[str]) -> "type[Predictor] | None":
    """The class of the run's predictor; None without a run."""
    path = early_arguments("export", argv, "--workdir").workdir
    if path is None:
        return None
    from common_jax.deploy import predictor_class

    return predictor_class(path)


if __name__ == "__main__":
    run(main)
