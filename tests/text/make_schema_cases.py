#!/usr/bin/env python3
"""Writes tests/data/grammar/schemas.json: JSON schemas, and texts that a grammar made from each must accept or refuse.

Python's jsonschema decides what is valid; a case that it judges differently stops the script. `accept` texts must be
readable with the grammar, `reject` texts must not. (A grammar may refuse valid texts, such as properties in another order;
those are in `reject_though_valid`.)

  python3 tests/text/make_schema_cases.py                 # writes the file (pip install jsonschema[format])
  python3 tests/text/make_schema_cases.py --check FILE    # validates what the test wrote with GULL_SCHEMA_WALKS=FILE
"""
import json
import sys
from pathlib import Path

import jsonschema

OUT = Path(__file__).parent.parent / "data" / "grammar" / "schemas.json"
CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER

NESTED = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1, "maximum": 99999},
        "kind": {"enum": ["order", "refund", "Größe \"x\""]},
        "customer": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 12},
                "email": {"type": ["string", "null"]},
                "address": {"$ref": "#/$defs/address"},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        "lines": {
            "type": "array",
            "minItems": 1,
            "maxItems": 4,
            "items": {
                "type": "object",
                "properties": {
                    "sku": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{1,3}$"},
                    "count": {"type": "integer", "exclusiveMinimum": 0, "maximum": 12},
                    "price": {"type": "number", "minimum": 0, "maximum": 1000},
                    "tags": {"type": "array", "items": {"enum": ["a", "b", 3, None]}, "maxItems": 3},
                },
                "required": ["sku", "count"],
            },
        },
        "note": {"type": "string"},
        "paid": {"type": "boolean"},
        "related": {"type": "array", "items": {"$ref": "#"}, "maxItems": 1},
    },
    "required": ["id", "kind", "lines"],
    "additionalProperties": False,
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string", "maxLength": 8}, "zip": {"type": "string", "pattern": "^\\d{4,5}$"}, "geo": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "items": False, "minItems": 2}},
            "required": ["zip"],
        }
    },
}

