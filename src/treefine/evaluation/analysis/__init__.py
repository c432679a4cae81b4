"""Explain where parsers are right and wrong, without torch."""
