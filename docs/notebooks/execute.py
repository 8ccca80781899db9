"""Executes a notebook in the current folder: execute.py NOTEBOOK OUT [NAME=VALUE ...].

NAME=VALUE replaces a parameter of its cell "parameters", and OUT is the notebook with its outputs.
Needs nbclient and ipykernel.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config


def main(source: str, out: str, *parameters: str) -> None:
    notebook = nbformat.read(source, as_version=4)
    tags = [cell.metadata.get("tags", []) for cell in notebook.cells]
    (at,) = (n for n, names in enumerate(tags) if "parameters" in names)
    notebook.cells.insert(at + 1, nbformat.v4.new_code_cell("\n".join(parameters)))
    sockets = Config(KernelManager={"transport": "ipc"})  # with a kernel of this machine
    NotebookClient(notebook, timeout=600, kernel_name="python3", config=sockets).execute()
    Path(out).write_text(nbformat.writes(notebook), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
