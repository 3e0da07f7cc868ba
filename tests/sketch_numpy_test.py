"""A sketch made again in numpy, from the tensors of a file of the same case, by the definition in docs/golden-format.md.

Usage: sketch_numpy_test.py PLUMBLINE_PROGRAM TOOLS_FOLDER
"""
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np

PROGRAM, TOOLS = sys.argv[1], sys.argv[2]
sys.path.insert(0, TOOLS)
from check_values import philox  # noqa: E402

CASE, RATIO = "csa,seq=21", 4  # no padding and no mask, so that every row counts


def key_of(path):
    key = 0xCBF29CE484222325
    for c in path.encode():
        key = ((key ^ c) * 0x100000001B3) % 2**64
    return key


def places(extent, most):
    n = min(extent, most)
    return [i * (extent - 1) // (n - 1) if n > 1 else 0 for i in range(n)]


def sketch(path, tensor):
    x = np.array(tensor, dtype=np.float64)
    if path == "forward/topk":
        x = -np.sort(-x, axis=1)
    finite = np.isfinite(x)
    if path == "grad/forward/kl_rows":
        finite[: RATIO - 1] = False  # rows that see no entry are not specified
    x = np.where(finite, x, 0.0)
    matrix = x.reshape(x.shape[0] if x.ndim else 1, -1 if x.size else 0)
    flat = matrix.ravel()
    words = philox(key_of(path), 0x736B, np.arange((flat.size + 15) // 16, dtype=np.uint64), 0)
    bits = np.stack([(w >> np.uint64(b)) & np.uint64(1) for w in words for b in range(32)], axis=-1)  # [blocks, 128]
    signs = 1 - 2 * bits.reshape(-1, 16, 8).reshape(-1, 8)[: flat.size].astype(np.float64)
    rows, columns = matrix.shape
    samples = [matrix[r, c] for r in places(rows, 8) for c in places(columns, 16)]
    step = max(1, -(-rows // 1024))
    norms = [np.float64(np.float32(np.sqrt((matrix[b : b + step] ** 2).sum()))) for b in range(0, rows, step)]
    head = [finite.sum(), abs(flat).max(initial=0), np.sqrt((flat**2).sum())]
    return np.array(head + list(signs.T @ flat) + samples + norms)


with tempfile.TemporaryDirectory() as folder:
    for contents in ("full", "sketch"):
        subprocess.run([PROGRAM, "golden", "make", CASE, "--contents", contents, "--out",
                        str(pathlib.Path(folder) / f"{contents}.h5")], check=True, stdout=subprocess.DEVNULL)
    compared = 0
    with h5py.File(pathlib.Path(folder) / "full.h5") as full, h5py.File(pathlib.Path(folder) / "sketch.h5") as file:
        assert full.attrs["contents"] == "full" and file.attrs["contents"] == "sketch"
        paths = []
        full.visititems(lambda name, item: paths.append(name)
                        if isinstance(item, h5py.Dataset) and name.startswith(("forward/", "grad/")) else None)
        for path in paths:
            want, got = sketch(path, full[path][()]), file["sketch/" + path][()]
            assert want.shape == got.shape, (path, want.shape, got.shape)
            # Sums in another order; norms may round to the neighbouring float32.
            scale = max(want[2], 1e-300)
            assert (np.abs(want - got) <= 1e-12 * scale + 1.2e-7 * np.abs(want) * (np.arange(len(want)) >= 11)).all(), path
            compared += 1
    assert compared > 55, compared
    print(f"{compared} sketches are what numpy makes of the tensors")
