#!/usr/bin/env python3
"""Fetch the C sources of PCRE2 that the wasm build compiles. usage: fetch_sources.py FOLDER

Debian has it only for its own architectures, so it comes out of the crate that ships its sources, by the ordinary cargo
client, which checks each file; the hash of the crate is checked against the record here.
Licence: BSD-3-Clause WITH PCRE2-exception.
"""
import json, os, shutil, subprocess, sys, tempfile

CRATES = {   # name: (version, sha256 of the crate, folder of the C sources in it, licence files)
    "pcre2-sys": ("0.2.10", "18b9073c1a2549bd409bf4a32c94d903bb1a09bf845bc306ae148897fa0760a4", "upstream", ["COPYING"]),
}


def main():
    folder = sys.argv[1]
    with tempfile.TemporaryDirectory() as work:
        with open(work + "/Cargo.toml", "w") as f:
            f.write('[package]\nname = "sources"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n[dependencies]\n')
            f.writelines(f'{name} = "={crate[0]}"\n' for name, crate in CRATES.items())
        open(work + "/lib.rs", "w").close()
        subprocess.run(["cargo", "vendor", "--quiet", work + "/vendor"], cwd=work, check=True, stdout=subprocess.DEVNULL)
        for name, (version, expected, sources, licences) in CRATES.items():
            crate = f"{work}/vendor/{name}"
            with open(crate + "/.cargo-checksum.json") as f:
                digest = json.load(f)["package"]
            if digest != expected:
                sys.exit(f"fetch_sources: {name} {version} has sha256 {digest}, expected {expected}: refused")
            target = f"{folder}/{name}"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(f"{crate}/{sources}", target)
            for licence in licences:
                shutil.copy(f"{crate}/{licence}", f"{target}/LICENCE-{licence}")
    open(folder + "/.complete", "w").close()


main()
