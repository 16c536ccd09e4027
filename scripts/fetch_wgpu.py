#!/usr/bin/env python3
"""Fetch wgpu-native and its headers out of the Python wheel `wgpu`. usage: fetch_wgpu.py VERSION FOLDER

pip downloads the wheel from wherever it is set up to; the hashes below are those that the index lists for 0.32.0.
"""
import glob, hashlib, os, platform, shutil, subprocess, sys, tempfile, zipfile

HASHES = {
    "wgpu-0.32.0-py3-none-manylinux_2_28_x86_64.whl": "6499a31b5a29a10b4f1089fea4a0806411f42605fa86b6c0b543a07ca0de8568",
    "wgpu-0.32.0-py3-none-manylinux_2_28_aarch64.whl": "00454ba1bc794d38c8365f4ad29f381b88ce0a7f115133bfaa6f1dfad7eb2764",
    "wgpu-0.32.0-py3-none-macosx_11_0_arm64.whl": "6c3f654ea01ab2de8a2903354ced02a3c6ef161d0fba1aa4fea60aa86d021908",
    "wgpu-0.32.0-py3-none-macosx_10_9_x86_64.whl": "cfd3967616a3c42e2b7a234407df38668c697f5aa505d56e0814d647b6746302",
    "wgpu-0.32.0-py3-none-win_amd64.whl": "493c8a0425c7d3cc728a2489bce40d1a016d800306e59763ff1b21e176e66323",
    "wgpu-0.32.0-py3-none-win_arm64.whl": "cb0414107825bd94538220cf3f329c83697b99b8e39c6e16e4e6726e427de75c",
}


def main():
    version, folder = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
                        "--disable-pip-version-check", "-d", work, f"wgpu=={version}"], check=True)
        wheel = glob.glob(work + "/*.whl")[0]
        with open(wheel, "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()
        expected = HASHES.get(os.path.basename(wheel))
        if digest != expected:
            sys.exit(f"fetch_wgpu: {os.path.basename(wheel)} has sha256 {digest}, expected {expected or 'none: an unknown file'}: refused")
        os.makedirs(folder + "/include", exist_ok=True)
        os.makedirs(folder + "/lib", exist_ok=True)
        suffix = {"Darwin": "dylib", "Windows": "dll"}.get(platform.system(), "so")
        with zipfile.ZipFile(wheel) as z:
            for name in z.namelist():
                base = os.path.basename(name)
                if "/resources/" not in name:
                    continue
                if base in ("webgpu.h", "wgpu.h"):
                    target = f"{folder}/include/{base}"
                elif base.endswith("." + suffix) and "wgpu_native" in base:
                    target = f"{folder}/lib/{'' if suffix == 'dll' else 'lib'}wgpu_native.{suffix}"
                else:
                    continue
                with z.open(name) as source, open(target, "wb") as out:
                    shutil.copyfileobj(source, out)
    open(folder + "/.complete", "w").close()


main()
