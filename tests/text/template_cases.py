"""The templates of make_template_cases.py, one construct of the language after the other, and the conversations they see."""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city.\nSay \"please\" & <wait>.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "City name"},
                    "days": {"type": "integer", "description": "How many", "default": 3},
                    "unit": {"type": ["string", "null"], "enum": ["C", "F"]},
                    "spots": {"type": "array", "items": {"type": "number"}},
                },
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "stop", "description": "Ends it", "parameters": {"type": "object", "properties": {}}}},
]

CONVERSATIONS = {
    "plain": {
        "messages": [
            {"role": "system", "content": "  Be terse.\n"},
            {"role": "user", "content": "Größe of <b>X</b> & 'Y'? 🙂"},
            {"role": "assistant", "content": "Big.\n\nVery  "},
            {"role": "user", "content": "ok\tbye"},
        ]
    },
    "one": {"messages": [{"role": "user", "content": "hi"}]},
    "empty": {"messages": []},
    "thinking": {
        "messages": [
            {"role": "user", "content": "2+2?"},
            {"role": "assistant", "content": "<think>\nadd them\n</think>\n\n4", "reasoning_content": "add them"},
            {"role": "user", "content": "and 3+3?"},
        ]
    },
    "tools": {
        "tools": TOOLS,
        "messages": [
            {"role": "system", "content": "Use tools."},
            {"role": "user", "content": "Weather in Zürich and Rome?"},
            {
                "role": "assistant",
                "content": "Let me look.",
                "tool_calls": [
                    {"id": "a1b2c3d4e", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2, "wind": False, "x": None, "f": 1.5, "l": [1, "b"]}}},
                    {"id": "a1b2c3d4f", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Rome \"R\""}}},
                ],
            },
            {"role": "tool", "name": "get_weather", "tool_call_id": "a1b2c3d4e", "content": "{\"t\": 21.5}"},
            {"role": "tool", "name": "get_weather", "tool_call_id": "a1b2c3d4f", "content": "{\"t\": 30}"},
            {"role": "assistant", "content": "21.5 and 30."},
            {"role": "user", "content": "Thanks"},
        ],
    },
    "parts": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "image"}, {"type": "text", "text": "this?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]},
        ]
    },
}

EXTRA = {
    "n": 7, "f": 2.5, "s": "Hello, World", "yes": True, "no": False, "nothing": None, "big": 18446744073709551615,
    "xs": [3, 1, 2], "names": ["bob", "Alice", "carol", "alice"], "d": {"b": 1, "a": [1, 2.0, None, True], "C": "x"},
    "nested": [{"n": "root", "kids": [{"n": "left", "kids": []}, {"n": "right", "kids": [{"n": "leaf", "kids": []}]}]}],
    "people": [{"name": "Zoe", "age": 31, "city": {"zip": 5}}, {"name": "adam", "age": 25, "city": {"zip": 9}}, {"name": "Bea", "age": 31, "city": {"zip": 1}}],
    "text": "line one\nline two\n\n  line three", "items": "shadow", "uni": "ÄÖß ﬁn İ ΑΣ. ΣΑΣ",
}

CASES = []


def case(name, template, **more):
    CASES.append({"name": name, "template": template, **more})


# ---- text, tags and white space
case("text only", "Hello\n  {# a comment #}  world {#- tight -#}  !\n\n")
case("trailing newline", "a\nb\n")
case("two trailing newlines", "a\n\n")
case("carriage returns", "a\r\nb\rc\r\n{{ 'x\r\ny' | length }}")
case("trim blocks", "{% if yes %}\nA\n{% endif %}\n\nB\n{% if yes %}  \nC{% endif %} \nD")
case("lstrip blocks", "  {% if yes %}\n  A {% if yes %} x {% endif %}\n   {% endif %}  B\n\t{{ n }}\n \t {# c #}\nE")
case("lstrip at comment", "x\n   {# one #}\n   {# two #} y {# three #}\n   {#- four -#}\n z")
case("plus keeps", "a\n   {%+ if yes %}\nb\n  {%+ endif +%}\nc {{+ n }} d\n   {#+ c +#}\n e")
case("minus strips", "a \n\n {%- if yes -%} \n\n b {%- endif -%} \n c {{- n -}} \n d {{ n -}}\n\n e")
case("minus and newline line", "{%- for x in xs -%}\n{{ x }}\n{%- endfor -%}\n!")
case("tag at line start after tag", "{% if yes %}\n    {% if yes %}\n    x\n    {% endif %}\n{% endif %}\n")
case("inline tags keep spaces", "a {% if yes %} b {% endif %} c")
case("unicode space strip", "a\u00a0\u2003{{- n -}}\u3000b")
case("raw", "{% raw %}{{ not }} {% if %} {# c #}{% endraw %}|\n  {%- raw -%}  \n x {{ y }} \n {%- endraw -%}  \nend\n  {% raw %}\n  q\n  {% endraw %}\nz")
case("braces in text", "{ {a} } { % } {{ '{{' }} {{ '%}' }} {{ '}}' }} }} %}")
case("statement in expression string", "{{ \"{% if %}\" ~ '{# no #}' }}")
case("multi-line expression", "{{\n  [\n   1,\n   2,\n  ]\n  | join(\n  '-'\n )\n}}")
case("colon after tag", "{% if yes: %}A{% else: %}B{% endif %}{% for x in xs: %}{{ x }}{% endfor %}")
case("comment with tags", "a{# {{ x }} {% if %} \n two lines #}b{#-#}c{#--#}d")
case("unclosed print", "a {{ n", fails=True)
case("unclosed block", "a {% if yes %} b", fails=True)
case("unclosed comment", "a {# b", fails=True)
case("unclosed raw", "{% raw %} b", fails=True)
case("unclosed string", "{{ 'abc }}", fails=True)
case("unknown tag", "{% nope %}", fails=True)
case("end without begin", "{% endif %}", fails=True)
case("wrong end", "{% if yes %}{% endfor %}", fails=True)
case("wrong bracket", "{{ [1, 2) }}", fails=True)
case("extra bracket", "{{ 1) }}", fails=True)
case("bad character", "{{ 1 ? 2 }}", fails=True)
case("empty print", "{{ }}", fails=True)
case("include", "{% include 'x' %}", fails=True)
case("import", "{% import 'x' as y %}", fails=True)
case("extends", "{% extends 'x' %}", fails=True)

