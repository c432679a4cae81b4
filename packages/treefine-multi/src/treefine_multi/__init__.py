"""The treefine model for 36 languages. treefine finds its folder by the entry point `treefine.models`."""

from pathlib import Path

FOLDER = Path(__file__).parent / "multi"
