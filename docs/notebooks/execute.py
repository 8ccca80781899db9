"""Executes a notebook in the current folder: execute.py NOTEBOOK OUT [NAME=VALUE ...].

NAME=VALUE replaces a parameter of its cell "parameters". The cell "install" is skipped, and OUT is
the notebook with its outputs. Needs nbclient and ipykernel.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config


def main(source: str, out: str, *parameters: str) -> None:
    notebook = nbformat.read(source, as_version=4)

    def tags(cell):
        return cell.metadata.get("tags", [])

    notebook.cells = [cell for cell in notebook.cells if "install" not in tags(cell)]
    (at,) = (n for n, cell in enumerate(notebook.cells) if "parameters" in tags(cell))
    notebook.cells.insert(at + 1, nbformat.v4.new_code_cell("\n".join(parameters)))
    sockets = Config(KernelManager={"transport": "ipc"})  # with a kernel of this machine
    NotebookClient(notebook, timeout=600, kernel_name="python3", config=sockets).execute()
    Path(out).write_text(nbformat.writes(notebook), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
