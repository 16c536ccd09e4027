"""What the tests of the program share: running it, and the fixtures."""
import array
import json
import os
import subprocess
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GULL = os.environ.get("GULL", os.path.join(ROOT, "build/bin/gull"))
FIXTURES = os.path.join(ROOT, "tests/data/fixtures")
COMMANDS = ["run", "chat", "inspect", "devices", "tokenize", "template", "logits", "embed", "bench", "pull", "tune"]   # and web, where it is built


def fixture(*parts):
    return os.path.join(FIXTURES, *parts)


def cases(kind):
    with open(fixture("index.json")) as f:
        return [c for c in json.load(f)["cases"] if c["kind"] == kind]


def case(name):
    with open(fixture("index.json")) as f:
        return next(c for c in json.load(f)["cases"] if c["id"] == name)


def gull(*arguments, stdin=b"", timeout=300, env=None):
    """Runs the program; gives the finished process with .seconds, .out and .err as text."""
    begin = time.monotonic()
    done = subprocess.run([GULL, *map(str, arguments)], input=stdin, capture_output=True, timeout=timeout,
                          env=dict(os.environ, **(env or {})))
    done.seconds = time.monotonic() - begin
    done.out = done.stdout.decode(errors="replace")
    done.err = done.stderr.decode(errors="replace")
    return done


def floats(path):
    values = array.array("f")
    with open(path, "rb") as f:
        values.frombytes(f.read())
    return values


def largest_difference(a, b):
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def real_model(name):
    """The path of a catalogue model that ./test has fetched; skips where it cannot be had."""
    done = gull("pull", name, timeout=600)
    if done.returncode:
        raise unittest.SkipTest(f"{name} cannot be fetched here: {done.err.strip()}")
    return done.out.strip()


class ProgramTest(unittest.TestCase):
    def succeeds(self, done):
        self.assertEqual(done.returncode, 0, done.err[:400])
        return done

    def fails_with_one_line(self, done, *words):
        """Status 1, nothing on standard output, one line on standard error that names each of `words`."""
        self.assertEqual(done.returncode, 1, (done.out + done.err)[:400])
        self.assertEqual(done.out, "")
        self.assertRegex(done.err, r"\Agull: [^\n]+\n\Z")
        self.assertLess(len(done.err), 600)
        for word in words:
            self.assertIn(word, done.err)
