"""treefine inside other tools."""
