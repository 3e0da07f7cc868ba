#!/usr/bin/env python3
"""plumbline compare on candidate files that h5py writes: every float format, files that cannot be judged, damaged ones.

Usage: compare_cli_test.py PROGRAM REPOSITORY
"""
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
MADE = tempfile.TemporaryDirectory(prefix="plumbline-compare-")
GOLDEN = pathlib.Path(MADE.name) / "swa.h5"
# Whole files are damaged one byte each; the outcome may be any of these, a crash is none.
DAMAGED, OUTCOMES = 300, {0, 1, 2, 3, 4}


def setUpModule():
    subprocess.run([PROGRAM, "golden", "make", "swa", "--contents", "stored", "--out", GOLDEN], check=True, capture_output=True)


def tearDownModule():
    MADE.cleanup()


def to_bf16(values):
    """bit patterns, rounded to nearest even"""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + np.uint64(0x7FFF) + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)


def from_bf16(patterns):
    return (patterns.astype(np.uint32) << np.uint32(16)).view(np.float32)


ROUND = {"fp64": np.float64, "fp32": lambda x: np.float64(np.float32(x)), "fp16": lambda x: np.float64(np.float16(x)),
         "bf16": lambda x: np.float64(from_bf16(to_bf16(x)))}


def rms_normalized(x, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


def rope(x, config, sign=1):
    """x [T, ..., D]: pairs of the last rope_dim channels turn by the position."""
    pairs = config["rope_dim"] // 2
    angle = sign * np.arange(len(x))[:, None] * config["rope_base"] ** (-np.arange(pairs) / pairs)
    angle = angle.reshape(len(x), *[1] * (x.ndim - 2), pairs)
    y, even, odd = x.copy(), x[..., -2 * pairs::2], x[..., 1 - 2 * pairs::2]
    y[..., -2 * pairs::2] = even * np.cos(angle) - odd * np.sin(angle)
    y[..., 1 - 2 * pairs::2] = even * np.sin(angle) + odd * np.cos(angle)
    return y


def sliding_window(golden, problem, stored):
    """The stages of a sliding-window layer, computed in double precision and rounded where they are stored."""
    c, w = dict(golden["config"].attrs), {}
    for name, item in golden["weights"].items():
        w[name] = ROUND["fp32" if name == "attn_sink" and problem != "fp64" else problem](item[()])
    x, s = ROUND[problem](golden["inputs/hidden"][()]), {}
    tokens, heads, dim = len(x), c["heads"], c["head_dim"]

    def put(name, value):
        s[name] = stored(name, value)
        return s[name]

    q = put("q_latent", rms_normalized(put("q_down", x @ w["wq_a"].T), c["eps"]) * w["q_norm"])
    q = put("q", rope(rms_normalized(put("q_up", (q @ w["wq_b"].T).reshape(tokens, heads, dim)), c["eps"]), c))
    kv = put("kv", rope(rms_normalized(put("kv_proj", x @ w["wkv"].T), c["eps"]) * w["kv_norm"], c))
    z = np.einsum("thd,sd->ths", q, kv) / np.sqrt(dim)
    age = np.arange(tokens)[:, None] - np.arange(tokens)[None]
    z = np.where(((age >= 0) & (age < c["window"]))[:, None], z, -np.inf)
    lse = np.log(np.exp(w["attn_sink"]) + np.exp(z).sum(-1))
    out = put("attn_out", np.exp(z - lse[..., None]) @ kv)
    put("attn_lse", lse)
    put("max_logits", z.max((0, 2)))
    groups = put("attn_out_derotated", rope(out, c, -1)).reshape(tokens, c["o_groups"], -1)
    wo_a = w["wo_a"].reshape(c["o_groups"], c["o_lora_rank"], -1)
    put("out", put("o_latent", np.einsum("tgi,gri->tgr", groups, wo_a).reshape(tokens, -1)) @ w["wo_b"].T)
    return s


# How the floats of a candidate are stored, the format that this is, and the profile that fits it.
FP16 = {"base": "fp32", "inputs": "fp16", "weights": "fp16", "storage": {"forward/*": "fp16"}}
STORAGES = {
    "float16": ("fp16", FP16),
    "uint16": ("bf16", "bf16-fused"),
    "float32 of bf16": ("bf16", "bf16-fused"),
    "float32": ("fp32", "fp32"),
    "float64": ("fp64", "fp64"),
}
FP32_STAGES = ("attn_lse", "max_logits")  # of bf16-fused


def write(path, stages, storage, layout="earliest"):
    with h5py.File(path, "w", libver=layout) as file:
        file.attrs["format"], file.attrs["format_version"] = "plumbline-candidate", 1
        for i, (name, values) in enumerate(stages.items()):
            bf16 = STORAGES[storage][0] == "bf16" and name not in FP32_STAGES
            data = (to_bf16(values) if bf16 and storage == "uint16"
                    else values.astype("f4" if "float32" in storage or name in FP32_STAGES and storage == "uint16" else storage))
            packed = {"compression": "gzip", "shuffle": True} if i % 2 else {}
            item = file.create_dataset(f"forward/{name}", data=data, **packed)
            if bf16:
                item.attrs["storage_dtype"] = "bf16"


def compare(candidate, *more, golden=GOLDEN):
    return subprocess.run([PROGRAM, "compare", "--golden", golden, "--candidate", candidate, "-q", *map(str, more)],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)


class CompareCliTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plumbline-compare-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def stages(self, form):
        with h5py.File(GOLDEN) as golden:
            return sliding_window(golden, form, lambda name, value: ROUND[
                "fp32" if form == "bf16" and name in FP32_STAGES else form](value))

    def profile(self, given):
        if isinstance(given, str):
            return given
        path = self.folder / "profile.json"
        path.write_text(json.dumps(given))
        return path

    def test_every_float_format_is_judged(self):
        for storage, (form, profile) in STORAGES.items():
            with self.subTest(storage):
                path, prec, right = self.folder / "c.h5", self.profile(profile), self.stages(form)
                write(path, right, storage)
                done = compare(path, "--prec", prec)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn(f"{len(right)} datasets judged", done.stdout)
                for name in right:
                    wrong = {key: value.copy() for key, value in right.items()}
                    element = np.argmax(np.abs(wrong[name]))
                    wrong[name].flat[element] = ROUND[form](1.25 * wrong[name].flat[element])
                    write(path, wrong, storage)
                    done = compare(path, "--prec", prec, "--members", 4)
                    self.assertEqual(done.returncode, 1, (name, done.stdout, done.stderr))
                    self.assertIn(f"> forward/{name}", done.stdout)

    def test_a_golden_rounded_in_every_format(self):
        """Results that do not read each other may be the truth's, rounded."""
        names = ["forward/out", "grad/inputs/hidden", "grad/weights/wkv", "grad/weights/wo_b", "grad/weights/attn_sink"]
        stored = {name: "fp16" for name in names}
        for storage, dtype, given in (("fp16", "f2", {"base": "fp32", "storage": stored}),
                                      ("bf16", "u2", {"base": "fp32", "storage": dict.fromkeys(names, "bf16")}),
                                      ("fp32", "f4", "fp32"), ("fp64", "f8", "fp64")):
            for wrong in [None, *names]:
                path = self.folder / "c.h5"
                with h5py.File(GOLDEN) as golden, h5py.File(path, "w") as file:
                    file.attrs["format"], file.attrs["format_version"] = "plumbline-candidate", 1
                    for name in names:
                        values = golden[name][()]
                        if name == wrong:
                            values.flat[np.argmax(np.abs(values))] *= 1.25
                        item = file.create_dataset(name, data=to_bf16(values) if storage == "bf16" else values.astype(dtype))
                        if storage == "bf16":
                            item.attrs["storage_dtype"] = "bf16"
                done = compare(path, "--prec", self.profile(given), "--members", 4)
                self.assertEqual(done.returncode, 1 if wrong else 0, (storage, wrong, done.stdout, done.stderr))
                if wrong:
                    self.assertIn(f"> {wrong}", done.stdout)

    def test_what_cannot_be_judged_says_why(self):
        right, whole = self.stages("fp32"), self.folder / "whole.h5"
        write(whole, right, "float32")
        self.assertEqual(compare(whole).returncode, 0)

        def changed(name, change):
            path = self.folder / name
            shutil.copy(whole, path)
            with h5py.File(path, "r+") as file:
                change(file)
            return path

        def nothing(file):
            del file["forward"]

        def only_without_elements(file):
            del file["forward"]
            file["forward/topk"] = np.zeros((37, 0), "i8")

        def replaced(name, data, **attributes):
            def change(file):
                del file[name]
                file.create_dataset(name, data=data).attrs.update(attributes)
            return change

        def element(name, value):
            def change(file):
                file[name][3, 5] = value
            return change

        def other_config(file):
            file.create_group("config").attrs["window"] = np.int64(12)

        def other_input(file):
            with h5py.File(GOLDEN) as golden:
                hidden = golden["inputs/hidden"][()]
            hidden[0, 0] += 1
            file["inputs/hidden"] = hidden

        zeros = np.zeros((37, 48), "f4")
        files = {
            # exit code, words of the message
            "absent": (4, "no such file", self.folder / "absent.h5"),
            "folder": (4, "is a folder", self.folder),
            "empty": (4, "empty", self.folder / "empty.h5"),
            "noise": (4, "HDF5", self.folder / "noise.h5"),
            "truncated": (4, "truncated", self.folder / "truncated.h5"),
            "nothing": (3, "nothing to judge", changed("nothing.h5", nothing)),
            "no elements": (3, "none of its datasets has an element", changed("bare.h5", only_without_elements)),
            "config": (2, "config/window: of another case", changed("config.h5", other_config)),
            "inputs": (2, "inputs/hidden", changed("inputs.h5", other_input)),
            "shape": (4, "shape", changed("shape.h5", replaced("forward/kv", zeros[:, :47]))),
            "integers": (4, "forward/kv", changed("integers.h5", replaced("forward/kv", zeros.astype("i4")))),
            "bare uint16": (4, "storage_dtype", changed("bare16.h5", replaced("forward/kv", zeros.astype("u2")))),
            "format": (4, "fp7", changed("fp7.h5", replaced("forward/kv", zeros, storage_dtype="fp7"))),
            "no bf16": (4, "bf16", changed("nobf16.h5", replaced("forward/kv", zeros + np.float32(0.1), storage_dtype="bf16"))),
            "unknown": (4, "did you mean", changed("unknown.h5", lambda file: file.create_dataset("forward/ot", data=0.0))),
        }
        (self.folder / "empty.h5").write_bytes(b"")
        (self.folder / "noise.h5").write_bytes(b"noise" * 1000)
        (self.folder / "truncated.h5").write_bytes(whole.read_bytes()[:whole.stat().st_size * 2 // 3])
        if os.geteuid() != 0:  # whom no permission keeps out
            shutil.copy(whole, self.folder / "locked.h5")
            (self.folder / "locked.h5").chmod(0)
            files["locked"] = (4, "Permission denied", self.folder / "locked.h5")
        messages = {}
        for what, (code, words, path) in files.items():
            done = compare(path)
            self.assertEqual(done.returncode, code, (what, done.stdout, done.stderr))
            self.assertRegex(done.stderr, r"\Aplumbline: error: [^\n]+\n\Z", what)
            self.assertIn(words, done.stderr, what)
            self.assertNotIn("PASS", done.stdout, what)
            messages[what] = done.stderr.replace(str(path), "")
        self.assertEqual(len(set(messages.values())), len(files), messages)

        for value, words in ((np.nan, "holds NaN where a number is expected"), (np.inf, "holds Inf"), (-np.inf, "holds -Inf")):
            done = compare(changed("special.h5", element("forward/kv", value)))
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("> forward/kv", done.stdout)
            self.assertIn(words, done.stdout)

    def test_damaged_files_never_crash_it_and_pass_only_unchanged(self):
        golden, whole = self.folder / "golden.h5", self.folder / "whole.h5"
        case = "swa,hidden=6,heads=2,o_groups=1,head_dim=8,rope_dim=4,q_lora_rank=4,o_lora_rank=3,window=3,seq=15"
        subprocess.run([PROGRAM, "golden", "make", case, "--out", golden], check=True, capture_output=True)
        with h5py.File(golden) as file:
            right = sliding_window(file, "fp32", lambda name, value: ROUND["fp32"](value))
        draw, good = random.Random(20261201), {}
        for layout in ("earliest", "latest"):  # of HDF5's own structures
            write(whole, right, "float32", layout)
            self.assertEqual(compare(whole, "--members", 4, golden=golden).returncode, 0)
            good[layout] = whole.read_bytes()

        def damaged(number, layout):
            path, data = self.folder / f"damaged{number}.h5", bytearray(good[layout])
            data[draw.randrange(len(data))] ^= draw.randrange(1, 256)
            path.write_bytes(data)
            return path

        def judged(path):
            return path, compare(path, "--members", 4, golden=golden)

        def largest_change(path):
            """of any element, in units of the largest of its dataset"""
            change = 0.0
            with h5py.File(path) as file:
                self.assertEqual(set(file["forward"]), set(right))
                for name, values in right.items():
                    got = file[f"forward/{name}"][()]
                    self.assertEqual(got.shape, values.shape)
                    change = max(change, float(np.max(np.abs(got - values)) / np.max(np.abs(values))))
            return change

        seen = {}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            files = [damaged(i, "earliest" if i % 3 == 0 else "latest") for i in range(DAMAGED)]
            for path, done in pool.map(judged, files):
                seen[done.returncode] = seen.get(done.returncode, 0) + 1
                self.assertIn(done.returncode, OUTCOMES, (path, done.stdout, done.stderr))
                if done.returncode == 0:
                    # A change of the last digits may be one that correct code makes.
                    self.assertLess(largest_change(path), 4e-6, path)
                elif done.returncode > 1:
                    self.assertRegex(done.stderr, r"\Aplumbline: error: [^\n]+\n\Z", path)
        self.assertGreater(seen.get(0, 0), 0)
        self.assertGreater(seen.get(1, 0), 0)
        self.assertGreater(seen.get(4, 0), 0)
        print(f"{DAMAGED} damaged files, exit codes: {dict(sorted(seen.items()))}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
