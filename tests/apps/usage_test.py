"""Help, versions, exit statuses, and what goes where."""
import os
import re
import tempfile
import unittest

from support import COMMANDS, ProgramTest, fixture, gull

MODEL = fixture("models/llama.f32.gguf")


class Usage(ProgramTest):
    def test_help_everywhere(self):
        for arguments in [["--help"], *([c, "--help"] for c in COMMANDS)]:
            with self.subTest(arguments=arguments):
                done = self.succeeds(gull(*arguments))
                self.assertIn("--help", done.out)
                self.assertEqual(done.err, "")

    def test_help_of_the_program_names_every_command(self):
        out = gull("--help").out
        for command in COMMANDS:
            self.assertIn(command, out)

    def test_version(self):
        self.assertRegex(self.succeeds(gull("--version")).out, r"\Agull \d+\.\d+\.\d+\n\Z")

    def test_wrong_usage_is_status_2_on_standard_error(self):
        for arguments in [[], ["fly"], ["--fly"], ["run"], ["run", MODEL, "hi", "--fly"], ["run", MODEL, "a", "b"],
                          ["run", MODEL, "hi", "-n", "many"], ["run", MODEL, "hi", "--temp", "-1"],
                          ["run", MODEL, "hi", "--limits", "none"], ["run", MODEL, "hi", "--precision", "f8"],
                          ["run", MODEL, "hi", "--gpu-budget", "much"], ["run", MODEL, "hi", "--gpu-budget", "0.3"],
                          ["tokenize", MODEL], ["logits", MODEL, "--ids", "1"],
                          ["embed", MODEL], ["embed", MODEL, "a", "--ids", "1"], ["template"], ["pull"], ["bench", MODEL, "--reps", "0"]]:
            with self.subTest(arguments=arguments):
                done = gull(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.out, "")
                self.assertNotEqual(done.err, "")

    def test_a_later_option_overrides_an_earlier_one(self):
        done = self.succeeds(gull("run", MODEL, "hi", "--raw", "-n", 1, "-n", 3, "--ignore-eog", "--stop", "never", "--stop", "ever", "--temp", 0))
        self.assertIn(" 3 tokens in", done.err)

    def test_options_of_loading_are_on_every_command_that_loads(self):
        for command in ["run", "chat", "logits", "embed", "bench"]:
            out = gull(command, "--help").out
            for option in ["--device", "--limits", "--precision", "--ctx", "--kv", "--gpu-budget", "--no-f16", "--no-subgroups",
                           "--no-immediates", "--checked", "--webgpu", "--verbose"]:
                with self.subTest(command=command, option=option):
                    self.assertIn(option, out)


class Budget(ProgramTest):
    """--gpu-budget, against the same command without it."""
    EXPERTS = fixture("models/qwen3moe.f16.gguf")

    def logits(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "logits")
            done = gull("logits", self.EXPERTS, "--ids", "5,17,99,3", "--all", "--out", out, *arguments)
            if done.returncode:
                return done, None
            with open(out, "rb") as f:
                return done, f.read()

    def test_the_same_logits_and_how_often_weights_came_and_went(self):
        whole, want = self.logits()
        self.assertNotIn("weights within", whole.err)
        for budget in ["130KiB", "40000", "0.05MiB"]:
            with self.subTest(budget=budget):
                done, got = self.logits("--gpu-budget", budget, "--verbose")
                self.succeeds(done)
                self.assertEqual(got, want)
                self.assertRegex(done.err, r"weights within [^\n]*: \d+ hits, [1-9]\d* misses, [1-9]\d* uploads of [^\n]*, [1-9]\d* evictions")
        self.assertEqual(self.logits("--gpu-budget", "0")[1], want)
        self.assertEqual(self.logits("--gpu-budget", "1TiB")[1], want)

    def test_a_budget_that_is_too_small_says_how_much_is_enough(self):
        done, _ = self.logits("--gpu-budget", "1KiB")
        self.fails_with_one_line(done, self.EXPERTS, "--gpu-budget must be at least ")
        least = int(re.search(r"at least (\d+) bytes", done.err)[1])
        self.assertEqual(self.logits("--gpu-budget", least)[1], self.logits()[1])
        self.fails_with_one_line(self.logits("--gpu-budget", least - 1)[0], f"at least {least} bytes")


unittest.main()
