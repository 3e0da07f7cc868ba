"""What the tests that drive the plumbline program share.

A test file is called with PROGRAM and REPOSITORY.
"""
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
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


class ProgramTest(unittest.TestCase):
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


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
