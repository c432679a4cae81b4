"""A run over files: what it reads, what it writes, and what it reports. Needs neither typer nor rich."""
