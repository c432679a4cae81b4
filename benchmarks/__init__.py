"""Benchmarks of treefine and other parsers: one runner, one JSON row per run, and tables made from the rows.

python -m benchmarks reading            # run one benchmark; `all` runs each
python -m benchmarks accuracy --help    # train a recipe and measure it; `significance` then compares the tested models
python -m benchmarks tables             # write the tables of README and docs from the rows

`speed`, `accuracy` and `server` hold the benchmarks, `peers` the parsers that run in separate processes, and `pages`
the generators of pages. All share `options` (the arguments), `timing` and `rows` (the file that they write).
"""
