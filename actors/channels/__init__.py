"""Channels: one authenticated connection per pair of processes, which carries calls of bytes in both directions.

Ray places, supervises and finds the processes, and hands out the secret of the network; see `pool`.
"""
