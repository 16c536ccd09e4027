"""`chat`: from a pipe, and in a terminal."""
import fcntl
import os
import pty
import re
import select
import subprocess
import tempfile
import termios
import time
import unittest

from support import GULL, ProgramTest, fixture, gull, real_model


class Piped(ProgramTest):
    def test_a_model_without_template_is_refused(self):
        done = gull("chat", fixture("models/llama.f32.gguf"), stdin=b"hi\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no chat template", done.err)

    def test_two_turns_keep_what_was_computed(self):
        model = real_model("smollm2-135m")
        done = self.succeeds(gull("chat", model, "-n", 8, "--temp", 0, stdin=b"Say hello.\nAnd now goodbye.\n/exit\nnever read\n"))
        lines = [line for line in done.err.splitlines() if "tokens in" in line]
        self.assertEqual(len(lines), 2, done.err)
        self.assertNotIn("kept", lines[0])
        kept = int(re.search(r"\((\d+) kept\)", lines[1])[1])
        first = int(re.search(r"prompt (\d+) tokens", lines[0])[1])
        self.assertGreaterEqual(kept, first)

    def test_commands(self):
        model = real_model("smollm2-135m")
        done = self.succeeds(gull("chat", model, "-n", 4, "--temp", 0, stdin=b"/help\n/nonsense\n\nHi\n/reset\nHi\n"))
        self.assertIn("/reset", done.out)
        self.assertIn("/nonsense", done.err)
        answers = done.out.split("\n")[-3:-1]
        self.assertEqual(answers[0], answers[1])


class Terminal:
    """The program in a pseudo-terminal."""

    def __init__(self, *arguments, env):
        self.screen = ""
        master, slave = pty.openpty()
        self.master = master
        self.process = subprocess.Popen([GULL, *arguments], stdin=slave, stdout=slave, stderr=slave, env=dict(os.environ, TERM="xterm", **env),
                                        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)

    def wait_for(self, text, seconds=120):
        end = time.monotonic() + seconds
        while text not in self.screen:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                raise AssertionError(f"{text!r} did not appear in {self.screen!r}")
            try:
                self.screen += os.read(self.master, 4096).decode(errors="replace")
            except OSError:
                raise AssertionError(f"{text!r} did not appear in {self.screen!r}")
        self.screen = self.screen.split(text, 1)[1]

    def wait_for_prompt(self, seconds=120):
        """The prompt shows a moment before the terminal is set up for editing."""
        self.wait_for("> ", seconds)
        end = time.monotonic() + seconds
        while termios.tcgetattr(self.master)[3] & termios.ICANON:
            assert time.monotonic() < end, "line editing never began"
            time.sleep(0.01)

    def type(self, text):
        os.write(self.master, text.encode())


class InTerminal(ProgramTest):
    def test_editing_history_and_interrupts(self):
        model = real_model("smollm2-135m")
        with tempfile.TemporaryDirectory() as cache:
            terminal = Terminal("chat", model, "-n", "400", "--temp", "0", "--ignore-eog", env={"XDG_CACHE_HOME": cache})
            terminal.wait_for("/help for help")
            terminal.wait_for_prompt()
            terminal.type("/hexlp\x1b[D\x1b[D\x7f\r")       # two to the left, rub out the x
            terminal.wait_for("/reset")
            terminal.wait_for_prompt()
            terminal.type("\x03")                              # Ctrl-C at the prompt leaves nothing
            terminal.wait_for("/exit leaves")
            terminal.wait_for_prompt()
            terminal.type("Count to a thousand.\r")
            terminal.wait_for("thousand.\r\n")
            terminal.wait_for(" ")                             # the answer has begun
            terminal.type("\x03")                              # Ctrl-C in an answer ends that answer
            terminal.wait_for("ended by cancelled")
            terminal.wait_for_prompt()
            terminal.type("/exit\r")
            self.assertEqual(terminal.process.wait(20), 0)
            with open(os.path.join(cache, "gull/chat-history")) as f:
                self.assertIn("thousand", f.read())


unittest.main()
