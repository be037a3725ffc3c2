"""Measures how much later a Python program that never imports torch.distributed starts as a rank of two, by the
sitecustomize.py alone that `sparseshim run` puts into PYTHONPATH: medians of 50 starts in turn, in milliseconds.
Argument: its folder."""
import os
import statistics
import subprocess
import sys
import time

PLAIN = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
RANK = dict(PLAIN, PMI_RANK="1", PMI_SIZE="2", PYTHONPATH=sys.argv[1])


def start(environment):
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], env=environment, check=True)
    return 1e3 * (time.monotonic() - begin)


times = [(start(PLAIN), start(RANK)) for _ in range(50)]
plain, rank = (statistics.median(column) for column in zip(*times))
print(f"result: {plain:.1f} ms to start, {rank - plain:.1f} ms more as a rank")
