"""Pages of runs, sweeps and tables: charts, Markdown and HTML."""
