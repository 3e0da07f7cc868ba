"""What golden/ writes is what h5py sees: copies every oracle file with golden_copy and compares the two with h5py.

usage: golden_h5py_test.py GOLDEN_COPY ORACLE_FOLDER
"""

import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np

DEFAULTS = {"yarn_factor": 1.0, "yarn_orig": 0, "beta_fast": 32.0, "beta_slow": 1.0,
            "index_heads": 0, "index_dim": 0, "index_topk": 0}


def type_of(attributes, name):
    """The stored type, exactly: byte order, size, and for strings the character set."""
    kind = attributes.get_id(name).get_type()
    if isinstance(kind, h5py.h5t.TypeStringID):
        return "string", kind.is_variable_str(), kind.get_cset()
    return "number", kind.dtype.str, h5py.check_enum_dtype(kind.dtype)


def objects(file):
    found = {}
    file.visititems(lambda name, item: found.update({name: item}))
    return found


def compare_attributes(path, got, want):
    missing = set(want) - set(got)
    assert not missing, f"{path}: lacks {missing}"
    for name in got:
        if name not in want:
            assert path == "config" and got[name] == DEFAULTS[name], f"{path}: extra {name}"
            continue
        assert type(got[name]) is type(want[name]), f"{path}/{name}: {type(got[name])}, want {type(want[name])}"
        assert got[name] == want[name], f"{path}/{name}: {got[name]!r}, want {want[name]!r}"
        assert type_of(got, name) == type_of(want, name), f"{path}/{name}: {type_of(got, name)}"


def compare_dataset(path, got, want):
    assert got.shape == want.shape and got.dtype == want.dtype, f"{path}: {got.shape} {got.dtype}"
    assert got.maxshape == got.shape, f"{path}: resizable"
    assert got[()].tobytes() == want[()].tobytes(), f"{path}: other bits"
    if got.size * got.dtype.itemsize > 2048:
        assert got.compression == "gzip" and got.shuffle, f"{path}: not compressed"
    else:
        assert got.chunks is None, f"{path}: chunked, though small"


def compare(got, want):
    compare_attributes("/", got.attrs, want.attrs)
    got_objects, want_objects = objects(got), objects(want)
    assert set(got_objects) == set(want_objects), set(got_objects) ^ set(want_objects)
    for path, item in want_objects.items():
        compare_attributes(path, got_objects[path].attrs, item.attrs)
        if isinstance(item, h5py.Dataset):
            compare_dataset(path, got_objects[path], item)


def main(copy, folder):
    oracles = sorted(pathlib.Path(folder).glob("*.h5"))
    assert len(oracles) == 17, f"{len(oracles)} oracle files in {folder}"
    with tempfile.TemporaryDirectory() as temporary:
        for oracle in oracles:
            target = pathlib.Path(temporary) / oracle.name
            subprocess.run([copy, str(oracle), str(target)], check=True)
            with h5py.File(target, "r") as got, h5py.File(oracle, "r") as want:
                compare(got, want)
            assert target.stat().st_size < oracle.stat().st_size, f"{oracle.name}: larger than what h5py writes"
            print(f"{oracle.name}: same")
        # Numbers that h5py computes from the file are those of the case: one formula as a spot check.
        with h5py.File(pathlib.Path(temporary) / "swa_window.h5", "r") as file:
            q_down = file["inputs/hidden"][:] @ file["weights/wq_a"][:].T
            assert np.allclose(q_down, file["forward/q_down"][:], rtol=0, atol=1e-12)


if __name__ == "__main__":
    main(*sys.argv[1:])
