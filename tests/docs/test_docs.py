"""README and the manual: every command and config field exists, links resolve.

At night each block runs on tiny data, unless a comment above the block names what it needs:

    <!-- needs: a GPU -->
"""

import argparse
import ast
import functools
import importlib
import itertools
import pkgutil
import re
import types

import pytest

from common_jax.errors import UserError
from common_jax.fields import flat, to_mapping
from common_jax.training.config import parse, task_class
from launch import arguments, evaluate
from launch.__main__ import commands as listed_commands
from launch.__main__ import module_of
from launch.arguments import system_files
from launch.export import __main__ as export
from launch.predict import __main__ as predict
from launch.reproduce import __main__ as reproduce
from launch.reproduce.spec import read_table
from launch.trials.trials import grid_axis, grid_trials, zipped_axis
from tests.docs.manual import PAGES, RESULTS, ROOT, blocks, commands, prose

FAMILIES = ("csan", "qanet", "attconv")
CHECKED = [*PAGES, ROOT / "docs" / "results" / "speed.md"]
WRITTEN = [page for page in PAGES if page.name != "mistakes.md"]
by_name = {"ids": lambda page: str(page.relative_to(ROOT))}


class ParsedError(Exception):
    """Carries the arguments that a command's parser has read, and stops the command."""


@pytest.fixture
def parsers(monkeypatch):
    """Makes commands raise `ParsedError` once their parser has read the arguments."""
    read = argparse.ArgumentParser.parse_known_args

    def parse_known_args(self, args=None, namespace=None):
        values, rest = read(self, args, namespace)
        if self.add_help:
            raise ParsedError(values, rest)
        return values, rest

    names = [f"{family}_jax.predictor" for family in FAMILIES]
    classes = [kind for name in names for kind in vars(importlib.import_module(name)).values()]
    options = {o.name: o for kind in classes for o in getattr(kind, "options", ())}
    compiled = [option for option in options.values() if option.compiled or option.decoding]
    monkeypatch.setattr(arguments.Parser, "parse_known_args", parse_known_args)
    monkeypatch.setattr(predict, "_model", lambda argv: (None, [*options.values()]))
    formats = {"ctranslate2": ""}
    predictor = types.SimpleNamespace(options=compiled, formats=formats)
    monkeypatch.setattr(export, "_predictor", lambda argv: predictor)
    monkeypatch.setattr(evaluate, "_decoding_options", lambda argv: [])  # of a run that is not here
    monkeypatch.chdir(ROOT)


def require_valid(name, args, rest):
    """Checks config, system, fields and table of a command line, and what its parser has left."""
    if name == "reproduce" and args.table:
        reproduce._scale(read_table(reproduce.TABLES / f"{args.table}.toml"), args)
    if not hasattr(args, "config"):
        assert all(name == "evaluate" and _of_data(argument) for argument in rest), rest
    elif name == "sweep":
        axes = [grid_axis(text) for text in args.grid]
        axes += [zipped_axis(args.zip)] if args.zip else []
        grid_trials(args.config, rest, axes, args.seeds, args.out, args.systems)
    else:
        files = system_files(args.config, getattr(args, "systems", [])) or {"": args.config}
        for file in files.values():
            parse(file, rest)


def _of_data(argument):
    """Whether it overrides a field of data that the config of some family has."""
    key = argument.removeprefix("--config.data.").partition("=")[0]
    return argument.startswith("--config.data.") and any(
        hasattr(config_class().data, key) for config_class in _config_classes()
    )


@functools.cache
def _config_classes():
    files = (f"configs/{family}/quickstart.py" for family in FAMILIES)
    return [task_class(parse(file, []).task).config_class for file in files]


@pytest.mark.parametrize("page", CHECKED, **by_name)
def test_each_command_is_valid(page, parsers):
    for block in blocks(page):
        for name, argv in commands(block.text):
            assert name in listed_commands() or not (name or argv), f"{block}: launch.{name}"
            if name and "--help" not in argv:
                with pytest.raises(ParsedError) as parsed:
                    importlib.import_module(module_of(name)).main(argv)
                require_valid(name, *parsed.value.args)


