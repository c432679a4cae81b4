"""What treefine costs, measured beside its peers: one runner, one JSON row per run, tables made from the rows.

python -m benchmarks reading            # one benchmark; `all` for each
python -m benchmarks accuracy --help    # train a recipe and measure it; then `significance` of what was tested
python -m benchmarks tables             # write the tables in README and docs from the rows

`speed`, `accuracy` and `server` hold the benchmarks, `peers` the parsers that run in processes of their own, and
`pages` what is generated. All share `options` (the arguments), `timing` and `rows` (the file that they write).
"""
