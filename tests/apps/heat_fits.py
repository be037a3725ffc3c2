#!/usr/bin/env python3
"""Fits models of heat (helmholtz-analytics) to the sections of Perl's manual: clusters of sections by
their words, or a lasso that tells release notes from other pages.

Usage: mpirun -n 4 python3 heat_fits.py kmeans|lasso"""
import re
import sys
import time
import zlib
from pathlib import Path

import heat
import numpy as np

FEATURES = {"kmeans": 131072, "lasso": 64}  # words are hashed to so many columns
SECTIONS = 40  # of each rank
CLUSTERS = 8
ITERATIONS = 5
comm = heat.MPI_WORLD


def sections(features):
    """This rank's part: counts of hashed words, a row per section, and the rows' labels."""
    rows, labels = [], []
    for page in sorted(Path("/usr/share/perl").glob("5.*.*/pod/*.pod")):
        for section in re.split(r"^=head\d", page.read_text(errors="replace"), flags=re.M)[1:]:
            rows.append(section.lower())
            labels.append(page.name.endswith("delta.pod"))
    order = np.random.default_rng(1).permutation(len(rows))[comm.rank :: comm.size][:SECTIONS]
    counts = np.zeros((SECTIONS, features), dtype=np.float32)
    for row, index in enumerate(order):
        for word in re.findall("[a-z]{3,}", rows[index]):
            counts[row, zlib.crc32(word.encode()) % features] += 1
    counts /= np.maximum(1, np.linalg.norm(counts, axis=1, keepdims=True))
    return counts, np.array([labels[i] for i in order], dtype=np.float32)[:, None]


def main():
    kind = sys.argv[1]
    counts, labels = sections(FEATURES[kind])
    x, y = (heat.array(part, is_split=0) for part in (counts, labels))
    heat.random.seed(1)
    comm.handle.Barrier()
    begin = time.monotonic()
    if kind == "kmeans":
        fit = heat.cluster.KMeans(n_clusters=CLUSTERS, init="random", max_iter=ITERATIONS, tol=-1.0).fit(x)
        found = f"centres={float(heat.norm(fit.cluster_centers_)):.6f}"
    else:
        fit = heat.regression.Lasso(lam=0.01, max_iter=ITERATIONS)
        fit.fit(x, y)
        found = f"weights={float(heat.sum(heat.abs(fit.theta))):.5g}"
    if comm.rank == 0:
        print(f"result: {found} total_s={time.monotonic() - begin:.3f}", flush=True)


main()
