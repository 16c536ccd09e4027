"""Makes tests/data/compute/cases.{json,bin}: what each operation must give, computed in float64 by NumPy and JAX.

Inputs are not stored: both sides make them from a seed (see values()). Large results are stored at sampled places.
usage: python3 make_cases.py   (needs numpy and jax)
"""
import json
import os

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
from jax import lax  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "data", "compute")
MOST = 700   # values of one result that are stored
rng = np.random.default_rng(20261130)
cases, blob = [], []


def mix(x):
    x = np.asarray(x, dtype=np.uint64)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x ^= x >> np.uint64(shift)
        x = (x * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return x ^ (x >> np.uint64(16))


def values(n, seed, low=-1.0, high=1.0):
    """n values in steps of 1/2048 of [low, high): exact in float16 for the default range."""
    bits = mix((np.arange(n, dtype=np.uint64) + np.uint64(seed * 0x9E3779B9 % 2**32)) & np.uint64(0xFFFFFFFF))
    unit = (bits >> np.uint64(21)).astype(np.float64) / 2048
    return (low + (high - low) * unit).astype(np.float32)


def add(op, params, inputs, result, tolerance, absolute):
    """inputs: {name: (count, seed, low, high) or list of ints}."""
    result = np.asarray(result, dtype=np.float64).ravel()
    n = result.size
    places = None
    if n > MOST:
        places = (mix(np.arange(MOST, dtype=np.uint64)) % np.uint64(n)).astype(np.int64)
    stored = result if places is None else result[places]
    cases.append({"op": op, **params, "inputs": inputs, "size": n, "at": sum(len(b) for b in blob), "count": len(stored),
                  "relative": tolerance, "absolute": absolute})
    blob.append(stored.astype(np.float32))


def made(spec):
    return values(*spec).astype(np.float64)


seed = 0


def new(n, low=-1.0, high=1.0):
    global seed
    seed += 1
    return (int(n), seed, low, high)


def gemm(m, n, k, ta=False, tb=False, alpha=1.0, beta=0.0, lda=0, ldb=0, ldc=0, offsets=(0, 0, 0), batch=1, strides=(None,) * 3, kind="f32"):
    ar, ac = (k, m) if ta else (m, k)
    br, bc = (n, k) if tb else (k, n)
    la, lb, lc = lda or ac, ldb or bc, ldc or n
    sa = ar * la if strides[0] is None else strides[0]
    sb = br * lb if strides[1] is None else strides[1]
    sc = m * lc if strides[2] is None else strides[2]
    size = lambda off, rows, cols, ld, st: off + (batch - 1) * st + (max(rows, 1) - 1) * ld + cols
    a = new(size(offsets[0], ar, ac, la, sa))
    b = new(size(offsets[1], br, bc, lb, sb))
    c = new(size(offsets[2], m, n, lc, sc))
    av, bv, cv = made(a), made(b), made(c)
    at = lambda x, off, rows, cols, ld: np.lib.stride_tricks.as_strided(x[off:], (rows, cols), (ld * 8, 8))
    for z in range(batch):
        A, B = at(av, offsets[0] + z * sa, ar, ac, la), at(bv, offsets[1] + z * sb, br, bc, lb)
        C = at(cv, offsets[2] + z * sc, m, n, lc)
        C[:] = alpha * ((A.T if ta else A) @ (B.T if tb else B)) + (beta * C if beta else 0)
    tol, absolute = (2e-3, 2e-3) if kind == "f16" else (1e-4, 1e-6 + 5e-8 * k)
    p = dict(m=m, n=n, k=k, ta=ta, tb=tb, alpha=alpha, beta=beta, lda=lda, ldb=ldb, ldc=ldc, offsets=offsets, batch=batch, strides=strides, kind=kind)
    add("gemm", p, {"a": a, "b": b, "c": c}, cv, tol, absolute)


for ta in (False, True):
    for tb in (False, True):
        gemm(37, 53, 29, ta, tb)
        gemm(64, 36, 40, ta, tb, alpha=0.5, beta=-2.0)
        gemm(33, 31, 65, ta, tb, alpha=-1.25, beta=0.75, lda=71, ldb=70, ldc=45, offsets=(3, 5, 7))
        gemm(132, 260, 20, ta, tb, beta=1.0, lda=136, ldb=264, ldc=268, offsets=(4, 8, 12))
gemm(1, 1, 1)
gemm(1, 300, 77)
gemm(300, 1, 77, tb=True)
gemm(5, 7, 1000, alpha=2.0)
gemm(129, 127, 130)
gemm(257, 63, 17, ta=True, beta=0.5)
gemm(16, 16, 16, alpha=0.0, beta=3.0)
for t in ((False, False), (True, False), (False, True)):
    gemm(19, 22, 33, *t, batch=5, beta=0.5)
    gemm(20, 24, 32, *t, batch=3, strides=(0, None, 600))
gemm(17, 9, 12, batch=4, strides=(None, 0, None), offsets=(1, 2, 3))
for kind in ("f16", "mixed"):
    for ta in (False, True):
        for tb in (False, True):
            gemm(35, 46, 51, ta, tb, kind=kind)
            gemm(68, 132, 36, ta, tb, alpha=0.25, beta=1.0, kind=kind)
    gemm(21, 33, 40, lda=43, ldb=35, ldc=37, offsets=(1, 3, 5), beta=-1.0, kind=kind)

UNARY = {"relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh, "exp": np.exp, "log": np.log,
         "sqrt": np.sqrt, "abs": np.abs, "neg": np.negative}
for name, f in UNARY.items():
    for n, offset in ((1, 0), (1027, 0), (600, 4), (333, 3)):
        low, high = (0.01, 40.0) if name in ("log", "sqrt") else (-12.0, 12.0)
        x = new(n + offset, low, high)
        add("unary", dict(name=name, n=n, offset=offset), {"x": x}, f(made(x)[offset:]), 2e-5 if name != "exp" else 1e-4, 2e-6)

BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum, "pow": np.power}
SHAPES = [((7, 11), (7, 11)), ((5, 1, 6), (4, 1)), ((3, 4, 5), ()), ((), (9,)), ((2, 3, 4, 5), (3, 1, 5)), ((6, 1), (1, 8)),
          ((2, 1, 3, 1, 2, 1, 3, 2), (1, 2, 1, 3, 1, 2, 1, 1)), ((13,), (13,)), ((300, 4), (4,))]