# ---- literals
case("numbers", "{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1.5 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 2E+20 }} {{ 00 }} {{ 10.0 }}")
case("float printing", "{{ 1e15 }} {{ 1e16 }} {{ 123456789.125 }} {{ 0.1 + 0.2 }} {{ 1/3 }} {{ 1e-4 }} {{ 1e-5 }} {{ -0.0 }} {{ 1e300*1e10 }} {{ 100000000000000000000.0 }} {{ 5e-324 }} {{ 2.5e10 }}")
case("big integers", "{{ big }} {{ big + 1 }} {{ 9223372036854775807 + 1 }} {{ -9223372036854775808 }} {{ big * 2 }} {{ 2 ** 100 }} {{ big | tojson }}")
case("strings", r"""{{ 'a\nb\tc\\d\'e"f' }} {{ "q\"q'q" }} {{ 'x' 'y' "z" }} {{ '\x41\u00e9\U0001F642' }} {{ '\101\60' }} {{ '\d\q' }} {{ 'a\
b' }} {{ 'Ω' }}""")
case("broken escape", r"{{ '\x4' }}", fails=True)
case("constants", "{{ true }} {{ True }} {{ false }} {{ False }} {{ none }} {{ None }}")
case("lists and tuples", "{{ [1, 'a', none, [2.0, (3,)], ()] }} {{ (1, 2) }} {{ (1,) }} {{ 1, 'x' }} {{ [] }} {{ [1,] }} {{ ('a') }}")
case("dicts", "{{ {'a': 1, 2: 'b', none: [1], (1, 2): {}, 1.5: true} }} {{ {} }} {{ {'k': 'v',} }}")
case("dict keys equal", "{{ {1: 'a', 1.0: 'b', true: 'c'} }} {{ {1: 'x'}[true] }}")
case("unhashable key", "{{ {[1]: 2} }}", fails=True)
case("repr of strings", r"""{{ ['it\'s', 'say "x"', 'both \' and "', 'tab\t nl\n cr\r nul\x00 del\x7f', 'ü 🙂 \u00a0 \u200b \ue000', '\\'] }}""")
case("index of literals", "{{ [1,2,3][0] }} {{ 'abc'[1] }} {{ {'a': 1}.a }} {{ {'a': 1}['a'] }} {{ (4,5)[-1] }} {{ [[1,2],[3]][1][0] }} {{ xs.0 }} {{ people.0.name }} {{ [[1.5]].0.0 }}")

# ---- operators
case("integer arithmetic", "{{ 7 + 2 * 3 - 1 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ +5 }} {{ - -5 }}")
case("float arithmetic", "{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 1.5 + 1 }} {{ 2 * 0.5 }} {{ 2.0 ** 0.5 }} {{ 1 - 0.9 }} {{ 5 % 2.5 }} {{ -5.0 % 2.5 }}")
case("booleans are numbers", "{{ true + 1 }} {{ true * 3 }} {{ false // 1 }} {{ -true }} {{ true == 1 }} {{ 'a' * true }} {{ [5, 6][true] }}")
case("division by zero", "{{ 1 / 0 }}", fails=True)
case("modulo by zero", "{{ 1 % 0 }}", fails=True)
case("string operators", "{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 2 * 'xy' }} {{ 'x' * -1 }}| {{ [1] + [2] }} {{ [0] * 3 }} {{ (1,) + (2,) }} {{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1] ~ missing }}")
case("string plus int", "{{ 'a' + 1 }}", fails=True)
case("int plus string", "{{ 1 + 'a' }}", fails=True)
case("list plus tuple", "{{ [1] + (2,) }}", fails=True)
case("none plus string", "{{ none + 'a' }}", fails=True)
case("comparisons", "{{ 1 < 2 }} {{ 2 <= 2 }} {{ 'a' < 'b' }} {{ 'Z' < 'a' }} {{ 1 == 1.0 }} {{ 1 != '1' }} {{ [1, 2] < [1, 3] }} {{ (1,) > () }} {{ 1 < n < 8 }} {{ 1 < n > 8 }} {{ none == none }} {{ [1] == (1,) }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ 'é' > 'z' }}")
case("compare int and string", "{{ 1 < 'a' }}", fails=True)
case("compare none", "{{ none < 1 }}", fails=True)
case("in", "{{ 1 in xs }} {{ 9 not in xs }} {{ 'ell' in s }} {{ 'b' in d }} {{ 1 in d }} {{ '' in 'x' }} {{ 2.0 in [1, 2] }} {{ 'x' in missing }} {{ (1, 2) in [(1, 2)] }} {{ not 1 in xs }}")
case("in none", "{{ 'a' in none }}", fails=True)
case("int in string", "{{ 1 in 'a1' }}", fails=True)
case("logic", "{{ yes and no }} {{ 0 or 'x' }} {{ '' or [] or 'last' }} {{ 1 and 2 }} {{ not yes }} {{ not '' }} {{ yes or missing.foo }} {{ not no and yes }} {{ none and 1 }}")
case("conditional", "{{ 'a' if yes else 'b' }} {{ 'a' if no else 'b' if no else 'c' }} [{{ 'x' if no }}] {{ ('t' if n > 5 else 'u') ~ '!' }} {{ 1 if no else 2 + 3 }}")
case("precedence", "{{ '1' + 2 ~ 3 }} {{ 2 * 3 ~ 4 }} {{ 1 == 1 and 2 == 3 or 4 }} {{ -n | abs }} {{ (-n) | abs }} {{ 'a' ~ 'b' | upper }} {{ not 1 == 2 }} {{ 1 + 2 | string ~ 'x' if no else -3 ** 2 }} {{ 'x' in 'xyz' and 'z' }}")
case("filter binds tighter", "{{ 'a,b' ~ ',c' | replace(',', ';') }} {{ xs | length * 2 }} {{ 10 - xs | length }} {{ xs|length > 2 and xs|first == 3 }}")
case("slices", "{{ s[1:4] }} {{ s[:5] }} {{ s[-5:] }} {{ s[::2] }} {{ s[::-1] }} {{ xs[1:] }} {{ xs[::-1] }} {{ xs[5:] }} {{ xs[-2:-1] }} {{ (1,2,3)[1:] }} {{ s[100:] }}| {{ uni[1:3] }} {{ xs[:-1] }} {{ s[2:1] }}| {{ range(10)[2:8:3] | list }} {{ s[none:2] }}")
case("slice step zero", "{{ xs[::0] }}", fails=True)
case("indexing", "{{ xs[-1] }} [{{ xs[9] }}] {{ s[0] }}{{ s[-1] }} [{{ s[99] }}] {{ d['b'] }} [{{ d['zz'] }}] {{ d[none] is defined }} {{ uni[2] }} {{ xs['0'] is defined }} {{ n['x'] is defined }}")

