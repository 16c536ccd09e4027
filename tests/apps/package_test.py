"""The installed package: a program outside the source tree is built with find_package(gull), and run."""
import os
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, ProgramTest, fixture

BUILD = os.environ.get("GULL_BUILD", os.path.join(ROOT, "build"))
CMAKE = os.environ.get("CMAKE", "cmake")


def cmake(*arguments):
    done = subprocess.run([CMAKE, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"cmake {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"


class Package(ProgramTest):
    def test_example_is_built_against_the_installed_package_and_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix, build = os.path.join(folder, "prefix"), os.path.join(folder, "hello")
            cmake("--install", BUILD, "--prefix", prefix)
            cmake("-S", os.path.join(ROOT, "examples/hello"), "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
                  "-DCMAKE_BUILD_TYPE=Release", *([f"-DCMAKE_CXX_COMPILER={os.environ['CXX']}"] if os.environ.get("CXX") else []))
            cmake("--build", build)
            done = subprocess.run([os.path.join(build, "hello"), fixture("models/llama.f32.gguf"), "hello"], capture_output=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout.decode(errors="replace"), r"\d+ tokens at \d+\.\d per second\n\Z")
            done = subprocess.run([os.path.join(build, "hello"), fixture("malformed/bad-magic.gguf"), "hello"], capture_output=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"bad-magic.gguf", done.stderr)
            done = subprocess.run([os.path.join(prefix, "bin/gull"), "--version"], capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)


unittest.main()
