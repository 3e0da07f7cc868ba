"""Candidate files that h5py writes are read, and what golden/ writes is what h5py sees.

usage: golden_candidate_h5py_test.py CANDIDATE_COPY ORACLE_FOLDER
"""

import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np


def bf16_patterns(values):
    """Rounded to nearest even; numpy has no bf16."""
    with np.errstate(over="ignore"):
        bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + np.uint64(0x7FFF) + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def bf16_values(patterns):
    return (np.asarray(patterns).astype(np.uint32) << np.uint32(16)).view(np.float32)


def put(file, path, values, storage):
    """One dataset as an implementation that uses h5py would write it."""
    if storage == "bf16 as uint16":
        item = file.create_dataset(path, data=bf16_patterns(values))
    elif storage == "bf16 as float32":
        item = file.create_dataset(path, data=bf16_values(bf16_patterns(values)))
    else:
        large = np.ndim(values) > 0 and np.size(values) > 0
        with np.errstate(over="ignore"):
            data = np.asarray(values).astype(storage)
        item = file.create_dataset(path, data=data, **({"compression": "gzip", "shuffle": True} if large else {}))
    if storage.startswith("bf16"):
        item.attrs["storage_dtype"] = "bf16"


STORAGES = ["float16", "bf16 as uint16", "bf16 as float32", "float32", "float64"]


def write_candidate(golden, path):
    """Every result of a golden, encodings in turn, topk as int32; its problem in part, narrowed. Returns what was stored."""
    stored = {}
    with h5py.File(path, "w") as file:
        file.attrs["format"] = "plumbline-candidate"
        file.attrs["format_version"] = 1
        file.attrs["producer"] = "h5py"
        names = []
        golden.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        for i, name in enumerate(n for n in names if n.startswith(("forward/", "grad/"))):
            stored[name] = "int32" if name == "forward/topk" else STORAGES[i % len(STORAGES)]
            values = golden[name][()]
            if name == "forward/out":
                values[0, :2] = np.nan, -np.inf
            put(file, name, values, stored[name])
        put(file, "inputs/hidden", golden["inputs/hidden"][()], "bf16 as uint16")
        put(file, "inputs/grad_out", golden["inputs/grad_out"][()], "bf16 as float32")
        put(file, "weights/wq_a", golden["weights/wq_a"][()], "float16")
        put(file, "weights/attn_sink", golden["weights/attn_sink"][()], "float32")
        file.create_dataset("packing/offsets", data=golden["packing/offsets"][()])
        config = file.create_group("config")
        for name, value in golden["config"].attrs.items():
            config.attrs[name] = value
    return stored


def check_copy(path, candidate, stored):
    with h5py.File(path, "r") as got, h5py.File(candidate, "r") as want:
        assert got.attrs["format"] == "plumbline-candidate" and got.attrs["format_version"] == 1
        assert got.attrs["producer"] == "h5py" and "case" not in got.attrs
        assert set(got) <= {"forward", "grad"}, set(got)
        for name, storage in stored.items():
            item, values = got[name], want[name][()]
            if storage == "int32":
                assert item.dtype == np.int64 and np.array_equal(item[()], values), name
                continue
            bf16 = storage.startswith("bf16")
            assert item.dtype == (np.uint16 if bf16 else np.dtype(storage)), f"{name}: {item.dtype}, want {storage}"
            assert dict(item.attrs) == ({"storage_dtype": "bf16"} if bf16 else {}), f"{name}: {dict(item.attrs)}"
            if storage == "bf16 as float32":
                values = bf16_patterns(values)
            assert item.shape == np.shape(values), name
            same = np.asarray(item[()]).tobytes() == np.asarray(values).tobytes()
            nan = name == "forward/out"  # which NaN is not kept
            assert same or (nan and np.array_equal(item[()], values, equal_nan=not bf16)), f"{name}: other bits"


def run(copy, *paths):
    return subprocess.run([copy, *map(str, paths)], capture_output=True, text=True)


def check_refusals(copy, oracle, candidate, folder):
    """The exit codes of a candidate of another case, of one with nothing in it, and of a wrong encoding."""

    def refusal(edit):
        path = folder / "refused.h5"
        path.write_bytes(candidate.read_bytes())
        with h5py.File(path, "r+") as file:
            edit(file)
        done = run(copy, oracle, path, folder / "none.h5")
        assert not (folder / "none.h5").exists()
        assert done.stderr.count("\n") == 1, done.stderr
        return done.returncode, done.stderr

    def nothing(file):
        del file["forward"], file["grad"]

    code, text = refusal(lambda file: file["config"].attrs.modify("window", 99))
    assert code == 2 and "config/window: of another case: got 99, want 7" in text, text
    code, text = refusal(nothing)
    assert code == 3 and "nothing to judge" in text, text
    code, text = refusal(lambda file: file.create_dataset("forward/attn_ot", data=0.0))
    assert code == 4 and "did you mean 'attn_out'" in text, text


def main(copy, oracles):
    oracles = sorted(pathlib.Path(oracles).glob("*.h5"))
    assert len(oracles) == 17, f"{len(oracles)} oracle files"
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for oracle in oracles:
            candidate, target = folder / f"candidate_{oracle.name}", folder / oracle.name
            with h5py.File(oracle, "r") as golden:
                stored = write_candidate(golden, candidate)
            done = run(copy, oracle, candidate, target)
            assert done.returncode == 0, done.stderr
            check_copy(target, candidate, stored)
            print(f"{oracle.name}: {len(stored)} datasets, same")
        window = next(oracle for oracle in oracles if oracle.stem == "swa_window")
        check_refusals(copy, window, folder / f"candidate_{window.name}", folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
