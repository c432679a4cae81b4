"""Train models and measure how accurate they are."""
