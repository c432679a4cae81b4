"""From words and a graph to scores: sub-words, the encoder that reads a graph, and the scorer."""
