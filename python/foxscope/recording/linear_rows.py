"""Linear mixers of a few rows, as one chunk without a loop over them, and what rounding to 16 bits does to each head.

Each is S_t = Diag(a_t) S_(t-1) + b_t r_t^T + k_t w_t^T with r_t = S_(t-1)^T e_t, and y_t = S_t^T q_t (docs/maps.md). The
delta rule has e_t = a_t k_t, b_t = -beta_t k_t and w_t = beta_t v_t. With P_t = sum_(s<=t) log a_s, S_t is the sum over j <= t
of exp(P_t - P_j) (b_j r_j^T + k_j w_j^T), and so

    y = Q_b r + Q_k w,   r = T E_k w,   T = (I - E_b)^-1,
    Q_x[t, j] = q_t . (exp(P_t - P_j) x_j), j <= t,   E_x[t, j] = e_t . (exp(P_(t-1) - P_j) x_j), j < t.

A mixer of 16 bits may round the factors of these products, the products, T, w and r. Each is then off by about u' of its
size, at random, and the output by u' E, E^2 = 1 + m / |y|^2, of the mean of rows. Squares of matrices are entry by entry, and
N_x is Q_x or E_x of squared factors:

    m = (2 Q_k^2 + 2 N_Qk) |w|^2 + (2 Q_b^2 + 2 N_Qb) |r|^2 + Q_b^2 T^2 |E_k w|^2
        + (Q_b T)^2 ((2 E_k^2 + 2 N_Ek) |w|^2 + (E_b^2 + 2 N_Eb) |r|^2).
"""

from __future__ import annotations

import numpy as np

from .arrays import Tensor, group, is_torch, library, pad_channels
from .call import CLOSED, Call

#: Rows of a block, in which decays of channels are made for each pair of rows.
_BLOCK = 16


def linear_rows(short: Call) -> tuple[Tensor, Tensor]:
    """What a linear mixer gives for the rows of a call, [H, n, d_v], and E of each of these heads, [H].

    short   its parts are float64, of numpy or of torch on one device. Decays and beta may be of more rows. The output of a
            delta product has H = H_q.
    """
    of, heads = library(short.q), short.heads
    assert short.v is not None
    q, k, w = group(short.scale * short.q, heads), group(short.k, heads), group(short.v, heads)
    sums, steps = _sums(short), 1
    beta = 1 + 0 * sums[:, :, :1] if short.beta is None else short.beta[:, : short.rows, None]
    if short.mixer == "delta_product":  # as many rows as there are steps, of which the first decays and the last is read
        steps = heads // int(short.q.shape[0])
        q, k, w, beta = (_interleaved(part, steps) for part in (q, k, w, beta))
        sums = _interleaved(group(sums[::steps], heads), steps)
    w = beta * w
    if short.mixer in ("delta_rule", "delta_product"):
        erase, write = of.exp(sums - _before(sums)) * k, None
    elif short.erase_read is not None and short.erase_write is not None:
        erase, write = group(short.erase_read, heads), group(short.erase_write, heads)
    else:
        products, squares = _products(q[None], sums[None], k[None], sums)
        moved = 2 * (products**2 + squares) @ _squares(w)
        return _with_spread((products @ w)[0, 0], moved[0, 0])
    left, of_left = of.stack([q, erase]), of.stack([sums, _before(sums)])
    products, squares = _products(left, of_left, k[None] if write is None else of.stack([k, write]), sums)
    if write is None:
        columns = beta.swapaxes(1, 2)
        products = of.concatenate([products, -columns * products])
        squares = of.concatenate([squares, columns**2 * squares])
    output, moved = _erasing(products, squares, w)
    return _with_spread(output[:, steps - 1 :: steps], moved[:, steps - 1 :: steps])