CASES = [
    ("nested", NESTED,
     ['{"id":7,"kind":"order","lines":[{"sku":"AB-1","count":2}]}',
      '{"id": 7, "kind": "Größe \\"x\\"", "customer": {"name": "Zoë", "email": null, "address": {"street": "a", "zip": "12345", "geo": [1.5, -2]}}, "lines": [{"sku": "AB-123", "count": 12, "price": 999.99, "tags": ["a", 3, null]}], "paid": true}',
      '{"id":1,"kind":"refund","lines":[{"sku":"AB-1","count":2}],"related":[{"id":2,"kind":"order","lines":[{"sku":"AB-1","count":1}]}]}'],
     ['{"id":0,"kind":"order","lines":[{"sku":"AB-1","count":2}]}', '{"id":7,"kind":"order","lines":[]}', '{"id":7,"kind":"other","lines":[{"sku":"AB-1","count":2}]}',
      '{"id":7,"kind":"order","lines":[{"sku":"ab-1","count":2}]}', '{"id":7,"kind":"order","lines":[{"sku":"AB-1","count":13}]}', '{"kind":"order","lines":[{"sku":"AB-1","count":2}]}',
      '{"id":7,"kind":"order","lines":[{"sku":"AB-1","count":2}],"more":1}', '{"id":7,"kind":"order","lines":[{"sku":"AB-1","count":2,"price":1000.5}]}']),
    ("any", True, ["1", "null", '{"a": [1, {"b": "c"}], "d": -1.5e10}', "[]", '"\\u00e9\\n"', "[ ]", "{\n}"], []),
    ("types", {"type": ["integer", "null", "boolean"]}, ["12", "null", "true", "-3"], ["1.5", '"a"', "[]"]),
    ("string lengths", {"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"', '"é🙂"', '"\\n\\u00e9x"'], ['"a"', '"abcd"', '"🙂"', '"\\n"']),
    ("integer ranges", {"type": "integer", "minimum": -15, "maximum": 120}, ["-15", "-9", "0", "5", "19", "99", "100", "119", "120"], ["-16", "-20", "121", "130", "1000", "-100"]),
    ("integer from", {"type": "integer", "minimum": 1234}, ["1234", "1235", "1300", "9999", "10000", "99999999"], ["1233", "999", "0", "-5000"]),
    ("integer to", {"type": "integer", "exclusiveMaximum": -7}, ["-8", "-10", "-99", "-12345"], ["-7", "-6", "0", "8"]),
    ("integer rounded bounds", {"type": "integer", "minimum": 1.5, "maximum": 3.9}, ["2", "3"], ["1", "4"]),
    ("integer exclusive fraction", {"type": "integer", "exclusiveMinimum": 1.5, "exclusiveMaximum": 4.0}, ["2", "3"], ["1", "4"]),
    ("number ranges", {"type": "number", "minimum": -1, "exclusiveMaximum": 2}, ["-1", "-0.5", "0", "1.999", "1", "-1.0"], ["-1.01", "2", "2.0", "2.5", "-2"]),
    ("number positive", {"type": "number", "exclusiveMinimum": 0}, ["0.001", "1", "12.5", "1000000"], ["0", "0.0", "-1", "-0.5"]),
    ("number negative", {"type": "number", "maximum": 0}, ["0", "-0.5", "-100.25"], ["0.5", "1"]),
    ("number point", {"type": "number", "minimum": 3, "maximum": 3}, ["3", "3.0"], ["3.1", "2.9", "4"]),
    ("number", {"type": "number"}, ["0", "-1.5e10", "1E-5", "123456.789"], ['"1"']),
    ("const", {"const": {"a": [1, "x"]}}, ['{"a":[1,"x"]}'], ['{"a":[1]}', "1"]),
    ("enum typed", {"type": "string", "enum": ["a", 1, "b"]}, ['"a"', '"b"'], ["1", '"c"']),
    ("anyOf", {"anyOf": [{"type": "integer", "maximum": 9, "minimum": 0}, {"type": "string", "maxLength": 1}, {"type": "null"}]}, ["5", '"x"', '""', "null"], ["10", '"xy"', "true"]),
    ("anyOf with base", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "additionalProperties": False, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
     ['{"a":1}', '{"b":1}', '{"a":1,"b":2}'], ["{}"]),
    ("oneOf by const", {"oneOf": [{"type": "object", "properties": {"t": {"const": "x"}, "v": {"type": "integer"}}, "required": ["t", "v"]},
                                  {"type": "object", "properties": {"t": {"const": "y"}, "w": {"type": "string"}}, "required": ["t"]}]},
     ['{"t":"x","v":1}', '{"t":"y"}', '{"t":"y","w":"q"}'], ['{"t":"x"}', '{"t":"z"}', '{"t":"y","w":1}']),
    ("allOf", {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"$ref": "#/$defs/b"}], "$defs": {"b": {"type": "object", "properties": {"b": {"type": "boolean"}, "a": {"maximum": 5}}}}},
     ['{"a":1}', '{"a":5,"b":true}'], ["{}", '{"a":6}', '{"b":true}']),
    ("recursive", {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}},
     ['{"v":1,"next":null}', '{"v":1,"next":{"v":2,"next":{"v":3,"next":null}}}'], ['{"v":1}', '{"v":1,"next":{"v":2}}']),
    ("optional properties", {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "additionalProperties": False},
     ["{}", '{"a":1}', '{"b":2}', '{"c":3}', '{"a":1,"b":2}', '{"a":1,"c":3}', '{"b":2,"c":3}', '{"a":1, "b":2, "c":3}', '{ "b": 2 }'], ['{"a":2}', '{"d":1}']),
    ("required in the middle", {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "required": ["b"], "additionalProperties": False},
     ['{"b":2}', '{"a":1,"b":2}', '{"b":2,"c":3}', '{"a":1,"b":2,"c":3}'], ["{}", '{"a":1}', '{"c":3}']),
    ("additional properties", {"type": "object", "properties": {"ab": {"type": "integer"}, "ac": {"type": "integer"}, "é": {"type": "null"}}, "additionalProperties": {"type": "boolean"}},
     ["{}", '{"ab":1}', '{"ab":1,"x":true}', '{"a":true}', '{"abc":true,"ad":false}', '{"":true}', '{"ac":1,"é":null,"éé":true}'], ['{"ab":true}', '{"x":1}', '{"é":true}', '{"ab":1,"ac":true}']),
    ("free object", {"type": "object"}, ["{}", '{"a":1,"b":{"c":[]}}'], ["[]", "1"]),
    ("closed object", {"type": "object", "properties": {}}, ["{}", "{ }"], ["[]"]),
    ("required without schema", {"type": "object", "required": ["x"], "properties": {"y": {"type": "null"}}}, ['{"x":5}', '{"y":null,"x":[]}'], ["{}", '{"y":null}']),
    ("arrays", {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3}, ["[1,2]", "[1, 2, 3]", "[ 1,2 ]"], ["[]", "[1]", "[1,2,3,4]", '["a",1]']),
    ("array from", {"type": "array", "items": {"type": "integer"}, "minItems": 1}, ["[1]", "[1,2,3,4,5,6,7]"], ["[]"]),
    ("array to", {"type": "array", "items": {"type": "integer"}, "maxItems": 1}, ["[]", "[1]"], ["[1,2]"]),
    ("array of none", {"type": "array", "maxItems": 0}, ["[]", "[ ]"], ["[1]"]),
    ("tuple", {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "null"}, "maxItems": 4}, ["[]", "[1]", '[1,"a"]', '[1,"a",null]', '[1,"a",null,null]'], ['["a"]', "[1,2]", '[1,"a",1]', '[1,"a",null,null,null]']),
    ("tuple closed", {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 1}, ["[1]", '[1,"a"]'], ["[]", '[1,"a",2]']),
    ("pattern", {"type": "string", "pattern": "^(foo|ba[rz])-\\d{2,3}\\.?$"}, ['"foo-12"', '"bar-123."', '"baz-99"'], ['"foo-1"', '"bax-12"', '"foo-12x"', '"xfoo-12"']),
    ("pattern unanchored", {"type": "string", "pattern": "a+b"}, ['"xxaab!"', '"ab"'], ['"a"', '"b"']),
    ("pattern classes", {"type": "string", "pattern": "^[^\"a-z]\\w\\s.[\\]\\\\-]$"}, ['"A_ x]"', '"É9 \\"\\\\"', '"Ab\\t-\\\\"'], ['"a_ x]"', '"A_ x"']),
    ("pattern alternatives", {"type": "string", "pattern": "^a$|^b+$"}, ['"a"', '"bbb"'], ['"ab"', '""', '"aa"']),
    ("pattern with quotes", {"type": "string", "pattern": "^\"\\\\/$"}, ['"\\"\\\\/"'], ['"x"']),
    ("date", {"type": "string", "format": "date"}, ['"2025-02-28"', '"1999-12-01"'], ['"2025-13-01"', '"2025-00-10"', '"25-01-01"', '"2025-02-30"']),
    ("date-time", {"type": "string", "format": "date-time"}, ['"2025-02-28T23:59:59Z"', '"2025-02-28T00:00:00.123+01:30"'], ['"2025-02-28 23:59:59Z"', '"2025-02-28T24:00:00Z"', '"2025-02-28T23:59:59"']),
    ("time", {"type": "string", "format": "time"}, ['"12:34:56Z"'], ['"25:00:00Z"', '"12:34"']),
    ("uuid", {"type": "string", "format": "uuid"}, ['"123e4567-e89b-12d3-a456-426614174000"'], ['"123e4567e89b12d3a456426614174000"', '"x"']),
    ("ipv4", {"type": "string", "format": "ipv4"}, ['"192.168.0.255"', '"1.2.3.4"'], ['"256.1.1.1"', '"1.2.3"', '"01.2.3.4"']),
    ("email", {"type": "string", "format": "email"}, ['"a.b_c@ex-ample.org"'], ['"a"']),
    ("inferred object", {"properties": {"a": {"type": "integer"}}, "required": ["a"]}, ['{"a":1}'], ["{}", '{"a":"x"}']),
    ("nullable reference", {"type": "object", "properties": {"p": {"$ref": "#/$defs/P", "description": "d"}}, "required": ["p"], "$defs": {"P": {"type": "string", "title": "P"}}}, ['{"p":"x"}'], ['{"p":1}']),
    ("reference with sibling", {"$ref": "#/$defs/S", "maxLength": 2, "$defs": {"S": {"type": "string"}}}, ['"ab"'], ['"abc"']),
    ("escaped pointer", {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"const": 1}}}, ["1"], ["2"]),
    ("keys to escape", {"type": "object", "properties": {"a\"b": {"const": 1}, "c\\d\n": {"const": 2}}, "required": ["a\"b", "c\\d\n"]}, ['{"a\\"b":1,"c\\\\d\\n":2}'], ['{"a\\"b":1}']),
    ("annotations", {"type": "string", "title": "t", "description": "d", "default": "x", "examples": ["y"], "x-more": 1, "$comment": "c", "maxLength": 1}, ['"a"'], ['"ab"']),
]

