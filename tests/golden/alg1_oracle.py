"""Independent NumPy oracle of Algorithm 1 (float64), used to make the .npz files beside it.

Usage: alg1_oracle.py PAGE.npy OUT.npz ALPHA CHUNK     (PAGE: float16 [tokens, channels], tokens = one page)
"""
import sys
import numpy as np


def algorithm1(page, alpha, chunk, eps=1e-12):
    """page: [P, H] float16 -> dict of arrays in channel-major order [H, P] / [H, P/C] / [H]."""
    x = page.astype(np.float64).T                      # [H, P]
    h, p = x.shape
    gamma_min = x.min(axis=1)
    gamma_scale = x.max(axis=1) - gamma_min
    x = (x - gamma_min[:, None]) / (gamma_scale[:, None] + eps)
    view = x.reshape(h, p // chunk, chunk)
    mu = view.mean(axis=2)
    dev = view - mu[:, :, None]
    sigma = np.abs(dev).max(axis=2)
    xf = (dev / (sigma[:, :, None] + eps)).reshape(h, p)
    y = np.log1p(alpha * np.abs(xf)) / np.log1p(alpha) * 127.0
    level = np.rint(y).astype(np.int16)                # I, 0..127
    sign = np.where(xf < 0, -1, 1).astype(np.int16)    # S, zero counts as +1
    v_mag = (level + 7) >> 4                           # 0..8 : nine magnitudes, so 18 anchor symbols
    q_res = (v_mag << 4) - level                       # -8..7
    q_anc = v_mag * sign + np.minimum(sign, 0)         # -9..8
    assert np.array_equal((v_mag << 4) - q_res, level)
    inv = lambda i: np.expm1(np.log1p(alpha) * i / 127.0) / alpha
    back = lambda i: ((sign * inv(i)).reshape(h, p // chunk, chunk) * sigma[:, :, None] + mu[:, :, None]
                      ).reshape(h, p) * gamma_scale[:, None] + gamma_min[:, None]
    return dict(page=page, gamma_min=gamma_min, gamma_scale=gamma_scale, mu=mu, sigma=sigma, y=y, level=level,
                sign=sign, q_anc=q_anc.astype(np.int8), q_res=q_res.astype(np.int8),
                x_anchor=back(v_mag << 4), x_full=back(level), alpha=alpha, chunk=chunk)


if __name__ == "__main__":
    page = np.load(sys.argv[1])
    out = algorithm1(page, float(sys.argv[3]), int(sys.argv[4]))
    small = {k: v.astype(np.float32) if getattr(v, "dtype", None) == np.float64 else v for k, v in out.items()}
    np.savez_compressed(sys.argv[2], **small)
    e = lambda a: float(((a.T - page.astype(np.float64)) ** 2).sum() / (page.astype(np.float64) ** 2).sum())
    print(sys.argv[2], "NMSE anchor %.3e full %.3e" % (e(out["x_anchor"]), e(out["x_full"])),
          "q_anc", int(out["q_anc"].min()), int(out["q_anc"].max()))
