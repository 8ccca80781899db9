"""The paper's Equations 2-9 as plain loops in float64, with the gradient worked out by hand.

Written from the paper and from what a mask's fields promise, not from the code under test.
"""

import dataclasses

import numpy as np


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
    for b in range(batch):
        for i in range(queries):
            for h in range(heads):
                area = [
                    (n, j, key_head, value_head)
                    for n, key_head, value_head in neighbours(h, heads, mask)
                    for j in range(keys)
                    if may_attend(mask, b, h, i, j)
                ]
                if area:
                    one_query(answer, query, key, value, bias, (b, i, h), area, scale, cotangent)
    return answer


def one_query(answer, query, key, value, bias, place, area, scale, cotangent) -> None:
    """Equation 9 for one query of one head, and its derivatives."""
    b, i, h = place
    logits = [scale * query[b, i, h] @ key[b, j, g] + bias[b, h, i, j] for _, j, g, _ in area]
    logits = np.array(logits)
    weights = np.exp(logits - logits.max())
    weights /= weights.sum()
    for w, (n, j, _, u) in zip(weights, area, strict=True):
        answer.out[b, i, h] += w * value[b, j, u]
        answer.weights[b, h, i, n, j] = w
    if cotangent is None:
        return
    above = np.array(cotangent[b, i, h], np.float64)
    weight_grads = np.array([above @ value[b, j, u] for _, j, _, u in area])
    logit_grads = weights * (weight_grads - weights @ weight_grads)
    for w, d, (_, j, g, u) in zip(weights, logit_grads, area, strict=True):
        answer.value_grad[b, j, u] += w * above
        answer.key_grad[b, j, g] += scale * d * query[b, i, h]
        answer.query_grad[b, i, h] += scale * d * key[b, j, g]
        answer.bias_grad[b, h, i, j] += d


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
    query_id = None if mask.query_segments is None else np.asarray(mask.query_segments)[b, i]
    key_id = None if mask.key_segments is None else np.asarray(mask.key_segments)[b, j]
    if any(x is not None and not x for x in (query_id, key_id)):
        return False
    ids = [x for x in (query_id, key_id) if x is not None and not isinstance(x, np.bool_)]
    if len(ids) == 2 and ids[0] != ids[1]:
        return False
    if mask.window is not None and abs(i - j) > (mask.window - 1) / 2:
        return False
    if not all(rule(np.int32(j - i)) for rule in mask.rules):
        return False
    looks = mask.direction
    if looks == "alternate":
        looks = "left" if h % 2 == 0 else "right"
    return {"both": True, "left": j <= i, "right": j >= i}[looks]