for i, (sa, sb) in enumerate(SHAPES):
    for name, f in BINARY.items():
        if i > 4 and name not in ("add", "pow"):
            continue
        low = 0.25 if name == "pow" else -3.0
        a, b = new(np.prod(sa, dtype=int), low, 4.0), new(np.prod(sb, dtype=int), -3.0, 3.0)
        with np.errstate(divide="ignore"):
            r = f(made(a).reshape(sa), made(b).reshape(sb))
        add("binary", dict(name=name, a=sa, b=sb), {"a": a, "b": b}, r, 1e-4 if name == "pow" else 1e-6, 1e-6)

REDUCE = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean}
for shape, axes in [((37,), (0,)), ((5, 7), (1,)), ((5, 7), (0,)), ((4, 5, 6), (0, 2)), ((4, 5, 6), (1,)), ((3, 4, 5, 6), (0, 1, 2, 3)), ((2, 3, 4, 5), (1, 3)),
                    ((300, 257), (1,)), ((300, 257), (0,)), ((2, 2, 2, 2, 2, 2, 2, 2), (0, 2, 4, 6)), ((2, 2, 2, 2, 2, 2, 2, 2), (1, 3, 5, 7)), ((70001,), ()),
                    ((3, 9001), (1,)), ((9001, 3), (0,)), ((6, 1, 5), (1,)), ((8, 40, 9), (1,))]:
    for name, f in REDUCE.items():
        x = new(np.prod(shape))
        r = f(made(x).reshape(shape), axis=axes or None)
        add("reduce", dict(name=name, shape=shape, axes=axes), {"x": x}, r, 1e-5, 1e-6 * max(1, np.sqrt(np.prod(shape) / r.size)))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


for shape, axis in [((7,), 0), ((5, 13), 1), ((5, 13), 0), ((3, 300), 1), ((2, 40, 3), 1), ((2, 3, 4), 0), ((4, 1), 1), ((2, 1000), 1), ((70, 9), 0), ((3, 17, 2), 1)]:
    x = new(np.prod(shape), -30.0, 30.0)
    add("softmax", dict(shape=shape, axis=axis), {"x": x}, softmax(made(x).reshape(shape), axis), 2e-5, 1e-7)


def indices(shape, axis_size):
    return rng.integers(-axis_size, axis_size, size=shape)


