"""python -m treefine is the treefine command."""

from treefine.interfaces.cli import app

app(prog_name="treefine")
