"""Applies a trained model to lines or to a table, and prints or writes its predictions.

Reads the lines of standard input, and answers each when it is complete, or a file. A translator
reads text; a question answerer JSON, {"context": ..., "question": ...}, or one question about a
file; a classifier texts, or pairs separated by a tab. A line may also be a JSON object of the
texts. --input reads tables too; --output FILE.csv and FILE.jsonl keep all their columns. A line
that cannot be used has {"error": ...} at its place, or for plain text an empty line and a message;
the others are answered, and the status is 2. Each model has options: --workdir RUN --help.

example:
  echo "A man rides a horse." | python -m launch.predict --workdir runs/csan/multi30k
  python -m launch.predict --workdir runs/qanet/squad --context FILE --question 'Who was it?'
  python -m launch.predict --workdir runs/attconv/snli --input pairs.csv \\
    --columns first=premise,second=hypothesis --output labelled.csv
"""

import argparse
import contextlib
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from common_jax.errors import UserError
from common_jax.io.paths import as_path, disk_path
from launch.arguments import (
    Parser,
    add_memory,
    add_options,
    add_untrusted,
    early_arguments,
    option_values,
    output_on_disk,
    trust,
)
from launch.cli import configure_logging, run
from launch.compiled import keep_compiled

if TYPE_CHECKING:
    from common_jax.deploy.predictor import Option, Predictor
    from launch.predict.records import Record, Records, Results


def main(argv: list[str]) -> None:
    parser = _parser()
    model, options = _model(argv)
    add_options(parser, options)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        name = unknown[0].lstrip("-")
        names = ", ".join(option.name for option in options)
        path = args.workdir or args.model
        parser.error(f"{path}: its predictor has no option {name}; it has {names or 'none'}")
    _check(parser, args)
    configure_logging()
    keep_compiled()
    from common_jax.deploy import load

    # An answer about one text, or those of lines or a table.
    chosen = option_values(args, options)
    predictor = load(model, max_memory=args.max_memory, **chosen)
    if args.context is not None:
        if predictor.fields != ("context", "question"):
            raise UserError(f"{args.workdir or args.model}: answers no questions about a text")
        for answer in predictor.predict(
            [{"context": _read(args.context), "question": args.question}], args.context
        ):
            print(answer)
        return

    records, waits = _records(args, predictor)
    with _results(args.output, records, predictor) as results:
        _answer(predictor, records.rows, results, waits=waits, stops=args.on_bad_line == "stop")


def _parser() -> Parser:
    """The arguments of every model; those of its predictor are added."""
    parser = Parser(prog="python -m launch.predict", description=__doc__)
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--workdir", metavar="RUN", help="folder of the run")
    group.add_argument("--model", metavar="DIR", help="folder or name of an export")
    parser.add_argument("--context", metavar="FILE", help="text that --question is about")
    parser.add_argument("--question", metavar="TEXT", help="a question about --context")

    # The inputs, the output, and what cannot be used.
    text = "lines or a table (standard input)"
    parser.add_argument("--input", type=disk_path, metavar="FILE", help=text)
    text = "column of each text of a table: text=review, first=2,second=3"
    parser.add_argument("--columns", default="", metavar="TEXT=NAME,...", help=text)
    text = "quotation marks of a tab-separated table: auto | csv | text (the run's)"
    parser.add_argument("--quotes", choices=("auto", "csv", "text"), help=text)
    text = "FILE.csv or FILE.jsonl: a table; else lines (standard output)"
    parser.add_argument("--output", type=output_on_disk, metavar="FILE", help=text)
    text = "a line that cannot be used: continue | stop (continue)"
    parser.add_argument(
        "--on_bad_line", choices=("continue", "stop"), default="continue", help=text
    )
    add_memory(parser)
    add_untrusted(parser)
    return parser


def _check(parser: Parser, args: argparse.Namespace) -> None:
    """Ends the command if some arguments do not go together."""
    if (args.context is None) != (args.question is None):
        parser.error("--context and --question belong together")
    if args.context is not None and args.input is not None:
        parser.error("--context does not go with --input")
    if args.context is not None and args.output is not None:
        parser.error("--output does not go with --context, whose answer is printed")
    if args.columns and args.input is None:
        parser.error("--columns goes with --input")
    if args.quotes is not None and args.input is None:
        parser.error("--quotes goes with --input")
    if args.question is not None and not args.question.strip():
        parser.error("--question: has no word")


def _answer(
    predictor: "Predictor",
    records: Iterable["Record"],
    results: "Results",
    *,
    waits: bool,
    stops: bool,
) -> None:
    """Writes the result of each record.

    Raises:
      UserError: at the end, or with `stops` at once, if one cannot be used.
    """
    from common_jax.deploy.predictor import Unanswered

    count = 0
    bad = 0
    first = ""
    for chunk in predictor.chunks(records, waits):
        answers = predictor.results([record.input for record in chunk])
        for record, result in zip(chunk, answers, strict=True):
            count += 1
            if isinstance(result, Unanswered):
                if stops:
                    raise UserError(result.reason)
                bad += 1
                first = first or result.reason
            results.write(record, result)
    if bad:
        raise UserError(f"{bad} of {count} lines cannot be used; the first: {first}")


def _records(args: Any, predictor: "Predictor") -> tuple["Records", bool]:
    """The inputs, and whether `Predictor.chunks` waits for full chunks, as for a file."""
    from launch.predict.records import file_records, stream_records

    if args.input is not None:
        return file_records(args.input, args.columns, predictor.schema, args.quotes), True
    if sys.stdin is None:
        raise UserError("standard input: closed; give it lines, or --input")
    file = cast(io.BufferedIOBase, sys.stdin.buffer)
    waits = True
    with contextlib.suppress(OSError):  # not a file of the system
        number = sys.stdin.fileno()
        waits = stat.S_ISREG(os.fstat(number).st_mode)
        # not sys.stdin, for whose lock Python's exit would wait
        file = open(number, "rb", closefd=False)  # noqa: SIM115
    return stream_records(file, "standard input", predictor.schema), waits


@contextlib.contextmanager
def _results(path: Path | None, records: "Records", predictor: "Predictor") -> Iterator["Results"]:
    """Writes results to a file or standard output."""
    from common_jax.io.atomic import writing
    from launch.predict.records import results_to

    if path is None:
        yield results_to(None, records, sys.stdout, predictor.schema)
        return
    with writing(path), path.open("w", encoding="utf-8", newline="") as file:
        results = results_to(path, records, file, predictor.schema)
        try:
            yield results
        finally:
            results.close()


def _model(argv: list[str]) -> tuple[Any, Sequence["Option"]]:
    """The run or export that the arguments name, and the options of its predictor."""
    args = early_arguments("predict", argv, "--workdir", "--model", add_untrusted)
    if (args.workdir is None) == (args.model is None):
        return None, ()  # the command's parser reports the error
    from common_jax.deploy import predictor_class
    from common_jax.deploy.format import Export
    from common_jax.deploy.loading import export_at

    if args.model is not None:
        model: Any = Export(args.model, **trust(args))
    else:
        model = export_at(args.workdir, **trust(args)) or args.workdir
    return model, predictor_class(model).options


def _read(path: str) -> str:
    """The text of a UTF-8 file, with line ends unchanged, without a byte order mark."""
    try:
        return as_path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 (after {error.start} bytes)") from error


if __name__ == "__main__":
    run(main)