# ---- undefined
case("undefined prints nothing", "[{{ missing }}] [{{ d.missing }}] [{{ xs[10] }}] [{{ missing | upper }}] [{{ missing ~ 'x' }}] {{ missing | default('dflt') }} {{ missing is defined }} {{ d.missing is undefined }} {{ missing == other }} {{ missing == none }} {{ missing | length }} {{ missing | list }} {{ [missing] }}")
case("undefined in conditions", "{% if missing %}A{% elif not missing %}B{% endif %}{% for x in missing %}C{% else %}D{% endfor %}{{ missing and 1 }}")
case("attribute of undefined", "{{ missing.foo }}", fails=True)
case("item of undefined", "{{ missing['foo'] }}", fails=True)
case("call of undefined", "{{ missing() }}", fails=True)
case("undefined plus", "{{ missing + 'x' }}", fails=True)
case("plus undefined", "{{ 'x' + missing }}", fails=True)
case("undefined less", "{{ missing < 1 }}", fails=True)
case("undefined to int", "{{ missing | int }}", fails=True)
case("undefined to json", "{{ missing | tojson }}", fails=True)
case("negative undefined", "{{ -missing }}", fails=True)
case("call a string", "{{ s() }}", fails=True)
case("missing method", "{{ s.nope() }}", fails=True)
case("method of none", "{{ nothing.strip() }}", fails=True)
case("dict method before key", "{{ {'items': 5}.items() | list }} {{ {'items': 5}['items'] }} {{ {'keys': 1, 'x': 2}.x }} {{ {'get': 1}.get('get') }}")

# ---- if, for
case("if chain", "{% for i in range(5) %}{% if i == 0 %}zero{% elif i == 1 %}one{% elif i is even %}even{% else %}odd{% endif %} {% endfor %}")
case("if tuple", "{% if 0, %}yes{% endif %}{% if () %}no{% endif %}")
case("loop variables", "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }} {{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.cycle('a', 'b') }}\n{% endfor %}")
case("loop else", "{% for x in [] %}x{% else %}none{% endfor %} {% for x in xs %}{{ x }}{% else %}none{% endfor %}")
case("loop filter", "{% for x in xs if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}none{% endfor %}|{% for x in xs if x > 9 %}{{ x }}{% else %}none{% endfor %}")
case("loop unpacking", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for (a, b) in [[1, 2]] %}{{ a + b }}{% endfor %}")
case("unpack too few", "{% for a, b in [[1]] %}{% endfor %}", fails=True)
case("unpack too many", "{% set a, b = 1, 2, 3 %}", fails=True)
case("loop over", "{% for c in 'aé🙂' %}[{{ c }}]{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for x in (1, 2) %}{{ x }}{% endfor %}{% for i in range(3, 0, -1) %}{{ i }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}{% for x in 'a', %}{{ x }}{% endfor %}")
case("loop over int", "{% for x in 5 %}{% endfor %}", fails=True)
case("loop over none", "{% for x in none %}{% endfor %}", fails=True)
case("break and continue", "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}|{% for x in xs %}{% for y in xs %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}")
case("else after break", "{% for x in [1, 2] %}{% break %}{% else %}E{% endfor %}{% for x in [1] %}{% continue %}{% else %}F{% endfor %}{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}G{% endfor %}")
case("break outside", "{% break %}", fails=True)
case("loop scope", "{% set x = 1 %}{% for i in xs %}{% set x = i %}{{ x }}{% endfor %}{{ x }}{% for i in xs %}{% set y = y | default(0) + i %}{{ y }}{% endfor %}[{{ y }}][{{ i }}]")
case("nested loops", "{% for a in [1, 2] %}{% set outer = loop %}{% for b in 'xy' %}{{ outer.index }}.{{ loop.index }}{{ b }} {% endfor %}{{ loop.index }};{% endfor %}")
case("loop changed", "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}")
case("recursive loop", "{% for item in nested recursive %}{{ loop.depth }}:{{ item.n }}{% if item.kids %}({{ loop(item.kids) }}){% endif %};{% endfor %}")
case("recursive loop in lines", "{%- for item in nested recursive %}\n{{ '  ' * loop.depth0 }}- {{ item.n }}\n{%- if item.kids -%}{{ loop(item.kids) | indent }}{%- endif %}\n{%- endfor %}")
case("loop not recursive", "{% for x in [1] %}{{ loop([2]) }}{% endfor %}", fails=True)
case("loop named loop", "{% for loop in xs %}{% endfor %}", fails=True)
case("loop in condition", "{% for x in xs if loop is not defined %}{{ x }}{% endfor %}")
case("namespace in loop filter", "{% set ns = namespace(seen=[]) %}{% for x in [1, 2, 1, 3, 2] if x not in ns.seen %}{{ x }}{% endfor %}")

