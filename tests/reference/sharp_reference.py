#!/usr/bin/env python3
"""sharp_reference.py - the sharp clips of the golden matrices, by SVD in NumPy float64.

    python3 tests/reference/sharp_reference.py [DIRECTORY]     (default: tests/data)

reads M and D of every file golden/op_*.mgv in tests/data and writes sharp_reference.mgv with the
records

    MATRIX.sharpP           U f(S) V^T, f(s) = s / (1 + (s/D)^p)^(1/p), for p = 4, 8, 16, 32

MATRIX being the name of the file without "op_".  The hard clip and the soft one, p = infinity and 2,
are in the golden files themselves; what is computed here must agree with them to 1e-12, relative
and in Frobenius norm.
"""
import glob
import os
import sys

import numpy as np

from mgv import read_mgv, write_mgv
from spectral_maps import sharp

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "data")
SHARPNESS = (4, 8, 16, 32)


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else DATA
    out = {}
    for path in sorted(glob.glob(os.path.join(DATA, "golden", "op_*.mgv"))):
        golden = read_mgv(path)
        m, d = golden["M"], golden["D"].item()
        for p, known in ((2, golden["soft"]), (np.inf, golden["hard"])):
            off = np.linalg.norm(sharp(m, d, p) - known)
            assert off <= 1e-12 * np.linalg.norm(known), (path, p, off)
        for p in SHARPNESS:
            out["%s.sharp%d" % (os.path.basename(path)[3:-4], p)] = sharp(m, d, p)
    write_mgv(os.path.join(target, "sharp_reference.mgv"), out)
    print("%d records" % len(out))


if __name__ == "__main__":
    main()