def _erasing(products: Tensor, squares: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs y [H, n, d_v] and m [H, n, 1], of [[Q_k, E_k], [Q_b, E_b]] and of N, [2, 2, H, n, n]."""
    of = library(w)
    (q_k, e_k), (q_b, e_b) = products
    (n_qk, n_ek), (n_qb, n_eb) = squares
    one = of.eye(w.shape[1], **({"dtype": w.dtype, "device": w.device} if is_torch(w) else {}))
    from_w = e_k @ w
    solved = _solve(one - e_b, of.concatenate([from_w, one + 0 * e_b], axis=2))
    r, inverse = solved[:, :, : w.shape[2]], solved[:, :, w.shape[2] :]
    of_w, of_r = _squares(w), _squares(r)
    inner = 2 * (e_k**2 + n_ek) @ of_w + (e_b**2 + 2 * n_eb) @ of_r
    moved = 2 * (q_k**2 + n_qk) @ of_w + 2 * (q_b**2 + n_qb) @ of_r + q_b**2 @ (inverse**2 @ _squares(from_w))
    return q_b @ r + q_k @ w, moved + (q_b @ inverse) ** 2 @ inner


def _with_spread(output: Tensor, moved: Tensor) -> tuple[Tensor, Tensor]:
    """An output [H, n, d_v], and E of its m [H, n, 1]."""
    return output, library(output).sqrt(1 + moved.sum(axis=(1, 2)) / ((output**2).sum(axis=(1, 2)) + 1e-60))


def _squares(part: Tensor) -> Tensor:
    """|x|^2 of each row, [H, n, 1]."""
    return (part**2).sum(axis=2)[:, :, None]


def _solve(matrix: Tensor, right: Tensor) -> Tensor:
    """matrix^-1 right, where the matrix [H, n, n] is 1 on the diagonal and 0 above."""
    if is_torch(matrix):
        return library(matrix).linalg.solve_triangular(matrix, right, upper=False, unitriangular=True)
    return np.linalg.solve(matrix, right)


def _interleaved(part: Tensor, steps: int) -> Tensor:
    """[H steps, n, d], where head h steps + s is step s of head h, as [H, n steps, d]."""
    heads, rows, channels = part.shape
    return part.reshape(heads // steps, steps, rows, channels).swapaxes(1, 2).reshape(heads // steps, rows * steps, channels)


def _sums(short: Call) -> Tensor:
    """P, [H, n, 1], or [H, n, d] where channels decay, nats."""
    of = library(short.q)
    if short.log_decay is None:
        return 0 * group(short.q[:, :, :1], short.heads)
    sums = of.cumsum(of.clip(short.log_decay[:, : short.rows], CLOSED, None), axis=1)
    if short.decay == "channel":
        return group(sums, short.heads)
    return sums[:, :, None] if short.decay_rate is None else sums[:, :, None] * short.decay_rate[:, None, :]


def _before(sums: Tensor) -> Tensor:
    """P of the position before, 0 before the first."""
    return library(sums).concatenate([0 * sums[:, :1], sums[:, :-1]], axis=1)


def _products(left: Tensor, of_left: Tensor, right: Tensor, of_right: Tensor) -> tuple[Tensor, Tensor]:
    """sum_c left_c exp(P - P_j) right_c where P <= P_j, and the sum of squares, [R, S, H, n, n], of S and R kinds of factors.

    left, of_left     [S, H, n, d] and its P, [S, H, n, 1 or d], at position t: that of t or t - 1
    right, of_right   [R, H, n, d] and P, [H, n, 1 or d]
    Entries are 0 where j > t, and where P is that of t - 1, where j = t.
    """
    of, rows = library(left), int(left.shape[2])
    right = right[:, None]
    if of_left.shape[3] == 1:
        decays = of.exp(of.clip(of_left - of_right.swapaxes(1, 2), None, 0.0))
        products, squares = decays * (left @ right.swapaxes(3, 4)), decays**2 * (left**2 @ (right**2).swapaxes(3, 4))
    else:
        blocks = [_products_of_block(left, of_left, right, of_right, begin) for begin in range(0, rows, _BLOCK)]
        products, squares = (of.concatenate(list(parts), axis=3) for parts in zip(*blocks))
    seen = of.stack([of.tril(of.ones_like(products[0, 0, 0]), -kind) for kind in range(left.shape[0])])[:, None]
    return products * seen, squares * seen


def _products_of_block(left: Tensor, of_left: Tensor, right: Tensor, of_right: Tensor, begin: int) -> tuple[Tensor, Tensor]:
    """Rows from `begin` on of `_products`: pair by pair within the block, and by P of the row before it with earlier ones."""
    of, rows = library(left), int(left.shape[2])
    end = min(begin + _BLOCK, rows)
    own, of_own = left[:, :, begin:end], of_left[:, :, begin:end]
    decays = of.exp(of.clip(of_own[:, :, :, None] - of_right[:, None, begin:end], None, 0.0))
    terms = (own[:, :, :, None] * decays) * right[:, :, :, None, begin:end]
    products, squares = terms.sum(axis=5), (terms**2).sum(axis=5)
    if begin > 0:
        middle = of_right[:, begin - 1 : begin]
        near = own * of.exp(of.clip(of_own - middle, None, 0.0))
        far = (right[:, :, :, :begin] * of.exp(middle - of_right[:, :begin])).swapaxes(3, 4)
        products = of.concatenate([near @ far, products], axis=4)
        squares = of.concatenate([near**2 @ far**2, squares], axis=4)
    return pad_channels(products, rows), pad_channels(squares, rows)