VALID_BUT_REFUSED = [
    ("optional properties", ['{"b":2,"a":1}']),
    ("additional properties", ['{"\\u0061":true}']),   # a name in disguise
    ("integer from", ["123400000000000000000000"]),
]

REFUSED_SCHEMAS = [   # and a word of the message
    ({"type": "array", "uniqueItems": True}, "uniqueItems"),
    ({"type": "object", "patternProperties": {"a": True}}, "patternProperties"),
    ({"not": {"type": "string"}}, "not"),
    ({"if": True, "then": True}, "if"),
    ({"type": "array", "contains": {"const": 1}}, "contains"),
    ({"type": "number", "multipleOf": 0.5}, "multipleOf"),
    ({"type": "number", "minimum": 0.5}, "minimum"),
    ({"type": "string", "pattern": "^(?=a)b$"}, "look-ahead"),
    ({"type": "string", "pattern": "^(a)\\1$"}, "pattern"),
    ({"type": "string", "pattern": "^\\bword$"}, "pattern"),
    ({"type": "string", "pattern": "^a$", "minLength": 3}, "minLength"),
    ({"type": "string", "format": "colour"}, "format"),
    ({"type": "object", "propertyNames": {"maxLength": 3}}, "propertyNames"),
    ({"type": "object", "dependentRequired": {"a": ["b"]}}, "dependentRequired"),
    ({"type": "object", "minProperties": 1}, "minProperties"),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf"),
    ({"$ref": "#/$defs/none"}, "$ref"),
    ({"$ref": "https://example.org/schema"}, "$ref"),
    ({"type": "strin"}, "strin"),
    ({"enum": []}, "enum"),
    ({"type": "integer", "minimum": 5, "maximum": 4}, "minimum"),
    ({"type": "string", "minLength": 5, "maxLength": 4}, "minLength"),
    ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "false"),
    ({"type": "object", "properties": {"self": {"$ref": "#"}}, "required": ["self"]}, "never end"),
    ({"$ref": "#"}, "never end"),
    (False, "false"),
    ({"unknownThing": 1}, "unknownThing"),
    ({"type": "object", "properties": {"deep": {"type": "array", "items": {"nope": 1}}}}, "#/properties/deep/items"),
]


