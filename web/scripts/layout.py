#!/usr/bin/env python3
"""Write what web/lib/webgpu.js must know of webgpu.h as a JavaScript module: no offset or number is typed by hand.
usage: layout.py CLANG WEBGPU_H OUT_JS OUT_SYMBOLS SOURCES.js...

S: byte offsets of each member, and $size, of every struct that the JavaScript sources name (wasm32 layout, as clang
computes it). E: the values of every enumeration and flag set they name, sentinels under "WGPU". N: all WGPULimits members
with 8 bytes. F: the functions that every kind of object has (Release, AddRef, SetLabel). OUT_SYMBOLS lists those that the sources provide, for the
linker: a program that calls another one does not link.
A name that the sources use and the header lacks is an error.
"""
import json, os, re, subprocess, sys


def parse(text):
    text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    structs, enums = {}, {"WGPU": {}}
    for name, body in re.findall(r"typedef struct (WGPU\w+) \{(.*?)\n\} \1", text, re.S):
        structs[name] = re.findall(r"(\w+)\s*;", body)
    for name, body in re.findall(r"typedef enum (WGPU\w+) \{(.*?)\} \1", text, re.S):
        pairs = re.findall(rf"{name}_(\w+) = (0x[0-9A-Fa-f]+)", body)
        enums[name] = {key: int(value, 16) for key, value in pairs if key != "Force32"}
    for name, key, value in re.findall(r"static const (WGPU\w+) \1_(\w+) = (0x[0-9A-Fa-f]+);", text):
        enums.setdefault(name, {})[key] = int(value, 16)
    functions = sorted(set(re.findall(r"\b(wgpu[A-Z]\w+)\(", text)))
    return structs, enums, functions


def layout(clang, header, structs):
    """Lets clang compute sizes and offsets as one constant array, and reads it out of its LLVM listing."""
    items = [(s, "$size", f"sizeof({s})") for s in structs]
    items += [(s, m, f"offsetof({s}, {m})") for s in structs for m in structs[s]]
    items += [("WGPULimits", "#" + m, f"sizeof(((WGPULimits*)0)->{m})") for m in structs.get("WGPULimits", [])]
    program = f'#include "{os.path.abspath(header)}"\nconst unsigned table[] = {{1000000007u, {", ".join(i[2] for i in items)}}};\n'
    listing = subprocess.run([clang, "--target=wasm32-wasi", "-x", "c", "-", "-S", "-emit-llvm", "-o", "-"], input=program,
                             check=True, capture_output=True, text=True).stdout
    values = re.findall(r"i32 (\d+)", re.search(r"@table = .*?\[i32 1000000007, (.*?)\]", listing).group(1))
    assert len(values) == len(items)
    out, wide = {}, []
    for (struct, member, _), value in zip(items, map(int, values)):
        if member[0] == "#":
            if value == 8:
                wide.append(member[1:])
        else:
            out.setdefault(struct, {})[member] = value
    return out, wide


def main():
    clang, header, target, symbols = sys.argv[1:5]
    structs, enums, functions = parse(open(header, encoding="utf-8").read())
    source = "\n".join(open(path, encoding="utf-8").read() for path in sys.argv[5:])
    used_structs = {s: m for s, m in structs.items() if re.search(rf"\bS\.{s}\b", source)}
    offsets, wide = layout(clang, header, used_structs)
    for name, member in re.findall(r"\bS\.(WGPU\w+)(?:\.(\w+))?", source):
        if name not in offsets or (member and member not in offsets[name]):
            sys.exit(f"layout: the sources use {name}.{member}, which {header} does not have")
    used_enums = {e: v for e, v in enums.items() if re.search(rf"\bE\.{e}\b", source)}
    for name, key in re.findall(r"\bE\.(WGPU\w+)(?:\.(\w+))?", source):
        if key and key not in used_enums.get(name, {}):
            sys.exit(f"layout: the sources use {name}_{key}, which {header} does not have")
    generic = re.compile(r"wgpu\w+(Release|AddRef|SetLabel)$")
    provided = [f for f in functions if generic.match(f) or re.search(rf"\b{f}\b", source)]
    with open(symbols, "w", encoding="utf-8") as f:
        f.write("\n".join(provided) + "\n")
    dump = lambda value: json.dumps(value, separators=(",", ":"), sort_keys=True)
    with open(target, "w", encoding="utf-8") as f:
        f.write("// Written by web/scripts/layout.py from webgpu.h: do not edit.\n")
        f.write(f"export const S={dump(offsets)};\nexport const E={dump(used_enums)};\n")
        f.write(f"export const N={dump(wide)};\nexport const F={dump([f for f in functions if generic.match(f)])};\n")


main()
