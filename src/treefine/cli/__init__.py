"""The command line. No other package imports this one."""
