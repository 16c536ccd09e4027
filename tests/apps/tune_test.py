"""gull tune: what it prints and keeps, and how little a damaged file can do."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

from support import GULL, ProgramTest, fixture, gull

MODEL = fixture("models/q256.Q4_K_M.gguf")


class Tune(ProgramTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.env = {"XDG_CACHE_HOME": self.folder.name}
        self.path = os.path.join(self.folder.name, "gull/tune.json")

    def run_model(self, *more):
        return self.succeeds(gull("run", MODEL, "hi", "--raw", "-n", 3, "--temp", 0, "--ctx", 96, *more, env=self.env))

    def write(self, text):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path, "w") as f:
            f.write(text)

    def test_measures_and_keeps(self):
        self.write('{"format": 1, "devices": [{"device": "another", "shapes": {"few": [256, 32]}}]}')
        done = self.succeeds(gull("tune", MODEL, "--ctx", 80, env=self.env, timeout=900))
        for kernel in ["matvec8", "few", "matmul"]:
            self.assertRegex(done.out, rf"(?m)^{kernel} +gull's own +\d+\.\d+ ms  100.0 %")
        self.assertIn("best", done.out)
        self.assertIn(self.path, done.out)
        with open(self.path) as f:
            kept = json.load(f)
        self.assertEqual([d["device"] for d in kept["devices"]][0], "another")
        self.assertEqual(sorted(kept["devices"][1]), ["backend", "device", "driver", "gull", "shapes"])
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["tune.json"])
        self.assertNotIn("tune.json", self.run_model().err)

    def test_a_damaged_file_is_not_used(self):
        deep = "[" * 200000
        for text in ["", "{", "[]", '{"format": 2, "devices": []}', '{"format": 1, "devices": 3}', deep, '{"format": 1, "devices": [' + deep, "\xff" * 99]:
            with self.subTest(text=text[:40]):
                self.write(text)
                done = self.run_model()
                self.assertRegex(done.err, r"(?m)^gull: .*tune\.json is not what gull tune writes: it is not used; gull tune writes it anew$")
                self.assertNotIn("tune.json", self.run_model("--no-tuning").err)

    def test_shapes_that_nobody_offers_are_ignored(self):
        devices = json.loads(self.succeeds(gull("devices", "--json")).out)
        devices = devices["devices"] if isinstance(devices, dict) else devices
        device = next(d for d in devices if d["chosen"])
        version = self.succeeds(gull("--version")).out.split()[1]
        entry = {"device": device["name"], "driver": device["driver"], "backend": device["backend"], "gull": version}
        plain = self.run_model()
        self.write(json.dumps({"format": 1, "devices": [dict(entry, shapes={"few": [4096, 7], "matmul8": [1, 1, 1]})]}))
        done = self.run_model()
        self.assertIn("ignored", done.err)
        self.assertEqual(done.out, plain.out)
        for shapes in [{"few": [-1, 32]}, {"few": [1e99, 32]}, {"few": ["256", 32]}, {"few": [256]}, 3, {"matvec8": {"threads": 256}}]:
            with self.subTest(shapes=shapes):
                self.write(json.dumps({"format": 1, "devices": [dict(entry, shapes=shapes)]}))
                done = self.run_model()
                self.assertIn("tune.json is damaged", done.err)
                self.assertEqual(done.out, plain.out)

    def test_an_interrupt_keeps_nothing(self):
        process = subprocess.Popen([GULL, "tune", MODEL, "--ctx", "80"], env=dict(os.environ, **self.env), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with self.assertRaises(subprocess.TimeoutExpired):
            process.communicate(timeout=2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1)
        self.assertEqual(out, b"")
        self.assertIn(b"cancelled", err)
        self.assertFalse(os.path.exists(self.path))

    def test_cannot_keep(self):
        os.makedirs(os.path.join(self.folder.name, "gull/tune.json/in the way"))
        done = gull("tune", MODEL, "--ctx", 20, env=self.env, timeout=900)
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not be written", done.err)


unittest.main()
