"""What the tests of sluice.popart's ops share."""

import numpy as np

import sluice.popart as popart


def run(builder, ids, feed=()):
    """The values of tensors of a graph."""
    session = popart.InferenceSession(builder, popart.DataFlow(1, list(dict.fromkeys(ids))))
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(dict(feed), anchors))
    return [anchors[name] for name in ids]


def compute(make, *arrays):
    """What `make(builder, ids)` computes for arrays, which are inputs of the graph."""
    builder = popart.Builder()
    names = [builder.addInputTensor(popart.TensorInfo(array), f"x{i}") for i, array in enumerate(arrays)]
    made = make(builder, names)
    results = run(builder, [made] if isinstance(made, str) else made, zip(names, arrays))
    return results[0] if isinstance(made, str) else results


def f32(*values):
    return np.array(values, np.float32)


X = f32([-1.5, 0.5, 2.0], [3.0, -0.25, 1.0])
Y = f32([2.0, -3.0, 0.5], [1.0, 4.0, -2.0])
IMAGE = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4) / 8 - 1


def log_softmax(x):
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def conv2d(x, w):
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


KERNEL = np.arange(24, dtype=np.float32).reshape(3, 2, 2, 2) / 10 - 1
C = lambda b, value, dtype=np.int64: b.addConstant(np.array(value, dtype))  # noqa: E731
