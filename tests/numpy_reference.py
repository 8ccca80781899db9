"""NumPy references of the common layers, for one text [T, D] without padding, or one vector."""

import numpy as np


def windows(x, width):
    """[T, W * D]: each state with its neighbours; zeros beyond both ends."""
    padded = np.pad(x, ((width // 2, width // 2), (0, 0)))
    rows = [padded[t : t + width].ravel() for t in range(len(x))]
    return np.array(rows).reshape(len(x), width * x.shape[1])


def convolution(x, p):
    """[T, D] -> [T, F]."""
    kernel = p["kernel"]
    return windows(x, len(kernel)) @ kernel.reshape(-1, kernel.shape[-1]) + p["bias"]


def separable_convolution(x, p):
    """Depthwise, then pointwise convolution: [T, D] -> [T, F]."""
    width, dim = p["depthwise_kernel"].shape
    windowed = windows(x, width).reshape(len(x), width, dim)
    return affine((windowed * p["depthwise_kernel"]).sum(axis=1), p["pointwise"])


def affine(x, p):
    return x @ p["kernel"] + p["bias"]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    exponentials = np.exp(x - x.max())
    return exponentials / exponentials.sum()
