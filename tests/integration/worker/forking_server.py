"""A stand-in for a forkserver: one process runs programs, and others come and go all the time.

Prints the pid of the process that runs programs. Its arguments are how many MiB all of them share, and the
seed of how long they live.
"""

import os
import random
import signal
import subprocess
import sys

PROGRAM = "kept = bytearray(b'x') * (96 * 2**20); import time; time.sleep(0.05)"
MOST_S = 0.03


def run_programs() -> None:
    os.setsid()
    while True:
        subprocess.run([sys.executable, "-S", "-c", PROGRAM], preexec_fn=lambda: None, check=False)


def main() -> None:
    lengths = random.Random(int(sys.argv[2]))
    shared = bytearray(b"x") * (int(sys.argv[1]) * 2**20)
    if (runner := os.fork()) == 0:
        run_programs()
    os.write(1, f"{runner}\n".encode())
    while shared:
        if (passing := os.fork()) == 0:
            signal.sigtimedwait((), lengths.random() * MOST_S)
            os._exit(0)
        os.waitpid(passing, 0)
        signal.sigtimedwait((), lengths.random() * MOST_S)


if __name__ == "__main__":
    main()