# ---- set, scopes, namespaces, with
case("set", "{% set a = 1 %}{% set b, c = 2, [3] %}{% set (e, f) = 'xy' %}{{ a }}{{ b }}{{ c }}{{ e }}{{ f }}{% set t = 1, 2 %}{{ t }}{% set a = a + 1 %}{{ a }}")
case("set block", "{% set x %}\n  body {{ n }}\n{% endset %}[{{ x }}]{% set y | upper | trim %}  abc {% endset %}[{{ y }}]{{ x is string }}{% set z | replace('a', 'b') %}aa{% endset %}{{ z }}")
case("set in if", "{% if yes %}{% set v = 'in' %}{% endif %}{{ v }}{% if no %}{% set w = 1 %}{% endif %}[{{ w }}]")
case("set shadows input", "{% set messages = messages[1:] %}{{ messages | length }}{% set s = s | upper %}{{ s }}")
case("namespace", "{% set ns = namespace(n=0, found=false) %}{% for x in xs %}{% set ns.n = ns.n + x %}{% if x == 1 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.n }} {{ ns.found }} [{{ ns.other }}] {{ ns['n'] }} {% set ns.a, ns.b = 1, 2 %}{{ ns.a + ns.b }} {{ ns is mapping }} {{ namespace({'k': 'v'}, j=1).k }}")
case("namespace prints", "{{ namespace(a=1, b='x') }}")
case("namespace block", "{% set ns = namespace() %}{% set ns.text %}hello{% endset %}{{ ns.text }}")
case("set attribute of dict", "{% set d.x = 1 %}", fails=True)
case("set attribute of missing", "{% set nope.x = 1 %}", fails=True)
case("namespace underscore", "{% set ns = namespace() %}{% set ns._x = 1 %}", fails=True)
case("set item", "{% set xs[0] = 1 %}", fails=True)
case("assign constant", "{% set true = 1 %}", fails=True)
case("with", "{% with a = 1, b = n %}{{ a }}{{ b }}{% set c = 3 %}{{ c }}{% endwith %}[{{ a }}{{ c }}]{% with %}x{% endwith %}{% set q = 1 %}{% with q = 2, r = q %}{{ q }}{{ r }}{% endwith %}{{ q }}")
case("filter block", "{% filter upper | replace('B', '-') %}abc {{ s }}{% endfilter %} {% filter indent(2) %}\nx\ny\n{% endfilter %}")
case("generation block", "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% set z = 1 %}{% endgeneration %}[{{ z }}]{% endif %}{% endfor %}")
case("generation trims", "a\n  {% generation %}\n  b\n  {%- endgeneration %}\nc")
case("block", "{% block title %}T{{ n }}{% endblock %}{% block x scoped %}y{% endblock x %}")
case("print tag", "{% print 1, 'a' %}{% print n %}")
case("autoescape off", "{% autoescape false %}<{{ '<' }}{% endautoescape %}")
case("do tag", "{% do xs.append(1) %}", fails=True)

