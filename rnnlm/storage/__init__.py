"""Stages that run once, the records that they pass on, and the files behind them, on this machine and shared."""
