"""`tokenize` against ids made by llama.cpp, `template` against renders made by jinja2."""
import json
import os
import subprocess
import tempfile
import unittest

from support import GULL, ProgramTest, cases, fixture, gull

MODEL = fixture("models/llama.f32.gguf")


class Tokenize(ProgramTest):
    def test_ids_equal_llama_cpp(self):
        for c in cases("tokenizer"):
            if "model" not in c:
                continue   # a real model's: tests/text holds these
            with open(fixture(c["file"])) as f:
                texts = json.load(f)["cases"]
            for text in texts:
                for special, parse in ((0, 0), (0, 1), (1, 0), (1, 1)):
                    flags = ([] if special else ["--no-bos"]) + ([] if parse else ["--no-special"])
                    with self.subTest(case=c["id"], text=text["text_hex"], flags=flags):
                        done = gull("tokenize", fixture(c["model"]), "-", "--json", *flags, stdin=bytes.fromhex(text["text_hex"]))
                        self.assertEqual(json.loads(self.succeeds(done).out)["ids"], text[f"ids_special{special}_parse{parse}"])

    def test_round_trip_byte_for_byte(self):
        text = "Hello, wörld!\n  🙂\ttwo  spaces\r\n".encode()
        ids = json.loads(gull("tokenize", MODEL, "-", "--json", "--no-bos", stdin=text).out)["ids"]
        self.assertEqual(gull("tokenize", MODEL, ",".join(map(str, ids)), "--decode").stdout, text)

    def test_plain_output_names_each_token(self):
        out = self.succeeds(gull("tokenize", MODEL, "hi", "--no-bos")).out
        ids = json.loads(gull("tokenize", MODEL, "hi", "--no-bos", "--json").out)["ids"]
        self.assertEqual([int(line.split()[0]) for line in out.splitlines()], ids)

    def test_decode_refuses_what_is_no_id(self):
        self.fails_with_one_line(gull("tokenize", MODEL, "1,x", "--decode"), "'x'")
        self.fails_with_one_line(gull("tokenize", MODEL, "288", "--decode"), "288")


class Template(ProgramTest):
    def render(self, request, *arguments):
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        return gull("template", *arguments, stdin=body)

    def test_renders_equal_jinja2(self):
        with open(fixture("chat/conversations.json")) as f:
            conversations = json.load(f)
        for c in cases("chat"):
            with open(fixture(c["renders"])) as f:
                expected = json.load(f)
            for render in expected["renders"]:
                with self.subTest(case=c["id"], conversation=render["conversation"]):
                    request = dict(conversations["conversations"][render["conversation"]], now=conversations["strftime_now"],
                                   add_generation_prompt=render["add_generation_prompt"],
                                   bos_token=expected.get("bos_token", ""), eos_token=expected.get("eos_token", ""))
                    done = self.render(request, "--template", fixture(c["template"]))
                    if "error" in render:
                        self.fails_with_one_line(done)
                    else:
                        self.assertEqual(self.succeeds(done).stdout, render["render"].encode())

    def test_bad_requests(self):
        template = ["--template", fixture("chat/smollm2.jinja")]
        self.fails_with_one_line(self.render(b"{", *template), "JSON")
        self.fails_with_one_line(self.render(b"", *template), "JSON")
        self.fails_with_one_line(self.render({"tools": []}, *template), "messages")
        self.fails_with_one_line(self.render({"messages": [], "now": 3}, *template), "now")
        self.fails_with_one_line(self.render({"messages": []}, "--template", fixture("none.jinja")), "none.jinja")

    def test_bad_template(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as f:
            f.write("{% for m in messages %}")
            f.flush()
            self.fails_with_one_line(self.render({"messages": []}, "--template", f.name))

    def test_model_without_template(self):
        self.fails_with_one_line(self.render({"messages": []}, MODEL), "no chat template")


unittest.main()
