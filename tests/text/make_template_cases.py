#!/usr/bin/env python3
"""Writes tests/data/chat/cases.json: templates of our own, and what Python's jinja2 renders for them.

The environment is set up as transformers does it: ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop
controls, {% generation %}, tojson without HTML escapes, raise_exception, strftime_now, namespaces without
underscore names. Needs jinja2 3.1.6 (pip install jinja2).

  python3 tests/text/make_template_cases.py          # writes the file
  python3 tests/text/make_template_cases.py --show   # prints the renders
"""
import datetime
import json
import sys
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.sandbox

sys.path.insert(0, str(Path(__file__).parent))
import template_model_cases  # noqa: E402, F401: adds its cases
from template_cases import CASES, CONVERSATIONS, EXTRA  # noqa: E402

NOW = datetime.datetime(2025, 3, 1, 12, 34, 56)
OUT = Path(__file__).parent.parent / "data" / "chat"


class Generation(jinja2.ext.Extension):
    """{% generation %} … {% endgeneration %}: the body, in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("run"), [], [], body).set_lineno(line)

    def run(self, caller):
        return caller()


class Dict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


def check_name(name):
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"underscore name {name}")


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            check_name(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        check_name(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals.update(
        raise_exception=raise_exception, strftime_now=lambda f: NOW.strftime(f), dict=Dict(), namespace=Namespace
    )
    return env


def render(template, variables):
    return environment().from_string(template).render(**json.loads(json.dumps(variables)))


def input_of(case):
    """What the template sees: one conversation, and some further variables."""
    conversation = CONVERSATIONS[case.get("conversation", "plain")]
    return {
        "messages": conversation["messages"],
        "tools": conversation.get("tools"),
        "add_generation_prompt": case.get("add_generation_prompt", True),
        "bos_token": "<s>",
        "eos_token": "</s>",
        "documents": None,
        **EXTRA,
        **case.get("extra", {}),
    }


def main():
    cases = []
    for case in CASES:
        out = {k: case[k] for k in ("name", "template", "conversation", "add_generation_prompt", "extra") if k in case}
        try:
            out["render"] = render(case["template"], input_of(case))
        except Exception as error:  # whatever jinja2 does wrong here must be an error in gull too
            out["error"] = f"{type(error).__name__}: {error}"
        if ("error" in out) != case.get("fails", False):
            print(f"{case['name']}: {out.get('error', 'no error')}", file=sys.stderr)
        if "--show" in sys.argv:
            print("==", case["name"], "\n" + out.get("render", out.get("error")))
        cases.append(out)
    document = {"now": NOW.isoformat(), "extra": EXTRA, "conversations": CONVERSATIONS, "cases": cases}
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "cases.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    print(len(cases), "cases,", sum("error" in c for c in cases), "of them errors")


if __name__ == "__main__":
    main()
