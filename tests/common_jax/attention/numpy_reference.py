"""The paper's Equations 2-9 as loops over queries in float64, with the gradient worked out by hand.

Written from the paper and from what a mask's fields promise, not from the code under test.
"""

import dataclasses

import numpy as np
from scipy.special import softmax


@dataclasses.dataclass
class Answer:
    """Output [B, T, H, V], weights [B, H, T, N, S], and gradients if a cotangent was given; that
    of the bias is [B, H, T, S]."""

    out: np.ndarray
    weights: np.ndarray
    query_grad: np.ndarray
    key_grad: np.ndarray
    value_grad: np.ndarray
    bias_grad: np.ndarray


def attend(query, key, value, mask, bias=None, *, scale=None, cotangent=None) -> Answer:
    """`bias` is an array [b, h, T, S], b and h 1 or all."""
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    (batch, queries, heads, size), keys = query.shape, key.shape[1]
    scale = 1 / np.sqrt(size) if scale is None else scale
    answer = Answer(
        np.zeros((batch, queries, heads, value.shape[-1])),
        np.zeros((batch, heads, queries, mask.heads, keys)),
        *(np.zeros_like(x) for x in (query, key, value)),
        np.zeros((batch, heads, queries, keys)),
    )
    bias = np.broadcast_to(0.0 if bias is None else bias, answer.bias_grad.shape)
    for b, i, h in np.ndindex(batch, queries, heads):
        area = [
            (n, j, key_head, value_head)
            for n, key_head, value_head in neighbours(h, heads, mask)
            for j in range(keys)
            if may_attend(mask, b, h, i, j)
        ]
        if not area:
            continue
        # Equation 9 for one query of one head, and its derivatives.
        n, j, g, u = np.transpose(area)
        weights = softmax(scale * key[b, j, g] @ query[b, i, h] + bias[b, h, i, j])
        answer.out[b, i, h] = weights @ value[b, j, u]
        answer.weights[b, h, i, n, j] = weights
        if cotangent is None:
            continue
        above = np.array(cotangent[b, i, h], np.float64)
        slopes = weights * ((value[b, j, u] - answer.out[b, i, h]) @ above)
        answer.query_grad[b, i, h] = scale * slopes @ key[b, j, g]
        np.add.at(answer.key_grad, (b, j, g), scale * np.outer(slopes, query[b, i, h]))
        np.add.at(answer.value_grad, (b, j, u), np.outer(weights, above))
        np.add.at(answer.bias_grad, (b, h, i, j), slopes)
    return answer


def neighbours(h: int, heads: int, mask) -> list[tuple[int, int, int]]:
    """(index in the area, head of the key, head of the value) for h - N/2 .. h + N/2."""
    result = []
    for n in range(mask.heads):
        g = h - (mask.heads - 1) // 2 + n
        around = g + heads if g < 0 else g - heads if g >= heads else g
        edge = 0 if g < 0 else heads - 1 if g >= heads else g
        match mask.head_edge:
            case "truncate":
                if g == edge:
                    result.append((n, g, g))
            case "wrap":
                result.append((n, around, around))
            case "clamp":
                result.append((n, edge, edge))
            case "authors":
                result.append((n, around, edge))
    return result


def may_attend(mask, b: int, h: int, i: int, j: int) -> bool:
    """Whether query i of head h may attend to key j, without areas of heads."""
    segments = (mask.query_segments, i), (mask.key_segments, j)
    ids = [np.asarray(own)[b, at] for own, at in segments if own is not None]
    if not all(ids) or len({int(x) for x in ids if not isinstance(x, np.bool_)}) > 1:
        return False
    if mask.window is not None and abs(i - j) > (mask.window - 1) / 2:
        return False
    if not all(rule(np.int32(j - i)) for rule in mask.rules):
        return False
    looks = mask.direction
    if looks == "alternate":
        looks = "left" if h % 2 == 0 else "right"
    return {"both": True, "left": j <= i, "right": j >= i}[looks]
