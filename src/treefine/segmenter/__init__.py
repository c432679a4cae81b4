"""Split text into sentences and words."""
