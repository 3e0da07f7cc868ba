"""What tests that drive the plumbline program share. Such a test is called as TEST PROGRAM REPOSITORY."""
import json
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
REPOSITORY = pathlib.Path(sys.argv[2]).resolve()
ORACLE = REPOSITORY / "tests" / "oracle" / "csa_packed_padded.h5"


def run(*arguments, cwd=None, limit_bytes=None):
    def limits():
        if limit_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, stdin=subprocess.DEVNULL,
                          preexec_fn=limits, timeout=300)


class CliFixture(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plumbline-cli-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def refused(self, code, hint, *arguments, **keywords):
        """The program refuses: this exit code, one line on stderr that holds the hint, no new file."""
        before = sorted(self.folder.rglob("*"))
        done = run(*arguments, **keywords)
        self.assertEqual(done.returncode, code, (arguments, done.stdout, done.stderr))
        errors = done.stderr.strip().splitlines()
        self.assertEqual(len(errors), 1, (arguments, done.stderr))
        self.assertTrue(errors[0].startswith("plumbline: error: "), errors)
        self.assertIn(hint, errors[0], arguments)
        self.assertNotIn("HDF5-DIAG", done.stderr + done.stdout)
        self.assertEqual(sorted(self.folder.rglob("*")), before, "something was written")
        return done

    def check_schema(self, data, name="report"):
        """The report has the keys that the documented schema docs/NAME.schema.json requires, and no others."""
        schema = json.loads((REPOSITORY / "docs" / f"{name}.schema.json").read_text())

        def check(value, rule, where):
            if "$ref" in rule:
                rule = schema["$defs"][rule["$ref"].rsplit("/", 1)[1]]
            choices = [choice for choice in rule.get("anyOf", []) if choice != {"type": "null"}]
            if len(choices) == 1 and value is not None:
                check(value, choices[0], where)
            if isinstance(value, dict):
                for key in rule.get("required", []):
                    self.assertIn(key, value, where)
                if rule.get("additionalProperties") is False:
                    self.assertLessEqual(set(value), set(rule["properties"]), where)
                for key, inner in value.items():
                    if key in rule.get("properties", {}):
                        check(inner, rule["properties"][key], f"{where}.{key}")
            if isinstance(value, list) and "items" in rule:
                for inner in value:
                    check(inner, rule["items"], where)
            if "enum" in rule:
                self.assertIn(value, rule["enum"], where)
            if "const" in rule:
                self.assertEqual(value, rule["const"], where)

        check(data, schema, name)

    def wait_for_handler(self, process, number):
        """Waits until the process catches the signal, however slowly it starts."""
        for _ in range(600):
            caught = re.search(r"SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())
            if caught and int(caught.group(1), 16) >> (number - 1) & 1:
                return
            time.sleep(0.05)
        self.fail("the program installs no handler")

    def interrupted(self, arguments, stop):
        """The command, stopped in the midst of its work, ends with 130, one line, and no file."""
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for_handler(process, stop)
        time.sleep(0.5)
        process.send_signal(stop)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, (arguments[:2], errors))
        self.assertIn("interrupted", errors)
        self.assertEqual(len(errors.strip().splitlines()), 1, errors)
        self.assertEqual(list(self.folder.iterdir()), [])