for shape, axis, count in [((10,), 0, 6), ((7, 5), 0, 9), ((7, 5), 1, 3), ((3, 8, 4), 1, 11), ((20, 33), 0, 50)]:
    x = new(np.prod(shape))
    idx = indices(count, shape[axis])
    add("gather", dict(shape=shape, axis=axis, picks=count, per_element=False), {"x": x, "indices": idx.tolist()},
        np.take(made(x).reshape(shape), idx, axis=axis), 0, 0)
    other = tuple(count if d == axis else s for d, s in enumerate(shape))
    idx2 = indices(other, shape[axis])
    add("gather", dict(shape=shape, axis=axis, picks=count, per_element=True), {"x": x, "indices": idx2.ravel().tolist()},
        np.take_along_axis(made(x).reshape(shape), idx2, axis=axis), 0, 0)
    u = new(np.prod(other))
    for mode in ("add", "set"):
        # Repeated indices only where adding: with set, any of them may win.
        i = idx if mode == "add" else rng.permutation(shape[axis])[: min(count, shape[axis])]
        c = len(i)
        shape_u = tuple(c if d == axis else s for d, s in enumerate(shape))
        y = made(x).reshape(shape).copy()
        moved, updates = np.moveaxis(y, axis, 0), np.moveaxis(made((int(np.prod(shape_u)), u[1], -1.0, 1.0)).reshape(shape_u), axis, 0)
        np.add.at(moved, i, updates) if mode == "add" else moved.__setitem__(i, updates)
        add("scatter", dict(shape=shape, axis=axis, picks=c, per_element=False, mode=mode),
            {"x": x, "u": (int(np.prod(shape_u)), u[1], -1.0, 1.0), "indices": np.asarray(i).tolist()}, y, 1e-5, 1e-5 if mode == "add" else 0)
    y = made(x).reshape(shape).copy()
    positive = idx2 % shape[axis]
    grid = list(np.indices(other))
    grid[axis] = positive
    np.add.at(y, tuple(grid), made(u).reshape(other))
    add("scatter", dict(shape=shape, axis=axis, picks=count, per_element=True, mode="add"), {"x": x, "u": u, "indices": idx2.ravel().tolist()}, y, 1e-5, 1e-5)


