"""Scores a run's best checkpoint, a mean of its newest, an ensemble of runs, or a file.

Prints the metrics as JSON, and writes them and the predictions to eval/<split>.* in the run's
folder. --average K writes to eval/<split>-average<K>.*, and options of decoding, such as a
translator's --beam_size (--workdir RUN --help lists them), to eval/<split>-beam_size<N>.*. Several
--workdir of one corpus are an ensemble, whose probabilities are averaged; it writes to
eval/<split>-ensemble<N>.* of the first run. --data scores other files with the run's vocabulary;
only these are prepared, and --config.data.KEY=VALUE describes them where they differ from the
run's. --task squad scores answers without a run: a file {id: answer}, or a table of id and answer,
as launch.predict writes it. Of questions with adversarial variants, ids ID-VARIANT, the worst
counts with --adversarial, and always in the published files of adversarial SQuAD.
--against RUN adds paired tests against another run, scored on the same examples: bootstrap and
t-test (translation), equal proportions and McNemar's (labels), permutation (answers). p_TEST is the
p-value, RESULT_difference this run's result minus the other's; its 95 % interval, and in
RESULT_detectable the true difference detected with a power of 80 %, for all but BLEU and chrF.

example:
  python -m launch.evaluate --workdir runs/qanet/squad --data sample1k-HCVerifyAll.json
  python -m launch.evaluate --workdir runs/snli1 --workdir runs/snli2 --against runs/snli0
  python -m launch.evaluate --task squad --predictions answers.json --data dev-v1.1.json
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from common_jax.errors import UserError
from launch.arguments import Parser, add_options, early_arguments, option_values, positive
from launch.cli import configure_logging, run
from launch.compiled import keep_compiled

if TYPE_CHECKING:
    from common_jax.deploy.predictor import Option


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.evaluate", description=__doc__)
    add = parser.add_argument
    text = "folder of the run; several for an ensemble"
    add("--workdir", action="append", metavar="RUN", help=text)
    add("--split", help="split to score (test, or dev if there is none)")
    add(
        "--average", type=positive, metavar="K", help="parameters: mean of the K newest checkpoints"
    )
    add("--against", metavar="RUN", help="folder of another run, scored on the same examples")
    add("--task", choices=["squad"], help="score a file of predictions, not a run")
    text = "predictions: {id: answer, ...}, or a table of id and answer"
    add("--predictions", metavar="FILE", help=text)
    text = "examples to score, with answers; several joined by commas"
    add("--data", metavar="FILE", help=text)
    add("--name", help="name of the scores of --data (that of the file)")
    add("--skip_bad", action="store_true", help="count invalid examples of --data, do not stop")
    text = "a field of --data: --config.data.columns=text=review,label=stars"
    add("--config.data.KEY", metavar="VALUE", dest="_", help=text)
    text = "questions have variants, ids ID-VARIANT, of which the worst counts"
    add("--adversarial", action="store_true", help=text)
    options = _decoding_options(argv)
    add_options(parser, options)
    args, overrides = parser.parse_known_args(argv)
    if unknown := [text for text in overrides if not text.startswith("--config.")]:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if (args.workdir is None) == (args.task is None):
        parser.error("give --workdir, or --task with --predictions and --data")
    mode, excluded = (
        ("task", ("split", "average", "against", "name"))
        if args.task
        else ("workdir", ("predictions",))
    )
    for name in excluded:
        if getattr(args, name) is not None:
            parser.error(f"--{name} does not go with --{mode}")
    file_flags = [*overrides[:1], *["--skip_bad"][: args.skip_bad], *["--name"][: bool(args.name)]]
    if file_flags and args.task:
        parser.error(f"{file_flags[0]} goes with --workdir and --data")
    configure_logging()
    values: Mapping[str, Any]
    if args.task is None:
        values = _score_runs(args, overrides, option_values(args, options))
    elif args.predictions is None or args.data is None:
        parser.error("--task needs --predictions and --data")
    else:
        from qanet_jax.answer_files import score_files

        values = score_files(args.predictions, args.data, args.adversarial)
    lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in values.items())
    print("\n".join(["{", ",\n".join(lines), "}"]))


def _score_runs(
    args: argparse.Namespace, overrides: Sequence[str], decoding: Mapping[str, Any]
) -> dict[str, Any]:
    """Scores the run or ensemble; returns the scores with those of the tests."""
    from launch.api.evaluation import evaluate
    from launch.score_tables import score_tables

    keep_compiled()
    names = ("split", "data", "name", "against", "skip_bad", "adversarial")
    options = {name: getattr(args, name) for name in names} | dict(decoding)
    result = evaluate(*args.workdir, overrides=overrides, average=args.average or 1, **options)
    for text in filter(None, (*result.test_notes, score_tables(result.notes))):
        print(text, file=sys.stderr)
    return {"split": result.split, **result.metrics, **result.notes, **result.tests}


def _decoding_options(argv: Sequence[str]) -> list["Option"]:
    """The options of decoding of a run's predictor; none if it cannot be read."""
    path = early_arguments("evaluate", argv, "--workdir").workdir
    if path is None:
        return []
    from common_jax.deploy import predictor_class

    with contextlib.suppress(UserError):  # reported later
        return [option for option in predictor_class(path).options if option.decoding]
    return []


if __name__ == "__main__":
    run(main)
