"""Fuzz every command and every endpoint in worker processes, with inputs that a seed and a number determine."""
