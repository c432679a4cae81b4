"""Use: the command line. Nothing imports from here."""
