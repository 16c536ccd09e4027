"""`run`, `logits`, `embed`, `bench`, `devices`: against reference results, and as a user would call them."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

from support import GULL, ProgramTest, case, cases, fixture, floats, gull, largest_difference, real_model

TINY = fixture("models/llama.f32.gguf")
GREEDY = ["--raw", "--temp", "0", "--format", "json"]


def logits(model, ids, *flags):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "logits")
        done = gull("logits", model, "--ids", ",".join(map(str, ids)), "--out", out, *flags)
        assert done.returncode == 0, done.err
        return floats(out)


class Logits(ProgramTest):
    def test_every_position_equals_the_reference(self):
        c = case("llama")
        expected = floats(fixture(c["logits"]))
        for flags in ([], ["--limits", "baseline"], ["--no-f16", "--no-subgroups", "--no-immediates"], ["--checked"]):
            with self.subTest(flags=flags):
                got = logits(fixture(c["model"]), c["prompt"], "--all", "--precision", "f32", *flags)
                self.assertEqual(len(got), len(c["prompt"]) * c["shape"][1])
                self.assertLessEqual(largest_difference(got, expected), c["tol_f32"])

    def test_without_all_it_is_the_last_position(self):
        c = case("llama")
        width = c["shape"][1]
        got = logits(TINY, c["prompt"], "--precision", "f32")
        self.assertEqual(len(got), width)
        self.assertLessEqual(largest_difference(got, floats(fixture(c["logits"]))[-width:]), c["tol_f32"])

    def test_bad_requests(self):
        out = os.path.join(tempfile.gettempdir(), "gull-test-logits")
        self.fails_with_one_line(gull("logits", TINY, "--ids", "1,two", "--out", out), "two")
        self.fails_with_one_line(gull("logits", TINY, "--ids", "", "--out", out), "--ids")
        for ids, path, word in (("1,-4", out, "-4"), ("288", out, "288"), ("1", "/no/such/folder/x", "/no/such/folder/x")):
            done = gull("logits", TINY, "--ids", ids, "--out", path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(word, done.err.splitlines()[-1])


class Run(ProgramTest):
    def test_json(self):
        data = json.loads(self.succeeds(gull("run", TINY, "hello", "-n", 8, "--ignore-eog", *GREEDY)).out)
        self.assertEqual(len(data["ids"]), 8)
        self.assertEqual(data["stop"], "length")
        self.assertEqual(data["timings"]["generated_tokens"], 8)
        self.assertEqual(data["timings"]["prompt_tokens"], len(data["prompt_ids"]))
        self.assertEqual(data["prompt_ids"], json.loads(gull("tokenize", TINY, "hello", "--json").out)["ids"])
        for key in ("name", "backend", "type"):
            self.assertTrue(data["device"][key])
        again = json.loads(gull("run", TINY, "hello", "-n", 8, "--ignore-eog", *GREEDY).out)
        self.assertEqual(again["ids"], data["ids"])

    def test_a_seed_repeats_and_seeds_differ(self):
        def ids(seed):
            return json.loads(gull("run", TINY, "hello", "-n", 24, "--raw", "--ignore-eog", "--temp", 2, "--top-k", 0, "--top-p", 1, "--min-p", 0,
                                   "--seed", seed, "--format", "json").out)["ids"]
        self.assertEqual(ids(7), ids(7))
        self.assertNotEqual(ids(7), ids(8))

    def test_text_goes_to_standard_output_and_figures_to_standard_error(self):
        done = self.succeeds(gull("run", TINY, "hello", "-n", 4, "--raw", "--temp", 0, "--ignore-eog"))
        self.assertTrue(done.out.endswith("\n"))
        self.assertIn("4 tokens in", done.err)
        self.assertNotIn("\033", done.err)
        quiet = self.succeeds(gull("run", TINY, "hello", "-n", 4, "--raw", "--temp", 0, "--ignore-eog", "--quiet"))
        self.assertEqual(quiet.out, done.out)
        self.assertNotIn("tokens in", quiet.err)

    def test_prompt_from_standard_input(self):
        expected = json.loads(gull("run", TINY, "hello", "-n", 4, *GREEDY).out)
        for arguments in (["-"], []):
            done = gull("run", TINY, *arguments, "-n", 4, *GREEDY, stdin=b"hello")
            self.assertEqual(json.loads(self.succeeds(done).out)["prompt_ids"], expected["prompt_ids"])

    def test_empty_prompt(self):
        self.fails_with_one_line(gull("run", TINY, ""), "prompt is empty")
        self.fails_with_one_line(gull("run", TINY, stdin=b""), "prompt is empty")

    def test_prompt_longer_than_the_context(self):
        done = gull("run", TINY, "word " * 200, "--raw", "--ctx", 32, "-n", 4)
        self.assertEqual(done.returncode, 1)
        self.assertIn("32", done.err)
        self.assertIn("context", done.err)

    def test_it_stops_where_the_context_ends(self):
        data = json.loads(self.succeeds(gull("run", TINY, "hello", "--ctx", 24, "--ignore-eog", *GREEDY)).out)
        self.assertEqual(data["stop"], "context")
        self.assertLessEqual(len(data["prompt_ids"]) + len(data["ids"]), 25)

    def test_unknown_device(self):
        done = gull("run", TINY, "hello", "-n", 4, "--device", "no such device")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such device", done.err)

    def test_without_any_gpu_it_says_what_to_install(self):
        none = {"VK_ICD_FILENAMES": "/nonexistent.json", "VK_DRIVER_FILES": "/nonexistent.json"}
        for arguments in (["run", TINY, "hello", "-n", 4], ["devices"]):
            done = gull(*arguments, env=none)
            self.assertEqual(done.returncode, 1, done.out[:200])
            self.assertIn("mesa-vulkan-drivers", done.err)
            self.assertLessEqual(len(done.err.strip().splitlines()), 1)

    def test_a_closed_pipe_ends_it(self):
        process = subprocess.Popen([GULL, "run", TINY, "hello", "--raw", "--ignore-eog", "--temp", "0", "--ctx", "4096"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(1)
        process.stdout.close()
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        self.assertNotIn(b"cannot write", err)


class Interrupt(ProgramTest):
    def start(self, *flags):
        return subprocess.Popen([GULL, "run", TINY, "hello", "--raw", "--ignore-eog", "--temp", "0", "--ctx", "100000", *flags],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_ctrl_c_stops_and_prints_the_timings(self):
        process = self.start()
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        _, err = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn(b"tokens in", err)
        self.assertIn(b"ended by cancelled", err)


class RealModel(ProgramTest):
    def test_smollm2_says_what_llama_cpp_says(self):
        model = real_model("smollm2-135m")
        with open(fixture("real/smollm2-135m-instruct-q4_1.json")) as f:
            reference = json.load(f)["prompts"][0]
        data = json.loads(self.succeeds(gull("run", model, bytes.fromhex(reference["text_hex"]).decode(), "-n", 12, "--ignore-eog",
                                             "--precision", "f32", *GREEDY)).out)
        self.assertEqual(data["prompt_ids"], reference["tokens"])
        sure = next((i for i, margin in enumerate(reference["margins"]) if margin < 0.2), 12)   # beyond it, rounding may decide
        self.assertGreater(sure, 0)
        self.assertEqual(data["ids"][:sure], reference["gen_tokens"][:12][:sure])


class Embed(ProgramTest):
    def test_vectors_equal_the_reference(self):
        for c in cases("embedding"):
            with self.subTest(c["id"]):
                done = gull("embed", fixture(c["model"]), "--ids", ",".join(map(str, c["prompt"])), "--no-normalize", "--json", "--precision", "f32")
                got = json.loads(self.succeeds(done).out)["embedding"]
                self.assertLessEqual(largest_difference(got, floats(fixture(c["pooled"]))), c["tol_f32"])

    def test_several_texts_give_several_unit_vectors(self):
        model = fixture(case("embeddinggemma")["model"])
        done = self.succeeds(gull("embed", model, "one", "two words", "--json"))
        vectors = [json.loads(line)["embedding"] for line in done.out.splitlines()]
        self.assertEqual(len(vectors), 2)
        for vector in vectors:
            self.assertAlmostEqual(sum(x * x for x in vector), 1, places=3)
        alone = json.loads(gull("embed", model, "two words", "--json").out)["embedding"]
        self.assertLess(largest_difference(alone, vectors[1]), 1e-4)

    def test_the_wrong_kind_of_model(self):
        done = gull("embed", TINY, "hello")
        self.assertEqual(done.returncode, 1)
        self.assertIn("embedding model", done.err)
        done = gull("run", fixture(case("bert-bge")["model"]), "hello")
        self.assertEqual(done.returncode, 1)
        self.assertIn("gull embed", done.err)


class Devices(ProgramTest):
    def test_one_is_chosen_and_says_why(self):
        devices = json.loads(self.succeeds(gull("devices", "--json")).out)
        chosen = [d for d in devices if d["chosen"]]
        self.assertEqual(len(chosen), 1)
        self.assertTrue(all(d["why"] for d in devices))
        self.assertTrue(all(d["backend"].lower() != "null" for d in devices))
        self.assertGreaterEqual(chosen[0]["limits"]["max_storage_buffers_per_stage"], 8)
        done = gull("run", TINY, "hello", "-n", 1, "--raw")
        self.assertEqual(chosen[0]["type"] == "software", "no GPU found" in done.err)

    def test_text(self):
        out = self.succeeds(gull("devices")).out
        self.assertIn("* ", out)
        self.assertIn("driver", out)


class Bench(ProgramTest):
    def test_json(self):
        data = json.loads(self.succeeds(gull("bench", TINY, "-p", 16, "-n", 4, "--reps", 2, "--json")).out)
        for part, tokens in (("prompt", 16), ("generate", 4)):
            self.assertEqual(data[part]["tokens"], tokens)
            self.assertEqual(len(data[part]["samples"]), 2)
            self.assertGreater(data[part]["mean"], 0)
        self.assertGreater(data["gpu_memory"]["weights"], 0)

    def test_profile(self):
        result = gull("bench", TINY, "-p", 16, "-n", 4, "--reps", 1, "--json", "--profile")
        if result.returncode and "timestamp" in result.err:
            self.skipTest("no timestamp queries here")
        profile = json.loads(self.succeeds(result).out)["profile"]
        self.assertGreater(profile["bytes_per_second"], 0)
        self.assertGreater(profile["operations_per_second"], 0)
        self.assertEqual([step["tokens"] for step in profile["steps"]], [1, 16])
        for step in profile["steps"]:
            self.assertGreater(sum(kernel["bytes"] for kernel in step["kernels"]), 0)
            for kernel in step["kernels"]:
                self.assertGreater(kernel["dispatches"], 0)
                self.assertGreaterEqual(kernel["reached"], 0)


unittest.main()
