"""What Ray starts as a worker in the tests: one that the fork server forks, or Ray's own where it does not.

Rule: this file imports nothing that takes time, and waits until the worker has ended, as the worker itself would.
"""

import json
import os
import socket
import sys


def forked(path: str) -> bool:
    """Ask the fork server for a worker, and wait for its end; return whether there was one."""
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(path)
        except OSError:
            return False
        asked = json.dumps([sys.argv[1:], dict(os.environ)]).encode()
        socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2])
        server.sendall(asked)
        if server.recv(1) != b"y":
            return False
        server.recv(1)  # the worker has the other end
        return True


if __name__ == "__main__" and not forked(os.environ["RAYVOUS_FORK_SERVER"]):
    os.execv(sys.executable, [sys.executable, os.environ["RAYVOUS_WORKER"], *sys.argv[1:]])
