"""Files that are there, broken, or not models at all: `inspect` and `run`."""
import glob
import json
import os
import tempfile
import unittest

from support import ProgramTest, fixture, gull

# What an error must say of each file that cannot be read, beside its name.
BROKEN = sorted(glob.glob(fixture("malformed/*.gguf")))


class BrokenFiles(ProgramTest):
    def test_each_gives_one_line_at_once(self):
        self.assertGreater(len(BROKEN), 15)
        for path in BROKEN:
            for arguments in (["inspect", path], ["run", path, "hi"], ["tokenize", path, "hi"]):
                with self.subTest(file=os.path.basename(path), command=arguments[0]):
                    done = gull(*arguments, timeout=20)
                    self.assertLess(done.seconds, 2)
                    if arguments[0] == "inspect" and done.returncode == 0:
                        self.assertIn("gull cannot run it", done.out)   # well-formed, only not for gull
                    else:
                        self.fails_with_one_line(done, os.path.basename(path) if arguments[0] == "inspect" else "")

    def test_things_that_are_no_models(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.gguf")
            with open(page, "w") as f:
                f.write("<!DOCTYPE html>\n<html><title>404</title></html>\n")
            pointer = os.path.join(folder, "pointer.gguf")
            with open(pointer, "w") as f:
                f.write("version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 123\n")
            empty = os.path.join(folder, "empty.gguf")
            open(empty, "w").close()
            for path, word in [(page, "HTML"), (pointer, "LFS"), (empty, "empty"), (folder, "directory"),
                               (os.path.join(folder, "none.gguf"), "no such file")]:
                for arguments in (["inspect", path], ["run", path, "hi"]):
                    with self.subTest(path=path, command=arguments[0]):
                        done = gull(*arguments)
                        self.fails_with_one_line(done, path)
                        self.assertIn(word.lower(), done.err.lower())

    def test_unknown_name(self):
        self.fails_with_one_line(gull("inspect", "no-such-model"), "no-such-model", "smollm2-135m")


class Inspect(ProgramTest):
    # What llama.cpp's quantiser reports for these files (tests/data/fixtures/README.md).
    QUANTISED = {"q128.Q4_0": {"F32": 5, "Q8_0": 1, "Q4_0": 14}, "q256.Q4_K_M": {"F32": 5, "Q6_K": 3, "Q4_K": 12},
                 "q256.Q2_K": {"F32": 5, "Q6_K": 1, "Q2_K": 8, "Q3_K": 4, "Q4_K": 2}}

    def test_json(self):
        for name, types in self.QUANTISED.items():
            with self.subTest(name):
                path = fixture("models", name + ".gguf")
                data = json.loads(self.succeeds(gull("inspect", path, "--json")).out)
                self.assertEqual({k: v["tensors"] for k, v in data["types"].items()}, types)
                self.assertEqual(data["bytes"], os.path.getsize(path))
                self.assertEqual(data["architecture"], "llama")
                self.assertEqual(data["version"], 3)
                self.assertTrue(data["supported"])
                self.assertEqual(data["metadata"]["general.architecture"], "llama")
                self.assertEqual(len(data["metadata"]["tokenizer.ggml.tokens"]), 288)
                self.assertEqual(len(data["tensors"]), sum(types.values()))
                self.assertLess(sum(t["bytes"] for t in data["tensors"]), data["bytes"])
                self.assertGreater(data["gpu_memory"]["total"], 0)

    def test_text(self):
        out = self.succeeds(gull("inspect", fixture("models/llama.f32.gguf"))).out
        for word in ["general.architecture", "llama.block_count", "token_embd.weight", "F32", "gull can run it"]:
            self.assertIn(word, out)

    def test_every_fixture_model_is_supported_or_says_why(self):
        for path in sorted(glob.glob(fixture("models/*.gguf"))):
            with self.subTest(os.path.basename(path)):
                data = json.loads(self.succeeds(gull("inspect", path, "--json")).out)
                self.assertTrue(data["supported"] or data["reason"])


unittest.main()
