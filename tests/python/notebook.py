"""Executes `tour.py` cell by cell in a kernel, as a notebook:

    python notebook.py FILE.ipynb

The same recordings and versions give the same bytes. A page for a browser is left out of the file, because it is large.
"""

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TOUR = Path(__file__).with_name("tour.py")


def execute():
    """The executed notebook, with all that its cells show."""
    cells = []
    for number, text in enumerate(TOUR.read_text().split("# %%")[1:]):
        kind, _, body = text.partition("\n")
        body = body.strip("\n")
        if kind.strip() == "[markdown]":
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.splitlines()]
            cell = nbformat.v4.new_markdown_cell("\n".join(lines))
        else:
            cell = nbformat.v4.new_code_cell(body)
        cell["id"] = f"cell-{number}"
        cells.append(cell)
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as directory:
        os.environ["IPYTHONDIR"] = directory
        options = {"record_timing": False, "startup_timeout": 300, "resources": {"metadata": {"path": directory}}}
        NotebookClient(notebook, kernel_name="python3", **options).execute()
    notebook.metadata = kernel
    return notebook


def pages(notebook):
    """What cells show as pages for a browser."""
    shown = [output.data for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    return [data for data in shown if "<iframe" in data.get("text/html", "")]


def text(notebook):
    """The file, without the pages."""
    for data in pages(notebook):
        del data["text/html"]
    return nbformat.writes(notebook) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(execute()))
