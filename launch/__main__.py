"""Lists the commands, each with the first line of its docstring, without importing them."""

import ast
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def commands() -> dict[str, str]:
    """The first line of the docstring of each command of this folder, by name."""
    lines = {}
    for path in [*FOLDER.glob("[!_]*.py"), *FOLDER.glob("*/__main__.py")]:
        source = path.read_text("utf-8")
        if "\n    run(main)" in source:
            docstring = ast.get_docstring(ast.parse(source)) or ""
            name = path.parent.name if path.stem == "__main__" else path.stem
            lines[name] = docstring.partition("\n")[0]
    return dict(sorted(lines.items()))


def module_of(command: str) -> str:
    """The full name of the module with the `main` of a command."""
    is_folder = (FOLDER / command).is_dir()
    return f"launch.{command}.__main__" if is_folder else f"launch.{command}"


def main(argv: list[str]) -> None:
    known = commands()
    if argv and argv[0] not in ("-h", "--help"):
        name = argv[0].removeprefix("launch.")
        hint = f"python -m launch.{name}" if name in known else "see python -m launch"
        print(f"error: {argv[0]}: each command is a module: {hint}", file=sys.stderr)
        sys.exit(2)
    width = max(map(len, known))
    print("Commands: python -m launch.NAME; --help explains each.\n")
    for name, line in known.items():
        print(f"  {name:{width}}  {line}")
    print("\nexample:\n  python -m launch.train --config configs/csan/quickstart.py")


if __name__ == "__main__":
    main(sys.argv[1:])
