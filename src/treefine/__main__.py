"""python -m treefine is the treefine command."""

from treefine.cli.app import app

app(prog_name="treefine")
