"""Help, versions, exit statuses, and what goes where."""
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


unittest.main()
