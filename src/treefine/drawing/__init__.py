"""Draw graphs: in a terminal, as SVG, or as an HTML page. Uses only the standard library."""