# ---- macros and calls
case("macro", "{% macro m(a, b='B', c=none) %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 2) }} {{ m(1, c=3) }} {{ m(b='x', a='y') }} {{ m() }} {{ m(1, 2, 3) | upper }}")
case("macro white space", "{%- macro m(x) -%}\n  [{{ x }}]\n{%- endmacro -%}\n{{ m(1) }}{{ m('a') ~ m('b') }}")
case("macro too many", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", fails=True)
case("macro unknown keyword", "{% macro m(a) %}{% endmacro %}{{ m(b=1) }}", fails=True)
case("macro default order", "{% macro m(a=1, b) %}{% endmacro %}", fails=True)
case("macro varargs", "{% macro m(a) %}{{ a }}|{{ varargs }}|{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k='v') }} {{ m(1) }}")
case("macro default uses parameter", "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}")
case("macro sees globals", "{% set g = 'G' %}{% macro m() %}{{ g }}{{ n }}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}")
case("macro does not leak", "{% macro m() %}{% set inner = 1 %}{{ inner }}{% endmacro %}{{ m() }}[{{ inner }}]")
case("macro recursion", "{% macro fact(i) %}{% if i <= 1 %}1{% else %}{{ i * fact(i - 1) | int }}{% endif %}{% endmacro %}{{ fact(10) }}")
case("macro calls macro", "{% macro a(x) %}<{{ b(x) }}>{% endmacro %}{% macro b(x) %}({{ x }}){% endmacro %}{{ a(1) }}")
case("macro in loop", "{% for x in xs %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}")
case("macro result is string", "{% macro m() %}5{% endmacro %}{{ m() is string }} {{ m() + '1' }} {{ m() | int + 1 }} {{ m is callable }} {{ m.name }}")
case("macro infinite recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", fails=True)
case("call block", "{% macro box(t) %}[{{ t }}: {{ caller() }}]{% endmacro %}{% call box('T') %}body {{ n }}{% endcall %}")
case("call with arguments", "{% macro each(l) %}{% for x in l %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}{% call(v, i) each(xs) %}{{ i }}={{ v }}{% endcall %}")
case("call with default", "{% macro m() %}{{ caller() }}{{ caller(5) }}{% endmacro %}{% call(x=1) m() %}<{{ x }}>{% endcall %}")
case("caller missing", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", fails=True)
case("caller checked", "{% macro m() %}{% if caller %}C{{ caller() }}{% else %}none{% endif %}{% endmacro %}{{ m() }} {% call m() %}x{% endcall %}")
case("call without use", "{% macro m() %}{% endmacro %}{% call m() %}x{% endcall %}", fails=True)
case("star arguments", "{% macro m(a, b, c=0) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*[1, 2]) }} {{ m(1, *[2, 3]) }} {{ m(**{'a': 1, 'b': 2}) }} {{ m(*[1], **{'b': 5}) }}")

# ---- filters on strings
case("case filters", "{{ s | upper }} {{ s | lower }} {{ 'hELLO wORLD' | capitalize }} {{ 'hello wORLD-foo (bar) it\\'s x_y 3rd' | title }} {{ uni | upper }} {{ uni | lower }} {{ uni | title }} {{ 5 | upper }} {{ none | lower }}")
case("trim filters", "[{{ '  a b \\n' | trim }}] [{{ 'xxaxx' | trim('x') }}] [{{ '\\u00a0 \\u2003a\\u3000' | trim }}] [{{ 5 | trim }}] [{{ 'abcba' | trim('ab') }}] [{{ '' | trim }}]")
case("replace", "{{ 'aaa' | replace('a', 'b') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'abc' | replace('', '-') }} {{ 'ab' | replace('x', 'y') }} {{ 121 | replace(1, 'x') }} {{ 'aXbX' | replace('X', '') }} {{ 'aaaa' | replace('aa', 'b') }}")
case("join", "{{ xs | join }} {{ xs | join(', ') }} {{ people | join('|', attribute='name') }} {{ [] | join('x') }} {{ [none, true, 1.0] | join('/') }} {{ 'abc' | join('-') }} {{ d | join(',') }} {{ [1, [2]] | join(0) }}")
case("indent", "{{ text | indent }}|{{ text | indent(2, true) }}|{{ text | indent(1, blank=true) }}|{{ text | indent('> ', first=true) }}|{{ '' | indent }}|{{ 'a\\n' | indent }}|")
case("indent of number", "{{ 5 | indent }}", fails=True)
case("truncate", "{{ 'abc def ghi jkl' | truncate(9) }} {{ 'abc def ghi jkl' | truncate(9, true) }} {{ 'abc def' | truncate(5) }} {{ 'abc def ghi jkl' | truncate(9, leeway=0) }} {{ 'abc def ghi jkl' | truncate(9, false, '', 0) }} {{ 'abcdefghijklm' | truncate(6, leeway=0, end='~') }}")
case("center and wordcount", "[{{ 'ab' | center(7) }}] [{{ 'ab' | center(1) }}] {{ 'it is 3 o\\'clock, ok_x é' | wordcount }} [{{ 'abc' | center(6) }}]")
case("format filter", "{{ '%s and %s' | format('a', 1) }} {{ '%05.2f|%-5d|%+d|%x|%X|%o|%e|%g|%%|%5s|%-5s|' | format(3.14159, 42, 7, 255, 255, 8, 12345.678, 0.0001, 'ab', 'cd') }} {{ '%(a)s-%(b)d' | format(a='x', b=3) }} {{ '%r %s' | format('q', [1]) }} {{ '%c%c' | format('x', 65) }} {{ '%.2s|%6.1f|%03d|% d|%#x' | format('abc', 2.25, 5, 5, 255) }}")
case("percent operator", "{{ 'a%sb' % 'x' }} {{ '%s-%s' % (1, 2) }} {{ '%(k)s' % {'k': 'v'} }} {{ '%d%%' % 50 }} {{ '%s' % [1, 2] }} {{ '%s' % none }} {{ '%*d' % (5, 3) }}")
case("percent too few", "{{ '%s %s' % 'x' }}", fails=True)
case("percent too many", "{{ '%s' % (1, 2) }}", fails=True)
case("percent d of string", "{{ '%d' % 'x' }}", fails=True)
case("escape and safe", "{{ '<a href=\"x\">&\\'</a>' | e }} {{ '<' | escape | upper }} {{ '<b>' | safe }} {{ ('<b>' | safe) + '<i>' }} {{ '<i>' + ('<b>' | safe) }} {{ ('<' | e) ~ '<' }} {{ '<' | e | e }} {{ '<' | forceescape }} {{ '<' | e | replace('&', 'x') }} {{ 5 | e }} {{ ['<' | e] }} {{ '<' is escaped }} {{ '<' | safe is escaped }}")
case("markup in json", "{{ {'a': '<' | e} | tojson }} {{ ([1, '<'] | tojson | safe) + '' }}")
case("string filter", "{{ 5 | string + 'x' }} {{ none | string }} {{ [1, 'a'] | string | length }} {{ 1.0 | string }} {{ true | string | upper }}")
case("urlencode", "{{ 'a b/c?d=é&~-_.' | urlencode }} {{ {'a b': 'c&d', 'e': 1} | urlencode }} {{ [('x', 'y/z')] | urlencode }} {{ 5 | urlencode }}")
case("reverse string", "{{ 'aé🙂' | reverse }} {{ xs | reverse | list }} {{ xs | reverse | join }} {{ (1, 2) | reverse | list }}")

# ---- filters on numbers
case("int filter", "{{ '42' | int }} {{ ' -7 ' | int }} {{ '3.9' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ 3.99 | int }} {{ -3.99 | int }} {{ none | int }} {{ true | int }} {{ '0x1F' | int(base=16) }} {{ '101' | int(0, 2) }} {{ '1_000' | int }} {{ '1e3' | int }} {{ [] | int(9) }} {{ 'inf' | int(1) }} {{ '٣' | int(8) is number }}")
case("float filter", "{{ '1.5' | float }} {{ 'x' | float }} {{ 'x' | float(2) }} {{ 3 | float }} {{ '1e2' | float }} {{ ' 7 ' | float }} {{ none | float }} {{ 'inf' | float }} {{ '-Infinity' | float }} {{ 'nan' | float }} {{ '1_0.5' | float }} {{ '.5' | float }} {{ '5.' | float }}")
case("round", "{{ 2.5 | round }} {{ 3.5 | round }} {{ -2.5 | round }} {{ 2.675 | round(2) }} {{ 42.55 | round(1, 'floor') }} {{ 42.51 | round(1, 'ceil') }} {{ 7 | round }} {{ 1234 | round(-2) }} {{ 1234.5 | round(-2) }} {{ 42.7 | round | int }} {{ 7 | round(1, 'ceil') }} {{ 15 | round(-1) }} {{ 25 | round(-1) }}")
case("abs and sum", "{{ -3 | abs }} {{ -3.5 | abs }} {{ xs | sum }} {{ people | sum(attribute='age') }} {{ [] | sum }} {{ [1.5, 2] | sum(start=10) }} {{ [[1], [2]] | sum(start=[]) }}")
case("abs of string", "{{ 'a' | abs }}", fails=True)
case("min and max", "{{ xs | min }} {{ xs | max }} {{ names | min }} {{ names | max }} {{ names | max(case_sensitive=true) }} {{ people | max(attribute='age') }} [{{ [] | max }}] {{ 'hello' | max }}")

# ---- filters on lists and dicts
case("length", "{{ xs | length }} {{ s | count }} {{ uni | length }} {{ d | length }} {{ () | length }} {{ range(5) | length }} {{ d.items() | length }} {{ d.keys() | count }}")
case("length of int", "{{ 5 | length }}", fails=True)
case("length of generator", "{{ xs | map('string') | length }}", fails=True)
case("first and last", "{{ xs | first }} {{ xs | last }} {{ 'é🙂' | first }} {{ s | last }} [{{ [] | first }}] [{{ [] | last }}] {{ d | first }} {{ d | last }} {{ xs | map('string') | first }} {{ range(3) | last }}")
case("list", "{{ 'abc' | list }} {{ d | list }} {{ (1, 2) | list }} {{ range(3) | list }} {{ d.items() | list }} {{ d.values() | list }} {{ xs | list }}")
case("sort", "{{ xs | sort }} {{ xs | sort(reverse=true) }} {{ names | sort }} {{ names | sort(case_sensitive=true) }} {{ people | sort(attribute='age') | map(attribute='name') | list }} {{ people | sort(attribute='age,name') | map(attribute='name') | join }} {{ people | sort(true, attribute='city.zip') | map(attribute='name') | join }} {{ 'hello' | sort }} {{ [1.5, 1, true] | sort }}")
case("sort mixed", "{{ [1, 'a'] | sort }}", fails=True)
case("dictsort", "{{ d | dictsort }} {{ d | dictsort(true) }} {{ {'a': 2, 'b': 1} | dictsort(by='value') }} {{ {'a': 2, 'b': 1} | dictsort(false, 'key', true) }}{% for k, v in d | dictsort %}{{ k }}{% endfor %}")
case("unique", "{{ [1, 2, 1, 3, 2.0] | unique | list }} {{ names | unique | list }} {{ names | unique(case_sensitive=true) | list }} {{ people | unique(attribute='age') | map(attribute='name') | join(',') }} {{ 'banana' | unique | join }}")
case("map", "{{ names | map('upper') | list }} {{ people | map(attribute='name') | join(' ') }} {{ people | map(attribute='city.zip') | list }} {{ people | map(attribute='nope', default='-') | list }} {{ xs | map('string') | map('length') | list }} {{ [[1, 2], [3]] | map('first') | list }} {{ names | map('replace', 'a', 'A') | list }} {{ [[1, 2]] | map(attribute=1) | list }} {{ [] | map('upper') | list }}")
case("map unknown filter", "{{ xs | map('nope') | list }}", fails=True)
case("select", "{{ [0, 1, '', 'a', none, []] | select | list }} {{ xs | select('odd') | list }} {{ xs | select('greaterthan', 1) | list }} {{ xs | reject('odd') | list }} {{ [0, 1, ''] | reject | list }} {{ names | select('in', ['bob', 'x']) | list }} {{ [1, 'a', none] | select('string') | list }} {{ xs | select('>=', 2) | list }}")
case("selectattr", "{{ people | selectattr('age', 'equalto', 31) | map(attribute='name') | list }} {{ messages | selectattr('role', '==', 'user') | list | length }} {{ people | rejectattr('age', 'gt', 30) | map(attribute='name') | list }} {{ people | selectattr('nope') | list }} {{ people | selectattr('nope', 'undefined') | list | length }} {{ people | selectattr('city.zip', 'lt', 6) | map(attribute='name') | join(',') }} {{ messages | rejectattr('role', 'in', ['user']) | map(attribute='role') | join(',') }}")
case("generators are true", "{% if xs | select('>', 100) %}T{% else %}F{% endif %}{% if xs | select('>', 100) | list %}T{% else %}F{% endif %}{{ (xs | select('odd'))[0] is defined }}")
case("generators run once", "{% set g = xs | map('string') %}{{ g | join(',') }}|{{ g | join(',') }}|{% set h = xs | select %}{{ h | first }}{{ h | first }}{% for x in h %}<{{ x }}>{% endfor %}")
case("groupby", "{% for age, group in people | groupby('age') %}{{ age }}: {{ group | map(attribute='name') | join(',') }}; {% endfor %}{% for g in people | groupby('city.zip') %}{{ g.grouper }}={{ g.list | length }} {% endfor %}{{ names | groupby(0) | map('first') | list }} {{ [{'a': 1}, {}] | groupby('a', default=0) }}")
case("batch and slice", "{{ range(7) | batch(3) | list }} {{ range(7) | batch(3, 'x') | list }} {{ range(7) | slice(3) | list }} {{ range(7) | slice(3, 'x') | list }} {{ [] | batch(2) | list }} {{ xs | slice(5) | list }}")
case("default", "{{ missing | default }}| {{ missing | d('x') }} {{ '' | default('e') }}| {{ '' | default('e', true) }} {{ none | default('n') }} {{ none | default('n', boolean=true) }} {{ 0 | d(1, true) }} {{ d.nope | default({}) }} {{ missing | default(default_value='z') }}")
case("items filter", "{{ d | items | list }} {{ missing | items | list }}{% for k, v in {'a': 1} | items %}{{ k }}{{ v }}{% endfor %}")
case("items of list", "{{ xs | items | list }}", fails=True)
case("attr filter", "{{ s | attr('upper') is callable }} [{{ d | attr('b') }}] {{ namespace(x=1) | attr('x') }}")
case("tojson", "{{ d | tojson }} {{ 'é<>&\"\\'\\n\\t\\\\/\\u0001\\x7f' | tojson }} {{ [1, 1.0, 1e20, none, true, [], {}, ()] | tojson }} {{ (1, 'a') | tojson }} {{ {1: 'a', none: 'b', true: 'c', 1.5: 'd'} | tojson }} {{ s | tojson }} {{ 5 | tojson }}")
case("tojson options", "{{ d | tojson(indent=2) }}\n{{ [] | tojson(indent=2) }} {{ {'a': {}} | tojson(indent=1) }} {{ 'é🙂\\x7f' | tojson(ensure_ascii=true) }} {{ d | tojson(separators=(',', ':')) }} {{ {'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true) }} {{ [1, [2]] | tojson(indent='\\t') }} {{ [1, 2] | tojson(indent=0) }} {{ [1, 2] | tojson(indent=4, separators=(', ', ' : ')) }} {{ {'a': 1} | tojson(true, 2) }}")
case("tojson of tools", "{% for t in tools %}{{ t | tojson(indent=4) }}\n{% endfor %}{{ tools | tojson }}", conversation="tools")
case("tojson of range", "{{ range(3) | tojson }}", fails=True)
case("tojson of tuple key", "{{ {(1, 2): 3} | tojson }}", fails=True)
case("unknown filter", "{{ s | nope }}", fails=True)
case("unknown filter not reached", "{% if no %}{{ s | nope }}{% endif %}ok{% if no %}{{ s is nope }}{% endif %}")
case("filter wrong argument", "{{ s | upper(1) }}", fails=True)
case("filter missing argument", "{{ s | replace('a') }}", fails=True)

# ---- methods
case("strip methods", "[{{ '  a '.strip() }}] [{{ '  a '.lstrip() }}] [{{ '  a '.rstrip() }}] [{{ 'xyaxy'.strip('xy') }}] [{{ '\\n\\na\\n'.lstrip('\\n') }}] [{{ 'a'.strip(none) }}]")
case("split methods", "{{ 'a b  c '.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a b c '.split(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b c '.rsplit(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a<>b<>c'.split('<>') }} {{ 'abc'.split('x') }} {{ 'a b'.split(maxsplit=0) }} {{ 'a\\nb\\r\\nc\\n'.splitlines() }} {{ 'a\\nb'.splitlines(true) }} {{ '</think>x</think>y'.split('</think>')[-1] }}")
case("split empty separator", "{{ 'abc'.split('') }}", fails=True)
case("search methods", "{{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ s.index('W') }} {{ s.count('l') }} {{ 'aaaa'.count('aa') }} {{ uni.find('ß') }} {{ s.find('o', 5) }} {{ s.find('o', 0, 3) }} {{ s.count('') }} {{ s.rindex('l') }} {{ 'é🙂x'.find('x') }} {{ s.find('') }} {{ s.rfind('') }}")
case("index not found", "{{ s.index('zz') }}", fails=True)
case("starts and ends", "{{ s.startswith('Hell') }} {{ s.endswith('ld') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith(('x',)) }} {{ s.startswith('World', 7) }} {{ ''.startswith('') }} {{ s.startswith('') }}")
case("case methods", "{{ s.upper() }} {{ s.lower() }} {{ 'heLLO wo'.capitalize() }} {{ \"they're bill's x3y\".title() }} {{ 'aBc'.swapcase() }} {{ 'ß'.upper() }} {{ 'ﬁx'.capitalize() }} {{ 'ΑΣ ΣΑΣ'.lower() }} {{ 'ǆ'.title() }} {{ 'éÀ'.upper() }}")
case("replace and affixes", "{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ 'abc'.replace('', '.') }} {{ s.removeprefix('Hello') }} {{ s.removesuffix('World') }} {{ s.removeprefix('x') }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }}")
case("join and format methods", "{{ ', '.join(['a', 'b']) }} {{ ''.join(d) }} {{ '{} {}'.format(1, 'a') }} {{ '{1}{0}{x}'.format('a', 'b', x='c') }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}|{:05d}|{:.2f}|{:,}|{:x}|{:%}|{!r}|{:+}'.format('a', 'b', 'c', 'd', 42, 3.14159, 1234567, 255, 0.5, 'q', 5) }} {{ '{{}} {a.name} {b[0]} {c[k]}'.format(a=people[0], b=xs, c={'k': 'v'}) }} {{ '{:{}}|'.format('a', 4) }} {{ '{0:.3}'.format('abcdef') }} {{ '{:e} {:g} {:.1%} {:b} {:o} {:#x} {:c}'.format(12345.678, 0.00001, 0.123, 5, 8, 255, 65) if no else '' }}{{ '{}'.format(none) }} {{ '{:,.2f} {:_}'.format(1234567.891, 1000000) }} {{ '{:>8.2f}|{:<8}|{:^8}|{:=+8}'.format(1.5, 1.5, 2, 3) }}")
case("join of numbers", "{{ ','.join([1, 2]) }}", fails=True)
case("format missing", "{{ '{} {}'.format(1) }}", fails=True)
case("padding methods", "[{{ 'ab'.ljust(5) }}] [{{ 'ab'.rjust(5, '*') }}] [{{ 'ab'.center(7, '-') }}] {{ '42'.zfill(5) }} {{ '-42'.zfill(5) }} [{{ 'abc'.center(6) }}] [{{ 'é'.ljust(3, '🙂') }}]")
case("is methods", "{{ 'abc'.isalpha() }} {{ 'a1'.isalnum() }} {{ '12'.isdigit() }} {{ ''.isdigit() }} {{ ' \\n'.isspace() }} {{ 'ABC1'.isupper() }} {{ 'abc'.islower() }} {{ '1'.isupper() }} {{ 'é'.isalpha() }} {{ 'abc'.isascii() }} {{ 'a_1'.isidentifier() }} {{ '½'.isnumeric() }} {{ 'aB'.islower() }}")
case("dict methods", "{{ d.keys() | list }} {{ d.values() | list }} {{ d.items() | list }} {{ d.get('b') }} {{ d.get('zz') }} {{ d.get('zz', 'dflt') }} {{ d.keys() }} {{ {'a': 1}.items() }} {{ {'a': 1}.values() }} {{ d.copy() == d }} {{ 'b' in d.keys() }} {{ ('b', 1) in d.items() }}")
case("list methods", "{{ xs.index(1) }} {{ xs.count(3) }} {{ (1, 2, 1).count(1) }} {{ (1, 2).index(2) }}")
case("append refused", "{% set l = [] %}{{ l.append(1) }}", fails=True)
case("update refused", "{% set x = d.update({'z': 1}) %}", fails=True)
case("pop refused", "{{ d.pop('b') }}", fails=True)
case("mutating attribute prints nothing", "[{{ xs.append }}] {{ xs.append is defined }} {{ d.update is undefined }}")
case("underscore attributes", "[{{ s.__class__ }}] {{ s.__class__ is defined }} {{ {'_x': 1}._x }} {{ {'__y': 2}['__y'] }}")
case("underscore chain refused", "{{ s.__class__.__mro__ }}", fails=True)

# ---- tests
case("type tests", "{% for v in [1, 1.5, true, 'a', [], {}, (), none, missing, range(2)] %}{{ v is number }}{{ v is integer }}{{ v is float }}{{ v is boolean }}{{ v is string }}{{ v is sequence }}{{ v is mapping }}{{ v is iterable }}{{ v is none }}{{ v is defined }}{{ v is callable }}\n{% endfor %}")
case("value tests", "{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is true }} {{ true is true }} {{ no is false }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 1 is eq 1 }} {{ 1 is ne 2 }} {{ 2 is gt 1 }} {{ 1 is lt(2) }} {{ 1 is ge 1 }} {{ 1 is le 0 }} {{ 1 is equalto 1 }} {{ 1 is in [1, 2] }} {{ 'a' is in('abc') }} {{ none is sameas none }} {{ 1 is sameas true }} {{ range is callable }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ 'zz' is filter }}")
case("negated tests", "{{ 1 is not none }} {{ missing is not defined }} {{ not missing is defined }} {{ 's' is not string or 1 is number }} {{ 3 is not divisibleby 2 and yes }} {{ s is defined and s is string }} {{ 4 is not odd }}")
case("test in filter chain", "{{ xs | length is odd }} {{ s | lower is lower }} {{ s is string | string }}")
case("unknown test", "{{ 1 is nope }}", fails=True)
case("odd of string", "{{ 'a' is odd }}", fails=True)

# ---- globals
case("range", "{{ range(4) | list }} {{ range(1, 4) | list }} {{ range(10, 0, -3) | list }} {{ range(3) }} {{ range(1, 9, 2) }} {{ range(0) | list }} {{ range(5)[2] }} {{ 3 in range(5) }} {{ range(3) | sum }}")
case("range too large", "{{ range(1000000) | length }}", fails=True)
case("range zero step", "{{ range(1, 2, 0) }}", fails=True)
case("dict function", "{{ dict(a=1, b='x') }} {{ dict({'k': 1}, z=2) }} {{ dict([('p', 1), ('q', 2)]) }} {{ dict() }}")
case("cycler and joiner", "{% set c = cycler('a', 'b', 'c') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}{% set j = joiner(' | ') %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}{% set k = joiner() %}{{ k() }}{{ k() }}")
case("strftime", "{{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%A, %B %-d, %Y') }} {{ strftime_now('%j %a %p %y %I %%') }} {{ strftime_now('%F %T %e|') }} {{ strftime_now('no') }}")
case("raise exception", "a{{ raise_exception('no: ' ~ n) }}b", fails=True)
case("raise not reached", "{% if no %}{{ raise_exception('x') }}{% endif %}fine")
case("context variables", "{{ bos_token }}{{ eos_token }} {{ add_generation_prompt }} {{ tools }} {{ documents }} {{ tools is none }} {{ documents is defined }} {{ messages | length }}")
case("items variable", "{{ items }} {{ items | upper }}")
