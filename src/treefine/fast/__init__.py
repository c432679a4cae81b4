"""The same results, faster: the only package that tells CPUs and GPUs apart."""