@pytest.mark.parametrize("page", CHECKED, **by_name)
def test_each_block_has_a_language_and_each_snippet_can_be_parsed(page):
    for block in blocks(page):
        assert block.language or not re.search(r"^(uv|python|pip) ", block.text, re.M), block
        if block.language == "python":
            ast.parse(block.text, str(block))


def test_lines_of_code_fit_a_window_of_1280_pixels():
    longest = 133  # docs/stylesheets/extra.css
    lines = [
        line for page in [*PAGES, *RESULTS] for b in blocks(page) for line in b.text.split("\n")
    ]
    assert max(map(len, lines)) <= longest


@pytest.fixture(scope="module")
def config_keys():
    """The full and short keys of the configs of all families and systems."""
    keys = set()
    files = {"csan": "multi30k.py", "qanet": "squad.py", "attconv": "snli.py"}
    for family in FAMILIES:
        systems = importlib.import_module(f"configs.{family}.systems").SYSTEMS
        file = ROOT / "configs" / family / files[family]
        for system in ["", *systems]:
            try:
                config = parse(f"{file}{system and ':'}{system}", [])
            except UserError:  # a system that another config file has
                continue
            keys |= {*getattr(config, "short_keys", {})}
            for key in flat(to_mapping(config)):  # and its sections
                keys |= {*itertools.accumulate(key.split("."), "{}.{}".format)}
    return keys


SECTIONS = r"(?:data|model|words|train|optimizer|mesh|decode|paper|loss)"
FOLDERS = r"(?:configs|launch|tests|docs|tables|\w+_jax)"
FILE_ENDINGS = {"en", "de", "tsv", "json", "py", "md"}


@pytest.mark.parametrize("page", WRITTEN, **by_name)
def test_names_in_the_text_exist(page, config_keys):
    """Inline code names commands, flags, config keys, paths and objects."""
    known = {*listed_commands(), "api"}
    for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(page.read_text("utf-8"))):
        assert {*re.findall(r"\blaunch\.(\w+)", span)} <= known, span
        key = re.match(rf"(?:--config\.)?({SECTIONS}\.[a-z_.]+)(?:=\S*)?$", span)
        if key and key[1].rpartition(".")[2] not in FILE_ENDINGS:
            assert key[1] in config_keys, span
        path = re.match(rf"({FOLDERS}/[a-z0-9_./]*)(?::\w+)?$", span)
        assert path is None or (ROOT / path[1]).exists(), span
        if re.match(r"(?:common|csan|qanet|attconv)_jax(?:\.\w+)+$", span):
            pkgutil.resolve_name(span)


def anchors(page):
    heads = re.findall(r"^#+ (.*)$", prose(page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower()) for head in heads}


LINKING = [*PAGES, *RESULTS, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]


@pytest.mark.parametrize("page", [p for p in LINKING if p.parent.name != "api"], **by_name)
def test_links_resolve(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text("utf-8"))):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not re.match(r"https?:", link) and "api/" not in str(target):
            assert target.exists() and (not anchor or anchor in anchors(target)), link


def test_results_named_in_code_exist():
    packages = {path.parent for path in ROOT.glob("*/__init__.py")} - {ROOT / "tests"}
    files = [file for package in packages for file in package.rglob("*.py")]
    named = {
        (str(file.relative_to(ROOT)), name.rstrip("."))
        for file in files
        for name in re.findall(r"docs/results/[a-z][\w./]*", file.read_text("utf-8"))
    }
    assert ("configs/csan/multi30k.py", "docs/results/csan/recipe") in named
    assert not [pair for pair in named if not (ROOT / pair[1]).exists()]


def test_readme_fits_and_the_manual_lists_all_results():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(re.sub(r"[ ]*<!--.*?-->\n", "", text, flags=re.DOTALL).splitlines()) <= 110
    index = (ROOT / "docs" / "results" / "index.md").read_text("utf-8")
    for page in RESULTS:
        if page.name == "page.md":
            assert str(page.relative_to(ROOT / "docs" / "results")) in index
