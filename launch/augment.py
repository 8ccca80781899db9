"""Augments a reading corpus with paraphrases of its passages, by back-translation.

The sentences of each passage are replaced by paraphrases in which the answers are located again (Yu
et al. 2018, section 3). Paraphrases come from two translators (runs or exports), into another
language and back, or from a file with a line {"sentence": TEXT, "paraphrases": [TEXT, ...]} for
each sentence. Those of translators are stored beside OUT, and the same command resumes from there.

example:
  python -m launch.augment --data train-v1.1.json --out en_fr.json --forward runs/en-fr \\
    --backward runs/fr-en
  python -m launch.train --config configs/qanet/squad.py \\
    --config.data.train=train-v1.1.json,en_fr.json --config.data.weights=3,1
"""

import argparse
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from common_jax.errors import UserError
from common_jax.io.paths import disk_path
from launch.arguments import Parser, natural, output_file, positive
from launch.cli import command_line, configure_logging, run
from launch.compiled import keep_compiled


def main(argv: list[str]) -> None:
    from qanet_jax.augmentation.relocation import THRESHOLD

    def share(text: str) -> float:
        """Argument type: a number from 0 to 1."""
        value = float(text)
        if not 0 <= value <= 1:
            raise argparse.ArgumentTypeError(f"{text}: from 0 to 1")
        return value

    usage = "%(prog)s --data IN --out OUT [options]"
    parser = Parser(prog="python -m launch.augment", usage=usage, description=__doc__)
    add = parser.add_argument
    add("--data", type=disk_path, required=True, metavar="IN", help="file in SQuAD's format")
    add("--out", type=output_file, required=True, help="file to write, in the same format")
    add("--forward", metavar="RUN", help="translator from the corpus's language")
    add("--backward", metavar="RUN", help="translator into it")
    add("--language", default="en", metavar="CODE", help="of the corpus, for translators (en)")
    add("--paraphrases", type=disk_path, metavar="FILE", help="instead of translators")
    add("--beam", type=positive, default=5, help="hypotheses of a sentence, each way (5)")
    add("--count", type=positive, default=1, help="copies of each passage (1)")
    text = f"least similarity of a located answer, 0 to 1 ({THRESHOLD})"
    add("--threshold", type=share, default=THRESHOLD, help=text)
    add("--passages", type=positive, metavar="N", help="augment a random sample of N passages")
    add("--seed", type=natural, default=0, help="seed of the sample and of the paraphrases (0)")
    add("--report", type=output_file, metavar="FILE", help="page about the result (.html)")
    args = parser.parse_args(argv)
    translators = [args.forward, args.backward]
    if (args.paraphrases is not None) == any(translators) or None in translators != [None, None]:
        parser.error("give --forward and --backward, or --paraphrases")
    configure_logging()

    from common_jax.bad_examples import BadExamples, summary
    from common_jax.data.sources import require_some
    from common_jax.io.atomic import replace_text, writing
    from common_jax.text.sentence_splitter import split_sentences
    from common_jax.text.squad import read_squad, write_squad
    from launch.pages.html import to_html
    from qanet_jax.augmentation.augment import augment, report, sample_passages
    from qanet_jax.augmentation.paraphrases import read_paraphrases

    bad_examples = BadExamples("skip")
    squad = read_squad(args.data, bad_examples)
    dropped = bad_examples.counts
    require_some(len(squad.questions), "questions", "augmentation", str(args.data), dropped)
    squad = sample_passages(squad, args.passages, args.seed)
    spans = [split_sentences(context) for context in squad.contexts]
    passages = zip(squad.contexts, spans, strict=True)
    sentences = [*dict.fromkeys(context[i:j] for context, cuts in passages for i, j in cuts)]
    file = args.paraphrases
    if file is None:
        _require_languages(args.forward, args.backward, args.language)
        file = _translated(sentences, args.forward, args.backward, args.beam, args.out)
    settings = {"count": args.count, "threshold": args.threshold, "seed": args.seed}
    augmented = augment(squad, spans, read_paraphrases(file, sentences), **settings)
    if not augmented.squad.questions:
        raise UserError(f"{file}: no passage changes: no paraphrase has its sentence's answers")
    write_squad(args.out, augmented.squad)
    if args.report:
        page = report(augmented, args.threshold, command_line("augment", argv))
        with writing(args.report):
            replace_text(args.report, to_html(page))
    for name, number in augmented.counts.events.items():
        print(f"{number:9,} {name}")
    if reasons := summary(dropped):
        print(f"left out of {args.data}: {reasons}")
    print(f"wrote {args.out}" + (f" and {args.report}" if args.report else ""))


def _translated(
    sentences: Sequence[str], forward: str, backward: str, beam: int, out: Path
) -> Path:
    """Completes the file of the sentences' paraphrases by back-translation, and returns it."""
    from common_jax.deploy import load
    from qanet_jax.augmentation.paraphrases import Translate, write_paraphrases

    def translator(path: str) -> Translate:
        predictor = load(path, beam_size=beam, hypotheses=True)

        def translate(lines: Sequence[str]) -> list[list[str]]:
            answers: Iterator[Any] = predictor.predict([" ".join(line.split()) for line in lines])
            return [[h.translation for h in answer.hypotheses] for answer in answers]

        return translate

    def translators() -> tuple[Translate, Translate]:
        keep_compiled()
        return translator(forward), translator(backward)

    inputs = json.dumps([_identity(forward), _identity(backward), beam, sentences])
    digest = hashlib.sha256(inputs.encode()).hexdigest()[:8]
    file = out.with_name(f"{out.stem}.{digest}.paraphrases.jsonl")
    write_paraphrases(file, sentences, translators)
    return file


def _require_languages(forward: str, backward: str, language: str) -> None:
    """Requires translators from the corpus's language into another, and back.

    Raises:
      UserError: if they translate between other languages, or are no translators.
    """
    (start, middle) = _languages(forward)
    (middle_back, end) = _languages(backward)
    if start != language:
        raise UserError(
            f"--forward {forward}: translates {start} into {middle}, but must translate from "
            f"{language}, the corpus's language (--language)"
        )
    if (middle, start) != (middle_back, end):
        raise UserError(
            f"--backward {backward}: translates {middle_back} into {end}, but must translate "
            f"{middle} into {start}, as --forward {forward} translates {start} into {middle}"
        )


def _languages(path: str) -> tuple[str, str]:
    """The source and the target language of a translator.

    Raises:
      UserError: if the model is no translator.
    """
    from common_jax.deploy import predictor_class
    from common_jax.deploy.named import located
    from common_jax.training.run_folder import RunFolder

    if "hypotheses" not in {option.name for option in predictor_class(path).options}:
        raise UserError(f"{path}: not a translator")
    data = RunFolder(located(path)).config()["data"]
    return data["source_language"], data["target_language"]


def _identity(path: str) -> list[str]:
    """The folder, and names or contents of files that depend on the parameters."""
    from common_jax.deploy.named import located
    from common_jax.io import checksums
    from common_jax.training.run_folder import RunFolder

    workdir = RunFolder(located(path))
    if workdir.is_export:
        return [path, (workdir.path / checksums.NAME).read_text("utf-8")]
    steps = sorted(step.name for step in workdir.checkpoints.glob("*"))
    return [path, *steps, json.dumps(workdir.result())]


if __name__ == "__main__":
    run(main)
