#!/usr/bin/env python3
"""Drives plumbline bench: verdicts before times, reports, comparison with an earlier report, refusals. No time is judged.

Usage: bench_cli_test.py PROGRAM REPOSITORY
"""
import json
import re
import shlex
import shutil
import signal
import sys
import unittest

import h5py
import numpy as np

from cli_fixture import ORACLE, CliFixture, run

QUICK = ("--no-dgemm", "--min-seconds", "0", "--repeat", "3")


class BenchCliTest(CliFixture):
    def bench(self, *arguments, code=0):
        """Exit code, output, and the report, which agrees with its schema."""
        path = self.folder / "report.json"
        path.unlink(missing_ok=True)
        done = run("bench", *arguments, "--json", path)
        self.assertEqual(done.returncode, code, (arguments, done.stdout, done.stderr))
        report = json.loads(path.read_text())
        self.check_schema(report, "bench")
        self.assertEqual(report["exit_code"], code)
        return done, report

    def rows(self, text):
        """The table's rows: case, implementation, profile, verdict and what was measured."""
        lines = text.splitlines()
        return [line.split() for line in lines[1 : lines.index("")]]

    # verdicts and times

    def test_all_implementations_are_checked_and_timed(self):
        done, report = self.bench("swa,seq=9", "csa,seq=9", *QUICK)
        names = ["reference", "reference-wide", "reference-fp32", "reference-bf16"]
        self.assertEqual([row[:2] + row[3:5] for row in self.rows(done.stdout)],
                         [[case, name, "PASS", "3"] for case in ("swa,model=tiny,seq=9", "csa,model=tiny,seq=9") for name in names])
        self.assertIn("8 runs: 8 passed", done.stdout)
        self.assertEqual([case["tokens"] for case in report["cases"]], [9, 9])
        for case in report["cases"]:
            self.assertGreater(case["gflop"], 0)
            self.assertIsNone(case["dgemm_gflop_per_second"])
            base = case["implementations"][0]["seconds"]["samples"]
            for entry in case["implementations"]:
                samples = entry["seconds"]["samples"]
                self.assertEqual(len(samples), 3)
                self.assertTrue(entry["same_bits"])
                self.assertAlmostEqual(entry["seconds"]["median"], np.median(samples))
                self.assertEqual([entry["seconds"]["min"], entry["seconds"]["max"]], [min(samples), max(samples)])
                self.assertAlmostEqual(entry["ratio"]["median"], np.median(np.divide(samples, base)))
                self.assertAlmostEqual(entry["ratio"]["upper_quartile"], np.quantile(np.divide(samples, base), 0.75))
                self.assertAlmostEqual(entry["tokens_per_second"] * np.median(samples), 9)
                self.assertAlmostEqual(entry["gflop_per_second"] * np.median(samples), case["gflop"])
                self.assertIsNone(entry["share_of_dgemm"])

    def test_the_dgemm_rate_of_the_same_run(self):
        done, report = self.bench("swa", "--impl", "reference", "--repeat", "2", "--min-seconds", "0")
        self.assertRegex(done.stdout, r"dgemm in this run: [0-9.]+ to [0-9.]+ GFLOP/s")
        case = report["cases"][0]
        entry = case["implementations"][0]
        self.assertAlmostEqual(entry["share_of_dgemm"] * case["dgemm_gflop_per_second"], entry["gflop_per_second"])

    def test_a_wrong_implementation_is_not_timed(self):
        case = "csa,seq=19,prec=fp32"
        done, report = self.bench(case, "--impl", "reference-fp32", "--impl", "reference-bf16", *QUICK, "--baseline",
                                  "reference-fp32", code=1)
        self.assertEqual([row[3:] == ["WRONG"] for row in self.rows(done.stdout)], [False, True])
        self.assertIn("> forward/q_down", done.stdout)
        right, wrong = report["cases"][0]["implementations"]
        self.assertEqual(wrong["outcome"], "failed")
        self.assertEqual(wrong["first_wrong_stage"], "forward/q_down")
        for key in ("seconds", "ratio", "tokens_per_second", "gflop_per_second", "memory_bytes", "same_bits"):
            self.assertIsNone(wrong[key], key)
        self.assertEqual(right["outcome"], "passed")
        self.assertEqual(len(right["seconds"]["samples"]), 3)
        repro = re.search(r"repro +plumbline (.*)", done.stdout).group(1)
        self.assertEqual(run(*shlex.split(repro)).returncode, 1)

    def test_a_file_with_another_truth_makes_the_reference_wrong(self):
        wrong = self.folder / "wrong.h5"
        shutil.copy(ORACLE, wrong)
        with h5py.File(wrong, "r+") as file:
            values = file["grad/weights/wq_a"][()]
            values[1, 2] += 1e-9 * np.abs(values).max()
            file["grad/weights/wq_a"][...] = values
        _, report = self.bench(f"file={wrong}", "--impl", "reference", *QUICK, code=1)
        self.assertEqual(report["cases"][0]["implementations"][0]["first_wrong_stage"], "grad/weights/wq_a")
        _, report = self.bench(f"file={wrong}", "--impl", "reference", "--phase", "forward", *QUICK)
        self.assertEqual(report["cases"][0]["implementations"][0]["truth"], "file")
        with h5py.File(wrong, "r+") as file:
            del file["grad"]
        done, report = self.bench(f"file={wrong}", "--impl", "reference", *QUICK, code=3)
        self.assertIn("NOTHING", done.stdout)
        self.assertIn("the truth holds no grad/weights/", done.stdout)
        self.assertIsNone(report["cases"][0]["implementations"][0]["seconds"])

    def test_what_is_declined_is_listed_with_its_reason(self):
        done, report = self.bench("swa,prec=fp32", "--impl", "reference-fp32", *QUICK)
        baseline, asked = report["cases"][0]["implementations"]
        self.assertEqual([baseline["outcome"], asked["outcome"]], ["declined", "passed"])
        self.assertEqual(baseline["error"]["exit_code"], 6)
        self.assertIsNone(asked["ratio"])
        self.assertIn("computes in double precision", done.stdout)
        self.assertIn("no ratios, as the baseline reference was not timed", done.stdout)
        done, _ = self.bench("swa,prec=fp32", "--impl", "reference", *QUICK, "--quiet", code=6)
        self.assertIn("computes in double precision", done.stdout)
        # A baseline that nobody asked for does not make a pass of what was.
        self.bench("swa,prec=fp32", "--impl", "reference", "--baseline", "reference-fp32", *QUICK, code=6)

    def test_the_baseline_takes_part_once(self):
        for arguments, names in (
                (["--impl", "reference-fp32"], ["reference", "reference-fp32"]),
                (["--impl", "reference-fp32", "--impl", "reference", "--impl", "reference-fp32"], ["reference-fp32", "reference"]),
                (["--impl", "reference", "--baseline", "reference-fp32"], ["reference-fp32", "reference"])):
            _, report = self.bench("swa,seq=3", *arguments, *QUICK)
            entries = report["cases"][0]["implementations"]
            self.assertEqual([entry["implementation"] for entry in entries], names)
            base = [entry for entry in entries if entry["implementation"] == report["baseline"]]
            self.assertEqual([base[0]["ratio"]["min"], base[0]["ratio"]["max"]], [1, 1])

    def test_without_warm_up_no_memory_is_measured(self):
        _, report = self.bench("swa,seq=3", "--impl", "reference", *QUICK, "--warmup", "0")
        self.assertIsNone(report["cases"][0]["implementations"][0]["memory_bytes"])
        self.assertEqual(report["warmup"], 0)

    def test_quiet_and_dry_run(self):
        done, _ = self.bench("swa,seq=3", "--impl", "reference", *QUICK, "--quiet")
        self.assertEqual(done.stdout.splitlines(), ["1 runs: 1 passed, 0 failed, 0 declined, 0 could not be judged, 0 checked nothing"])
        self.assertEqual(done.stderr, "")
        done = run("bench", "swa", "csa", "--filter", "csa", "--impl", "reference-fp32", "--dry-run")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"csa,model=tiny +reference .*MiB\ncsa,model=tiny +reference-fp32 .*MiB\n2 runs, none done")

    # comparison with an earlier report

    def test_ratios_that_grow_fail(self):
        arguments = ("swa,seq=9", "--impl", "reference-fp32", *QUICK)
        self.bench(*arguments)
        old = self.folder / "old.json"

        def rewrite(median):
            """The earlier report with one exact ratio, so that only this run's scatter counts."""
            data = json.loads((self.folder / "report.json").read_text())
            for entry in data["cases"][0]["implementations"]:
                for key in ("median", "min", "max", "lower_quartile", "upper_quartile"):
                    entry["ratio"][key] = median
            old.write_text(json.dumps(data))

        rewrite(1e6)
        done, _ = self.bench(*arguments, "--compare", old)
        self.assertIn(f"1 ratios compared with {old}: 0 grew", done.stdout)
        rewrite(-1e6)
        done, _ = self.bench(*arguments, "--compare", old, code=1)
        self.assertRegex(done.stdout, r"swa,model=tiny,seq=9 +reference-fp32 +-1000000.000 .* GREW")
        done = run("bench", "swa,seq=5", "--impl", "reference-fp32", *QUICK, "--compare", old)
        self.assertEqual(done.returncode, 3)
        self.assertIn("none of its ratios was measured again", done.stderr)

    def test_reports_that_cannot_be_compared_are_refused(self):
        _, report = self.bench("swa,seq=3", "--impl", "reference", *QUICK)
        old = self.folder / "old.json"

        def refused(hint, text, *more):
            old.write_text(text)
            self.refused(4, hint, "bench", "swa,seq=3", *QUICK, "--compare", old, *more)

        refused("readable JSON", "noise")
        refused("not a report of plumbline bench", json.dumps({"schema_version": 1, "cases": []}))
        refused("not a report of plumbline bench", "[]")
        refused("schema version", json.dumps({**report, "schema_version": 2}))
        refused("--phase all, got --phase forward", json.dumps(report), "--phase", "forward")
        refused("--baseline reference, got --baseline reference-fp32", json.dumps(report), "--baseline", "reference-fp32")
        self.refused(4, "readable JSON", "bench", "swa", "--compare", self.folder / "absent.json")

    # refusals

    def test_malformed_command_lines(self):
        self.refused(2, "allowed: reference, reference-wide", "bench", "swa", "--impl", "nobody")
        self.refused(2, "--baseline: unknown implementation", "bench", "swa", "--baseline", "nobody")
        self.refused(2, "--phase", "bench", "swa", "--phase", "backward")
        self.refused(2, "--repeat", "bench", "swa", "--repeat", "0")
        self.refused(2, "--warmup", "bench", "swa", "--warmup", "-1")
        for seconds in ("-1", "nan", "inf", "1e6", "soon", ""):
            self.refused(2, "--min-seconds", "bench", "swa", "--min-seconds", seconds)
        self.refused(2, "did you mean 'seq'", "bench", "csa,sq=3")
        self.refused(2, "8G", "bench", "swa", "--max-memory", "lots")
        for option in ("--json", "--compare", "--max-memory"):
            self.refused(2, option, "bench", "swa", option, "")
        self.refused(3, "nothing was checked", "bench", "csa", "--filter", "hca")
        self.refused(4, "cannot be read", "bench", "--suite", "nowhere")
        self.refused(2, "do not fit", "bench", "csa", "--dry-run", "--max-memory", "1K")

    def test_cases_that_do_not_fit_are_errors(self):
        done, report = self.bench("csa", "--impl", "reference", *QUICK, "--max-memory", "1K", code=2)
        self.assertIn("raise --max-memory", done.stderr)
        self.assertEqual(report["cases"][0]["implementations"][0]["outcome"], "error")

    def test_what_cannot_be_written_is_refused_before_anything_is_computed(self):
        # A case that would take minutes: it must not start.
        case = "csa,model=flash,seq=1024"
        self.refused(4, "there is no folder", "bench", case, "--json", self.folder / "a" / "r.json")
        self.refused(4, "is a folder", "bench", case, "--json", self.folder)
        self.refused(4, "r.json", "bench", "swa,seq=3", *QUICK, "--json", self.folder / "r.json", limit_bytes=100)

    def test_interrupt_leaves_no_report(self):
        report = self.folder / "r.json"
        for stop, arguments in ((signal.SIGINT, ["csa,seq=400..600"]), (signal.SIGTERM, ["swa,seq=3", "--min-seconds", "300"])):
            self.interrupted(["bench", *arguments, "--no-dgemm", "--json", report], stop)

    # documentation

    def test_examples_of_the_help_work(self):
        text = run("bench", "--help").stdout
        examples = re.findall(r"^ +(plumbline bench .*)$", text, re.MULTILINE)
        self.assertGreater(len(examples), 3)
        for line in examples:
            done = run(*shlex.split(line)[1:], cwd=self.folder)
            self.assertEqual(done.returncode, 0, (line, done.stdout, done.stderr))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
