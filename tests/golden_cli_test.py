#!/usr/bin/env python3
"""Drives `plumbline golden`: contents, manifests, which side moved, updates.

Usage: golden_cli_test.py PROGRAM REPOSITORY
"""
import hashlib
import json
import shutil
import sys
import unittest

import h5py

from cli_fixture import ORACLE, CliFixture, run


def record(folder, name):
    """Makes the manifest agree with a file that was changed by hand."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    data = (folder / name).read_bytes()
    entry = next(entry for entry in manifest["files"] if entry["name"] == name)
    entry["sha256"] = entry["history"][-1]["sha256"] = hashlib.sha256(data).hexdigest()
    entry["size_bytes"] = len(data)
    path.write_text(json.dumps(manifest))


class GoldenCliTest(CliFixture):
    def test_golden_make_is_whole_deterministic_and_readable(self):
        first, second = self.folder / "a.h5", self.folder / "b.h5"
        for path in (first, second):
            self.assertEqual(run("golden", "make", "csa,seq=21", "--out", path).returncode, 0)
        self.assertEqual(first.read_bytes(), second.read_bytes())
        done = run("golden", "diff", first, second)
        self.assertEqual(done.returncode, 0)
        self.assertIn("all equal bit for bit", done.stdout)
        self.assertEqual(run("golden", "verify", first).returncode, 0)
        self.assertIn("csa,model=tiny,seq=21", run("golden", "show", first).stdout)
        self.refused(2, "--replace", "golden", "make", "csa,seq=21", "--out", first)
        self.refused(2, "give a folder", "golden", "make", "csa|hca", "--out", self.folder / "c.h5")
        self.refused(2, "--reason", "golden", "make", "csa", "--out", self.folder, "--manifest")
        self.refused(2, "another problem", "golden", "diff", first, ORACLE)

    def test_manifest_sees_a_changed_file(self):
        suite = self.folder / "suite"
        suite.mkdir()
        self.assertEqual(run("golden", "make", "swa", "--out", suite, "--manifest", "--reason", "a test").returncode, 0)
        file = next(suite.glob("*.h5"))
        self.assertEqual(run("golden", "verify", file).returncode, 0)
        self.assertEqual(run("golden", "make", "swa,seed=1", "--out", file, "--replace").returncode, 0)
        done = run("golden", "verify", file)
        self.assertEqual(done.returncode, 1)
        self.assertIn("manifest records", done.stdout)

    # contents

    def make(self, contents, case="csa,seq=21", name=None):
        path = self.folder / (name or f"{contents}.h5")
        done = run("golden", "make", case, "--contents", contents, "--out", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def test_files_of_all_contents_verify_and_agree(self):
        files = [self.make(contents) for contents in ("stored", "full", "sketch", "seed")]
        done = run("golden", "verify", *files)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("4 passed", done.stdout)
        for other in files[1:3]:
            done = run("golden", "diff", files[0], other)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("61 datasets compared, 0 beyond the limit, all equal bit for bit", done.stdout)
        self.assertEqual(run("golden", "diff", files[0], files[3]).returncode, 3)
        for contents, file in zip(("stored", "full", "sketch", "seed"), files):
            self.assertIn(f"format    {1 if contents == 'stored' else 2}, {contents}", run("golden", "show", file).stdout)
            for golden in files[:2]:
                done = run("compare", "--golden", file, "--candidate", golden, "--prec", "fp64", "-q")
                self.assertEqual(done.returncode, 0, (contents, golden, done.stdout, done.stderr))
                self.assertIn("61 datasets judged", done.stdout)
        sizes = [file.stat().st_size for file in files]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        for contents, file in zip(("sketch", "seed"), files[2:]):
            self.refused(3, contents, "compare", "--golden", files[0], "--candidate", file)
        self.refused(2, "stored", "golden", "make", "csa", "--contents", "half", "--out", self.folder / "a.h5")

    def test_a_full_golden_of_another_case_is_no_candidate(self):
        golden, other = self.make("full"), self.make("full", "csa,seq=21,seed=1", "other.h5")
        self.refused(2, "checksums/inputs/hidden: of another case", "compare", "--golden", golden, "--candidate", other)

    def test_a_seed_is_judged_by_the_wide_type(self):
        seed = self.make("seed")
        done = run("verify", f"file={seed}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("reference-wide", done.stdout)

    def test_candidates_are_judged_against_sketches(self):
        sketch, golden = self.make("sketch"), self.make("stored")
        with h5py.File(golden, "r+") as file:
            file["forward/o_latent"][3, 1] *= 1.001
        done = run("compare", "--golden", sketch, "--candidate", golden, "--prec", "fp64")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("o_latent", done.stdout)

    # which side moved

    def suite(self):
        folder = self.folder / "suite"
        for contents, case in (("full", "swa,seq=9"), ("sketch", "swa,seq=10")):
            done = run("golden", "make", case, "--contents", contents, "--out", folder, "--manifest", "--reason", "a test")
            self.assertEqual(done.returncode, 0, done.stderr)
        return folder, "swa_model_tiny_seq_9.h5", "swa_model_tiny_seq_10.h5"

    def verify(self, *files):
        report = self.folder / "report.json"
        done = run("golden", "verify", *files, "--json", report)
        cases = json.loads(report.read_text())["cases"]
        report.unlink()
        return done, [case["moved"] for case in cases]

    def test_says_which_side_moved(self):
        folder, full, sketch = self.suite()
        done, moved = self.verify(folder / full, folder / sketch)
        self.assertEqual((done.returncode, moved), (0, [None, None]))
        for name, path, index in ((full, "forward/out", (3, 4)), (sketch, "sketch/forward/out", 5)):
            kept = (folder / name).read_bytes()
            with h5py.File(folder / name, "r+") as file:
                file[path][index] += 1e-3
            done, moved = self.verify(folder / name)
            self.assertEqual((done.returncode, moved), (1, ["file"]), done.stdout)
            self.assertIn("the file moved", done.stdout)
            record(folder, name)
            done, moved = self.verify(folder / name)
            self.assertEqual((done.returncode, moved), (1, ["reference"]), done.stdout)
            self.assertIn("the reference moved", done.stdout)
            self.assertIn("forward/out", done.stdout)
            alone = self.folder / "alone.h5"
            shutil.copy(folder / name, alone)
            done, moved = self.verify(alone)
            self.assertEqual((done.returncode, moved), (1, ["reference or file"]), done.stdout)
            (folder / name).write_bytes(kept)
            with h5py.File(folder / name, "r+") as file:
                file["checksums/weights"].attrs["wq_a"] = "0" * 64
            record(folder, name)
            done, moved = self.verify(folder / name)
            self.assertEqual((done.returncode, moved), (1, ["generator"]), done.stdout)
            self.assertIn("weights/wq_a", done.stderr)
            self.refused(1, "generator has moved", "golden", "show", folder / name)

    def test_a_file_that_does_not_generate_its_config_is_unreadable(self):
        path = self.make("full", "swa,seq=9")
        with h5py.File(path, "r+") as file:
            file.attrs["case"] = "swa,seq=9,window=3"
        self.refused(4, "config/window", "golden", "verify", path)

    # updates

    def test_update_shows_what_moved_and_records_why(self):
        folder, full, sketch = self.suite()
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        done = run("golden", "update", folder, "--reason", "nothing moved")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("0 of 2 files changed", done.stdout)
        self.assertEqual({path.name: path.read_bytes() for path in folder.iterdir()}, before)
        for name, path, index in ((full, "forward/out", (3, 4)), (sketch, "sketch/forward/out", 5)):
            with h5py.File(folder / name, "r+") as file:
                file[path][index] += 1e-3
            record(folder, name)
        self.refused(2, "--reason", "golden", "update", folder)
        done = run("golden", "update", folder, "--dry-run")
        self.assertIn("2 of 2 files would change", done.stdout)
        self.assertEqual(done.stdout.count("forward/out "), 2, done.stdout)
        self.assertIn("1 beyond the limit", done.stdout)
        self.assertNotEqual((folder / full).read_bytes(), before[full])
        done = run("golden", "update", folder, "--file", full, "--reason", "out was wrong")
        self.assertIn("1 of 1 files changed", done.stdout)
        self.assertEqual((folder / full).read_bytes(), before[full])
        entry = json.loads((folder / "manifest.json").read_text())["files"]
        history = next(e for e in entry if e["name"] == full)["history"]
        self.assertEqual([change["reason"] for change in history], ["a test", "out was wrong"])
        self.assertEqual(run("golden", "verify", folder / full).returncode, 0)
        self.refused(2, "'x.h5'", "golden", "update", folder, "--file", "x.h5", "--reason", "why")
        self.refused(4, "manifest.json", "golden", "update", self.folder, "--reason", "why")

    def test_update_mends_what_a_moved_generator_left(self):
        folder, full, _ = self.suite()
        with h5py.File(folder / full, "r+") as file:
            file["checksums/inputs"].attrs["hidden"] = "0" * 64
        record(folder, full)
        done = run("golden", "update", folder, "--reason", "the generator moved")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("generator has moved", done.stdout)
        self.assertEqual(run("golden", "verify", folder / full).returncode, 0)

    def test_replacing_shows_what_moved(self):
        path = self.make("full", "swa,seq=9")
        with h5py.File(path, "r+") as file:
            file["grad/inputs/hidden"][0, 0] += 1
        done = run("golden", "make", "swa,seq=9", "--contents", "full", "--out", path, "--replace")
        self.assertIn("grad/inputs/hidden", done.stdout)
        done = run("golden", "make", "swa,seq=11", "--contents", "full", "--out", path, "--replace")
        self.assertIn("another problem than before", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