def conv(b, c, h, w, o, kh, kw, stride=(1, 1), pad=(0, 0), dilation=(1, 1), groups=1, bias=False):
    x, wt = new(b * c * h * w), new(o * (c // groups) * kh * kw)
    X, W = made(x).reshape(b, c, h, w), made(wt).reshape(o, c // groups, kh, kw)
    f = lambda X, W: lax.conv_general_dilated(X, W, stride, [(pad[0],) * 2, (pad[1],) * 2], rhs_dilation=dilation, feature_group_count=groups)
    y, back = jax.vjp(f, X, W)
    p = dict(batch=b, in_channels=c, height=h, width=w, out_channels=o, kernel_h=kh, kernel_w=kw, stride=stride, pad=pad, dilation=dilation, groups=groups)
    k = (c // groups) * kh * kw
    if bias:
        bi = new(o)
        add("conv", dict(p, direction="forward"), {"a": wt, "b": x, "bias": bi}, np.asarray(y) + made(bi)[None, :, None, None], 1e-4, 1e-6 + 1e-7 * k)
    else:
        add("conv", dict(p, direction="forward"), {"a": wt, "b": x}, y, 1e-4, 1e-6 + 1e-7 * k)
    dy = new(y.size)
    dX, dW = back(made(dy).reshape(y.shape))
    add("conv", dict(p, direction="data"), {"a": wt, "b": dy}, dX, 1e-4, 1e-6 + 1e-7 * k)
    add("conv", dict(p, direction="filter"), {"a": dy, "b": x}, dW, 1e-4, 1e-6 + 1e-7 * y.size / o)


conv(1, 1, 1, 1, 1, 1, 1)
conv(2, 3, 9, 11, 4, 3, 3)
conv(2, 3, 9, 11, 4, 3, 3, pad=(1, 1), bias=True)
conv(1, 4, 12, 10, 6, 3, 5, stride=(2, 3), pad=(2, 1))
conv(2, 6, 13, 14, 9, 3, 2, stride=(2, 1), pad=(1, 2), dilation=(2, 3), groups=3, bias=True)
conv(3, 8, 7, 7, 8, 3, 3, pad=(1, 1), groups=8)
conv(1, 5, 6, 8, 70, 1, 1)
conv(2, 2, 20, 21, 3, 7, 7, stride=(4, 4), pad=(3, 3))
conv(1, 3, 5, 5, 2, 5, 5)


def attention(b, h, hk, sq, sk, d, causal=False, offset=0, window=0, softcap=0.0, mask=None, alibi=False, capacity=0, scale=0.0, kind="f32"):
    q, k, v = new(b * h * sq * d, -2.0, 2.0), new(b * hk * (capacity or sk) * d, -2.0, 2.0), new(b * hk * (capacity or sk) * d)
    Q = made(q).reshape(b, h, sq, d)
    K, V = (made(t).reshape(b, hk, capacity or sk, d)[:, :, :sk].repeat(h // hk, axis=1) for t in (k, v))
    s = np.einsum("bhqd,bhkd->bhqk", Q, K) * (scale or 1 / np.sqrt(d))
    if softcap:
        s = softcap * np.tanh(s / softcap)
    inputs = {"q": q, "k": k, "v": v}
    i, j = np.arange(sq)[:, None] + offset, np.arange(sk)[None, :]
    if alibi:
        sl = new(h, 0.0, 1.0)
        inputs["slopes"] = sl
        s = s + made(sl)[None, :, None, None] * (j - i)
    if mask:
        shape = (b if "b" in mask else 1, h if "h" in mask else 1, sq, sk)
        mk = new(np.prod(shape), -4.0, 4.0)
        inputs["mask"] = mk
        m = made(mk).reshape(shape)
        s = s + np.where(m < -2.0, -np.inf, m)
    seen = np.ones((sq, sk), bool)
    if causal:
        seen &= j <= i
    if window:
        seen &= j > i - window
    s = np.where(seen, s, -np.inf)
    top = s.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(s - np.where(np.isinf(top), 0, top))
    total = e.sum(axis=-1, keepdims=True)
    r = np.einsum("bhqk,bhkd->bhqd", np.where(total > 0, e / np.where(total > 0, total, 1), 0), V)
    if not (mask or alibi or softcap or window or offset or capacity):
        theirs = jax.nn.dot_product_attention(*(np.moveaxis(t, 1, 2) for t in (Q, K, V)), is_causal=causal, scale=scale or None)
        assert np.allclose(np.moveaxis(np.asarray(theirs), 1, 2), r, atol=1e-6)   # theirs has float32 scores
    tol = 3e-3 if kind == "f16" else 1e-4
    add("attention", dict(batch=b, heads=h, kv_heads=hk, q_len=sq, kv_len=sk, head_dim=d, causal=causal, kv_offset=offset, window=window, softcap=softcap,
                          mask_kind=mask or "", alibi=alibi, capacity=capacity, scale=scale, kind=kind), inputs, r, tol, tol / 20)


attention(1, 1, 1, 1, 1, 8)
attention(2, 4, 2, 9, 9, 16, causal=True)
attention(1, 2, 2, 5, 70, 33)
attention(1, 6, 2, 7, 130, 64, causal=True, offset=123)
attention(1, 4, 4, 1, 67, 80, causal=True, offset=66, capacity=100)
attention(2, 3, 1, 12, 40, 40, causal=True, offset=20, window=9)
attention(1, 2, 1, 6, 50, 128, softcap=3.0)
attention(1, 4, 2, 8, 30, 24, mask="bh")
attention(2, 4, 2, 8, 30, 20, mask="h", causal=True, offset=22)
attention(2, 2, 1, 4, 66, 12, mask="b")
attention(1, 4, 1, 11, 11, 32, causal=True, alibi=True)
attention(1, 2, 2, 3, 70, 256, causal=True, offset=60, scale=0.05)
attention(1, 2, 1, 3, 20, 300)
attention(1, 1, 1, 70, 70, 16, causal=True, offset=-0)
attention(1, 8, 2, 2, 33, 64, kind="f16")
attention(1, 2, 2, 5, 3, 4, window=2, offset=9)

os.makedirs(OUT, exist_ok=True)
with open(os.path.join(OUT, "cases.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
np.concatenate(blob).tofile(os.path.join(OUT, "cases.bin"))
print(len(cases), "cases,", os.path.getsize(os.path.join(OUT, "cases.bin")), "bytes of results")
