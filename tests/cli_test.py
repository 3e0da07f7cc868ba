#!/usr/bin/env python3
"""Drives the plumbline program: exit codes, one-line errors, whole files or none, the examples of every --help.

Usage: cli_test.py PROGRAM REPOSITORY
"""
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import unittest

import h5py
import numpy as np

from cli_fixture import ORACLE, PROGRAM, REPOSITORY, CliFixture, run


class CliTest(CliFixture):
    # usage

    def test_malformed_command_lines(self):
        self.refused(2, "--help")
        self.refused(2, "--help", "frobnicate")
        self.refused(2, "--repeat", "verify", "--repeat", "0")
        self.refused(2, "did you mean 'seq'", "verify", "csa,sq=3")
        self.refused(2, "repeated", "verify", "csa,seq=3,seq=4")
        self.refused(2, "even", "verify", "csa,rope_dim=7")
        self.refused(2, "divisor", "verify", "csa,o_groups=5")
        self.refused(2, "power of two", "verify", "csa,index_dim=20")
        self.refused(2, "index_topk", "verify", "csa,index_topk=0")
        self.refused(2, "whole number", "verify", "csa,seq=-1")
        self.refused(2, "whole number", "verify", "csa,seq=1000000000000000000000")
        self.refused(2, "reference-wide", "verify", "swa", "--impl", "nobody")
        self.refused(2, "list stages", "verify", "swa", "--stage", "nothing")
        for shard in ("3/2", "0/2", "1", "1/", "/2", "1/2/3", "1/99999999999999999999999"):
            self.refused(2, "1 <= i <= n", "verify", "swa", "--shard", shard)
        self.refused(2, "2 topics", "explain", "csa", "hca")
        self.refused(2, "--shard", "explain", "--shrd")
        self.refused(2, "excludes", "list", "stages", "--json", "--markdown")
        self.refused(2, "8G", "verify", "swa", "--max-memory", "lots")
        self.refused(4, "cannot be read", "verify", "--suite", "nowhere")
        self.refused(2, "nearest", "explain", "compresed_kv")
        self.refused(2, "allowed", "list", "everything")
        self.refused(2, "did you mean", "jacobian", "roap")
        self.refused(2, "does not occur", "jacobian", "index_k", "swa")

    def test_cases_that_do_not_fit_are_refused(self):
        for case in ("csa,model=flash,seq=3000000", "csa,model=pro,seq=4000000"):
            done = run("verify", case)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn("ERROR", done.stdout)
            self.assertIn(case, done.stderr)
            self.refused(2, "needs", "golden", "make", case, "--out", self.folder / "a.h5")
        self.refused(2, "raise --max-memory", "verify", "csa", "--max-memory", "1K")
        self.refused(2, "raise --max-memory", "golden", "make", "csa", "--max-memory", "1K", "--out", self.folder / "a.h5")
        self.refused(2, "memory", "golden", "verify", ORACLE, "--max-memory", "1K")
        self.refused(2, "memory", "verify", f"file={ORACLE}", "--max-memory", "1M")
        done = self.refused(2, "1 of 2 runs do not fit", "verify", "csa", "hca", "--dry-run", "--max-memory", "20M")
        self.assertRegex(done.stdout, r"hca.*does not fit")
        self.assertRegex(done.stdout, r"csa.*MiB\n")
        self.refused(2, "2^44", "verify", "csa,model=pro,seq=100000000")

    def test_nothing_checked_and_everything_declined(self):
        self.refused(3, "nothing was checked", "verify", "csa", "--filter", "hca")
        done = run("verify", "csa,prec=bf16")
        self.assertEqual(done.returncode, 6)
        self.assertIn("DECLINED", done.stdout)
        done = run("verify", "swa", "--stage", "compressed_kv")
        self.assertEqual(done.returncode, 3)

    # verdicts

    def test_verify_passes_and_reports(self):
        report = self.folder / "report.json"
        done = run("verify", "csa,seq=9", "swa", "--impl", "reference", "--impl", "reference-wide", "--repeat", "2", "-j", "2",
                   "--json", report)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("4 runs: 4 passed", done.stdout)
        data = json.loads(report.read_text())
        self.check_schema(data)
        self.assertEqual([c["outcome"] for c in data["cases"]], ["passed"] * 4)
        self.assertEqual(data["cases"][0]["case"], "csa,model=tiny,seq=9")
        self.assertEqual(len(data["cases"][0]["stages"]), 61)

    def test_lower_precisions_are_judged(self):
        report = self.folder / "report.json"
        done = run("verify", "csa,seq=19", "--impl", "reference-fp32", "--impl", "reference-bf16", "--json", report)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        data = json.loads(report.read_text())
        self.check_schema(data)
        self.assertEqual([c["precision"] for c in data["cases"]], ["fp32", "bf16-fused"])
        done = run("verify", "csa,seq=19,prec=fp32", "--impl", "reference-bf16", "--json", report)
        self.assertEqual(done.returncode, 1)
        for line in ("> forward/q_down", "<- starts here: its inputs were right", "where   100 % of what is specified in forward/q_down",
                     "repro   plumbline verify 'csa,model=tiny,seq=19,prec=fp32' --impl reference-bf16 --stage forward/q_down"):
            self.assertIn(line, done.stdout)
        data = json.loads(report.read_text())
        self.check_schema(data)
        self.assertEqual(data["cases"][0]["first_wrong_stage"], "forward/q_down")

    def spoiled(self, path, change):
        target = self.folder / "spoiled.h5"
        shutil.copy(ORACLE, target)
        with h5py.File(target, "r+") as file:
            change(file[path])
        return target

    def test_a_wrong_element_is_named(self):
        def change(dataset):
            values = dataset[()]
            values[5, 1, 3] += 1e-9 * np.abs(values).max()
            dataset[...] = values

        wrong = self.spoiled("grad/forward/q", change)
        report = self.folder / "report.json"
        done = run("golden", "verify", wrong, ORACLE, "--json", report)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("> grad/forward/q", done.stdout)
        self.assertIn("token 5, head 1, channel 3", done.stdout)
        data = json.loads(report.read_text())
        self.check_schema(data)
        self.assertEqual(data["cases"][0]["first_wrong_stage"], "grad/forward/q")
        self.assertEqual(data["cases"][1]["outcome"], "passed")
        self.assertEqual(run("verify", f"file={wrong}").returncode, 1)
        repro = re.search(r"repro +plumbline (.*)", done.stdout).group(1)
        again = run(*shlex.split(repro))
        self.assertEqual(again.returncode, 1, again.stdout + again.stderr)
        self.assertIn("1 of 1 datasets wrong", again.stdout)

    def test_a_wrong_element_of_any_dataset_is_named(self):
        """1e-9 of the largest value, in one element of each dataset in turn, of files that hold every kind of row."""
        spoiled = {}
        for name in ("csa_row_mask_nan", "csa_packed_padded", "swa_window"):
            whole = REPOSITORY / "tests" / "oracle" / f"{name}.h5"
            with h5py.File(whole) as file:
                paths = []
                file.visititems(lambda path, item: paths.append(path) if isinstance(item, h5py.Dataset) and item.size and
                                path.split("/")[0] in ("forward", "grad") else None)
                row = int(np.flatnonzero(file["packing/row_valid"][: file["packing/lengths"][0]])[-1])
                tokens, ratio = file["packing/row_valid"].size, int(file["config"].attrs["ratio"])
                entry = row // ratio - 1 if ratio > 1 else 0
            for path in paths:
                target = self.folder / f"{name}.{path.replace('/', '.')}.h5"
                shutil.copy(whole, target)
                with h5py.File(target, "r+") as file:
                    values = file[path][()]
                    if path == "forward/topk":
                        values[row, 0] = max(set(range(row // ratio)) - set(values[row]), default=-1)
                    elif values.ndim == 0:
                        values = values + max(1e-9 * abs(values), 1e-9 * (values == 0))
                    else:
                        per_entry = "compressed_" in path or "index_pooled" in path or "index_k" in path
                        first = entry if per_entry else row if values.shape[0] == tokens else values.shape[0] // 2
                        finite = np.abs(values[np.isfinite(values)])
                        flat = values[first].reshape(-1) if values.ndim > 1 else values[first : first + 1]
                        where = np.flatnonzero(np.isfinite(flat))
                        flat[where[-1]] += 1e-9 * (finite.max() or 1)
                    file[path][...] = values
                spoiled[str(target)] = path
        self.assertEqual(len(spoiled), 61 + 61 + 33)
        report = self.folder / "report.json"
        done = run("golden", "verify", *spoiled, "--json", report)
        self.assertEqual(done.returncode, 1, done.stderr)
        for case in json.loads(report.read_text())["cases"]:
            wrong = [stage["name"] for stage in case["stages"] if stage["verdict"] == "fail"]
            self.assertEqual(wrong, [spoiled[case["case"].removeprefix("file=")]])
            self.assertEqual(case["first_wrong_stage"], wrong[0])

    def test_what_a_file_lacks_is_said(self):
        target = self.folder / "few.h5"
        shutil.copy(ORACLE, target)
        with h5py.File(target, "r+") as file:
            del file["forward/out"]
            del file["grad"]
        done = run("golden", "verify", target)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("not in the file, so not compared: forward/out grad/forward/q_down", done.stdout)
        with h5py.File(target, "r+") as file:
            del file["forward"]
        self.assertEqual(run("golden", "verify", target).returncode, 3)

    # files from outside

    def bad_file(self, code, hint, path):
        done = run("golden", "verify", path)
        self.assertEqual(done.returncode, code, (path, done.stdout, done.stderr))
        self.assertIn(hint, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertNotIn("HDF5-DIAG", done.stderr + done.stdout)
        self.assertIn("ERROR", done.stdout)

    def test_unreadable_files(self):
        self.bad_file(4, "absent.h5", self.folder / "absent.h5")
        self.bad_file(4, str(self.folder), self.folder)
        noise = self.folder / "noise.h5"
        noise.write_bytes(os.urandom(5000))
        self.bad_file(4, "noise.h5", noise)
        (self.folder / "empty.h5").write_bytes(b"")
        self.bad_file(4, "empty.h5", self.folder / "empty.h5")
        whole = ORACLE.read_bytes()
        for size in (7, 100, 3000, len(whole) // 2, len(whole) - 1):
            cut = self.folder / f"cut{size}.h5"
            cut.write_bytes(whole[:size])
            self.bad_file(4, cut.name, cut)

    def test_files_with_wrong_contents(self):
        def variant(name, change):
            target = self.folder / f"{name}.h5"
            shutil.copy(ORACLE, target)
            with h5py.File(target, "r+") as file:
                change(file)
            return target

        def replace(file, path, values):
            del file[path]
            file[path] = values

        def poke(path, index, value):
            def change(file):
                values = file[path][()]
                values[index] = value
                file[path][...] = values
            return change

        offsets = [0, 48, 40, 56, 80, 88]
        faults = [
            (4, "format_version", lambda f: f.attrs.__setitem__("format_version", 99)),
            (4, "hidden", lambda f: f["config"].attrs.__setitem__("hidden", "48")),
            (4, "inputs/hidden", lambda f: f.__delitem__("inputs/hidden")),
            (4, "weights/wkv", lambda f: f.__delitem__("weights/wkv")),
            (4, "surprise", lambda f: f.__setitem__("forward/surprise", np.zeros(3))),
            (4, "weights/wq_a", lambda f: replace(f, "weights/wq_a", np.zeros((48, 24)))),
            (4, "forward/out", lambda f: replace(f, "forward/out", np.zeros((88, 48), np.float32))),
            (2, "offsets", lambda f: replace(f, "packing/offsets", np.array(offsets, np.int64))),
            (2, "rope_dim", lambda f: f["config"].attrs.__setitem__("rope_dim", np.int64(7))),
            (4, "forward/topk", poke("forward/topk", (36, 0), 99)),
            (4, "inputs/hidden", poke("inputs/hidden", (3, 4), np.nan)),
            (4, "inputs/grad_out", poke("inputs/grad_out", (3, 4), np.inf)),
            (4, "weights/kv_norm", poke("weights/kv_norm", 2, np.inf)),
        ]
        for number, (code, hint, change) in enumerate(faults):
            self.bad_file(code, hint, variant(f"fault{number}", change))

    # writing

    def test_errors_leave_no_file(self):
        self.refused(4, "nowhere", "golden", "make", "swa", "--out", self.folder / "nowhere" / "a.h5")
        self.refused(4, "a.h5", "golden", "make", "csa", "--out", self.folder / "a.h5", limit_bytes=1000)
        report = self.folder / "r.json"
        self.refused(4, "r.json", "verify", "swa", "--json", report, limit_bytes=100)
        self.refused(4, "r.json", "golden", "verify", ORACLE, "--json", report, limit_bytes=100)
        self.refused(4, "/dev/full", "verify", "swa", "--json", "/dev/full")
        self.refused(4, "/proc/a.h5", "golden", "make", "swa", "--out", "/proc/a.h5")
        self.refused(4, "/proc/r.json", "verify", "swa", "--json", "/proc/r.json")
        kept = self.folder / "kept.h5"
        kept.write_text("old")
        kept.chmod(0o444)
        if os.geteuid() != 0:  # nothing is write-protected for root
            self.refused(4, "kept.h5", "golden", "make", "swa", "--out", kept, "--replace")
            self.refused(4, "kept.h5", "verify", "swa", "--json", kept)
        self.refused(4, "kept.h5", "golden", "make", "csa", "--out", kept, "--replace", limit_bytes=1000)
        self.assertEqual(kept.read_text(), "old")
        target = self.folder / "folder"
        target.mkdir()
        self.refused(4, "folder", "jacobian", "rope", "--csv", target)
        full = subprocess.run(f"{shlex.quote(str(PROGRAM))} list stages > /dev/full", shell=True, capture_output=True, text=True)
        self.assertEqual(full.returncode, 4)
        self.assertIn("standard output", full.stderr)

    def test_interrupt_leaves_no_file(self):
        report = self.folder / "r.json"
        many = [str(ORACLE)] * 400
        for stop, arguments in ((signal.SIGINT, ["verify", "csa,seq=400..600", "--json", report]),
                                (signal.SIGTERM, ["verify", "csa,seq=400..600", "-j", "2", "--json", report]),
                                (signal.SIGINT, ["golden", "verify", *many, "--json", report]),
                                (signal.SIGINT, ["golden", "make", "swa,seq=20000", "--out", self.folder / "a.h5"])):
            self.interrupted(arguments, stop)

    def test_what_cannot_be_done_is_refused_before_anything_is_made(self):
        folder = self.folder / "goldens"
        make = ["golden", "make", "swa", "--out", folder]
        for reason in ("a\nb", "   "):
            self.refused(2, "reason", *make, "--manifest", "--reason", reason)
        self.refused(2, "slug", *make, "--manifest", "--reason", "why", "--bug", "x y")
        self.refused(2, "--manifest", *make, "--reason", "why")
        self.refused(2, "--manifest", *make, "--bug", "slug")
        self.refused(2, "is given twice", "golden", "make", "swa", "swa", "--out", folder)
        self.refused(4, "make this folder first", "golden", "make", "swa", "--out", self.folder / "a" / "b")
        for command in (["verify", "swa"], ["golden", "verify", ORACLE]):
            self.refused(4, "there is no folder", *command, "--json", self.folder / "a" / "r.json")
            self.refused(4, "is a folder", *command, "--json", self.folder)
            self.refused(2, "--json", *command, "--json", "")
            self.refused(2, "--max-memory", *command, "--max-memory", "")
        self.refused(2, "--out", "golden", "make", "swa", "--out", "")
        self.refused(2, "--max-memory", "verify", "swa", "--max-memory", "99999999999999999999G")
        self.assertEqual(list(self.folder.iterdir()), [])
        done = run("golden", "make", "swa|csa", "--out", folder, "--manifest", "--reason", "first set")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(list(folder.iterdir())), 3)

    def test_datasets_without_elements_are_no_passes(self):
        for stage in ("topk", "index_scores"):
            done = run("verify", "swa", "--stage", stage)
            self.assertEqual(done.returncode, 3, (stage, done.stdout))

    def test_a_window_longer_than_the_batch_needs_no_memory(self):
        done = run("verify", "csa,window=2147483648,seq=1")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_file_size_limit_is_an_error(self):
        done = subprocess.run(f"ulimit -f 10; {shlex.quote(str(PROGRAM))} golden make csa --out c.h5", shell=True, cwd=self.folder,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 4)
        self.assertIn("File too large", done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    # candidates

    def candidate(self, name, change=lambda file: None, dtype="f4"):
        """A candidate file: the golden's results in another format, then changed."""
        golden = self.folder / "golden.h5"
        if not golden.exists():
            run("golden", "make", "csa,seq=19", "--out", golden)
        path = self.folder / name
        with h5py.File(golden) as source, h5py.File(path, "w") as file:
            file.attrs["format"], file.attrs["format_version"] = "plumbline-candidate", 1

            def copy(where, item):
                if isinstance(item, h5py.Dataset) and where.split("/")[0] in ("forward", "grad"):
                    file.create_dataset(where, data=item[()].astype("i4" if where.endswith("topk") else dtype))

            source.visititems(copy)
            change(file)
        return golden, path

    def test_candidates_are_judged(self):
        golden, path = self.candidate("right.h5")
        report = self.folder / "right.json"
        done = run("compare", "--golden", golden, "--candidate", path, "--json", report)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("prec=fp32 (from how it is stored; --prec says otherwise)", done.stdout)
        self.check_schema(json.loads(report.read_text()))
        self.assertEqual(run("compare", "--golden", golden, "--candidate", golden).returncode, 0)
        done = run("compare", "--golden", golden, "--candidate", path, "--prec", "fp64", "-q")
        self.assertEqual(done.returncode, 1, "single precision is not double precision")

        def wrong(file):
            file["forward/kv"][7, 3] += 1

        golden, path = self.candidate("wrong.h5", wrong)
        done = run("compare", "--golden", golden, "--candidate", path, "--json", report)
        self.assertEqual(done.returncode, 1)
        self.assertIn("> forward/kv", done.stdout)
        self.assertIn("token 7, channel 3", done.stdout)
        self.check_schema(json.loads(report.read_text()))
        self.assertEqual(json.loads(report.read_text())["cases"][0]["first_wrong_stage"], "forward/kv")

        def not_a_number(file):
            file["grad/weights/wq_a"][0, 0] = float("nan")

        golden, path = self.candidate("nan.h5", not_a_number)
        done = run("compare", "--golden", golden, "--candidate", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("holds NaN where a number is expected", done.stdout)

    def test_candidates_that_cannot_be_judged(self):
        def compare(code, hint, path, *more):
            self.refused(code, hint, "compare", "--golden", self.folder / "golden.h5", "--candidate", path, *more)

        golden, path = self.candidate("good.h5")
        compare(4, "no such file", self.folder / "absent.h5")
        compare(4, "is a folder", self.folder)
        (self.folder / "noise.h5").write_bytes(b"noise" * 100)
        compare(4, "HDF5", self.folder / "noise.h5")
        compare(2, "unknown profile 'fp31'", path, "--prec", "fp31")
        compare(4, "readable JSON report", path, "--baseline", self.folder / "noise.h5")

        def empty(file):
            for name in list(file):
                del file[name]

        def reshaped(file):
            del file["forward/out"]
            file["forward/out"] = [[1.0, 2.0]]

        def other_case(file):
            file.create_group("config").attrs["window"] = 99

        for name, change, code, hint in (("empty.h5", empty, 3, "nothing"), ("shape.h5", reshaped, 4, "shape"),
                                         ("case.h5", other_case, 2, "window")):
            compare(code, hint, self.candidate(name, change)[1])

    def test_shares_that_grow_fail_against_a_baseline(self):
        golden, path = self.candidate("right.h5")
        report = self.folder / "old.json"
        run("compare", "--golden", golden, "--candidate", path, "--json", report)
        self.assertEqual(run("compare", "--golden", golden, "--candidate", path, "--baseline", report).returncode, 0)
        data = json.loads(report.read_text())
        for stage in data["cases"][0]["stages"]:
            if stage["name"] == "forward/out":
                stage["rms"] /= 100
        report.write_text(json.dumps(data))
        done = run("compare", "--golden", golden, "--candidate", path, "--baseline", report)
        self.assertEqual(done.returncode, 1)
        self.assertIn("forward/out uses", done.stdout)

    # documentation

    def test_examples_of_every_help_work(self):
        run("golden", "make", "csa", "--out", "csa.h5", cwd=self.folder)
        seen = 0
        for command in ([], ["verify"], ["golden"], ["golden", "make"], ["golden", "verify"], ["golden", "diff"],
                        ["golden", "show"], ["golden", "update"], ["list"], ["explain"], ["jacobian"], ["env"]):
            text = run(*command, "--help")
            self.assertEqual(text.returncode, 0, command)
            for line in re.findall(r"^ +(plumbline .*)$", text.stdout, re.MULTILINE):
                arguments = shlex.split(line)[1:]
                if not arguments or arguments[0].startswith("["):
                    continue
                (self.folder / "csa.h5").unlink() if arguments[:2] == ["golden", "make"] and "csa.h5" in arguments else None
                if "goldens" in arguments:
                    (self.folder / "goldens").mkdir(exist_ok=True)
                done = run(*arguments, cwd=self.folder)
                self.assertEqual(done.returncode, 0, (line, done.stdout, done.stderr))
                seen += 1
        self.assertGreater(seen, 15)

    def test_readme_shows_the_registry(self):
        readme = (REPOSITORY / "README.md").read_text()
        shown = readme.split("<!-- stages:begin -->\n")[1].split("<!-- stages:end -->")[0]
        self.assertEqual(shown, run("list", "stages", "--markdown").stdout)

    def test_lists_and_explanations(self):
        for what in ("stages", "weights", "cases", "suites", "implementations", "kinds", "models", "profiles", "regimes",
                     "config", "keys", "jacobians"):
            done = run("list", what)
            self.assertEqual(done.returncode, 0, what)
            self.assertGreater(len(done.stdout.splitlines()), 2, what)
            objects = json.loads(run("list", what, "--json").stdout)
            self.assertEqual(len(objects), len(done.stdout.splitlines()) - 1, what)
        topics = {"attn_out": "sum_keys exp", "compressor.ape": "weight", "window": "config field", "mask": "case key",
                  "peaky": "regime", "golden": "1e-13", "exit-codes": "70", "case": "seq", "hca": "in full", "3": "nothing was",
                  "flash": "model", "reference": "double precision", "--shard": "plumbline verify", "-j": "threads",
                  "csa,seq=9": "9 rows"}
        for topic, hint in topics.items():
            done = run("explain", topic)
            self.assertEqual(done.returncode, 0, topic)
            self.assertIn(hint, done.stdout, topic)

    def test_shards_part_the_list(self):
        def cases(*arguments):
            return [line.split()[0] for line in run("verify", "swa,seq=1..7", "--dry-run", *arguments).stdout.splitlines()[1:-1]]

        parts = [cases("--shard", f"{i}/3") for i in (1, 2, 3)]
        self.assertEqual(sorted(sum(parts, [])), sorted(cases()))
        self.assertEqual([len(part) for part in parts], [3, 2, 2])
        self.assertEqual(cases("--filter", "seq=3"), ["swa,model=tiny,seq=3"])

    def test_the_loss_alone_is_judged_by_its_condition(self):
        for stage in ("indexer_loss", "kl_rows"):
            done = run("verify", "csa,seed=1..4", "--stage", stage)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertNotRegex(done.stdout, "judged (with|relative)")
        target = self.folder / "few.h5"
        shutil.copy(ORACLE, target)
        with h5py.File(target, "r+") as file:
            del file["forward/teacher"]
        done = run("golden", "verify", target)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("forward/indexer_loss judged with the teacher of the results under test", done.stdout)

    def test_environment_names_the_build(self):
        environment = json.loads(run("env", "--json").stdout)
        self.assertRegex(environment["commit"], r"^([0-9a-f]{12}\+?|unknown)$")
        self.assertIn("-Werror", environment["flags"])
        self.assertRegex(environment["hdf5"], r"^\d+\.\d+\.\d+$")

    def test_jacobians_agree(self):
        names = run("list", "jacobians").stdout.split()[3:]
        self.assertGreater(len(names), 10)
        for name in names:
            done = run("jacobian", name, "csa,seq=21")
            self.assertEqual(done.returncode, 0, (name, done.stdout, done.stderr))
        table = self.folder / "rope.csv"
        self.assertEqual(run("jacobian", "rope", "--csv", table).returncode, 0)
        rows = [line for line in table.read_text().splitlines() if not line.startswith("#")]
        matrix = np.array([[float(x) for x in row.split(",")] for row in rows])
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(48), atol=1e-15)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