def valid(schema, text):
    validator = jsonschema.Draft202012Validator(schema, format_checker=CHECKER)
    return validator.is_valid(json.loads(text))


def make():
    out, problems = [], 0
    refused = dict(VALID_BUT_REFUSED)
    for name, schema, accept, reject in CASES:
        for texts, wanted in ((accept, True), (reject, False), (refused.get(name, []), True)):
            for text in texts:
                if valid(schema, text) != wanted:
                    problems += 1
                    print(f"{name}: jsonschema finds {text} {'invalid' if wanted else 'valid'}")
        out.append({"name": name, "schema": schema, "accept": accept, "reject": reject, "reject_though_valid": refused.get(name, [])})
    document = {"cases": out, "refused": [{"schema": s, "names": w} for s, w in REFUSED_SCHEMAS]}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    print(len(out), "schemas,", problems, "problems")
    return problems


def check(path):
    schemas = {c["name"]: c["schema"] for c in json.loads(OUT.read_text())["cases"]}
    bad = total = 0
    for line in Path(path).read_text().splitlines():
        walk = json.loads(line)
        total += 1
        if not valid(schemas[walk["name"]], walk["text"]):
            bad += 1
            print("invalid:", walk["name"], walk["text"][:300])
    print(total, "texts,", bad, "invalid")
    return bad


if __name__ == "__main__":
    sys.exit(1 if (check(sys.argv[2]) if "--check" in sys.argv else make()) else 0)
