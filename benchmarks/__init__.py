"""What treefine costs, measured beside its peers: one runner, one JSON row a run, tables made from the rows.

python -m benchmarks reading            # one benchmark; `all` for each
python -m benchmarks accuracy --help    # train a recipe and measure it; then `significance` of what was tested
python -m benchmarks tables             # write the tables in README and docs anew from the rows
"""
