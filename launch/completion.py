"""Prints the script with which a shell completes commands, configs, systems and fields.

It completes conv-attention, the command of the installed package. The line for bash or zsh belongs
into ~/.bashrc or ~/.zshrc.

example:
  source <(python -m launch.completion bash)
  source <(python -m launch.completion zsh)
  python -m launch.completion fish > ~/.config/fish/completions/conv-attention.fish
"""

import os
import sys
from collections.abc import Callable, Collection, Sequence
from typing import NoReturn

from launch.arguments import Parser
from launch.cli import CONSOLE, run

SHELLS = ("bash", "zsh", "fish")


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.completion", description=__doc__)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=" | ".join(SHELLS))
    args = parser.parse_args(argv)
    import argcomplete

    print(argcomplete.shellcode([CONSOLE], shell=args.shell))


def answer(
    commands: Collection[str], main_of: Callable[[str], Callable[[list[str]], None]]
) -> NoReturn:
    """Prints the completions of the shell's command line, and exits.

    Args:
      commands: their names.
      main_of: the function that runs one of them.
    """
    import argcomplete

    line = os.environ["COMP_LINE"]
    point = int(os.environ["COMP_POINT"])
    prefix, words = argcomplete.split_line(line, point)[1::2]
    if len(words) < 2:
        parser = Parser(prog=CONSOLE)
        parser.add_argument("--version", action="store_true")
        parser.add_argument("command", choices=[*commands])
        argcomplete.autocomplete(parser)
    elif words[1] in commands:
        os.environ["_ARGCOMPLETE"] = "2"  # the number of the command's word
        _complete_at_parsing(words[2:], needs_fields=prefix.startswith("--config."))
        main_of(words[1])(words[2:])
    sys.exit(1)


def _complete_at_parsing(argv: Sequence[str], needs_fields: bool) -> None:
    """Makes the parser of a command complete instead of parsing.

    Args:
      argv: the words before the one to complete.
      needs_fields: whether that is a field of a config.
    """
    import argcomplete

    parse = Parser.parse_known_args
    if needs_fields:
        os.environ["_ARGCOMPLETE_SUPPRESS_SPACE"] = "1"  # a field's "=" follows

    def complete(self, args=None, namespace=None):
        if not self.add_help:  # only reads some flags
            return parse(self, args, namespace)
        Parser.parse_known_args = parse  # type: ignore[method-assign]
        for parser in _with_subcommands(self) if needs_fields else ():
            if "--config" in parser._option_string_actions:
                parser.add_fields(argv)
        argcomplete.autocomplete(self, always_complete_options=False)
        raise AssertionError("argcomplete has exited")

    Parser.parse_known_args = complete  # type: ignore[method-assign]


def _with_subcommands(parser: Parser) -> list[Parser]:
    choices = [action.choices or {} for action in parser._actions]
    subcommands = [
        parser for named in choices if isinstance(named, dict) for parser in named.values()
    ]
    return [parser, *subcommands]


if __name__ == "__main__":
    run(main)
