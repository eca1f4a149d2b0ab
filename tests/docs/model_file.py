"""The model.onnx that the documents speak of: four layers over images [rows, 4], with 2 classes."""
from pathlib import Path

import onnx
from onnx import TensorProto, helper


def write(path, rows="N"):
    nodes, weights, name, width = [], [], "images", 4
    for layer, out in enumerate((16, 16, 16, 2)):
        size = out * width
        values = [((7 * i + 3 * layer) % 11 - 5) / 20 for i in range(size)]
        weights.append(helper.make_tensor(f"fc{layer}.weight", TensorProto.FLOAT, [out, width], values))
        weights.append(helper.make_tensor(f"fc{layer}.bias", TensorProto.FLOAT, [out], [0.0] * out))
        last = "classes" if layer == 3 else f"fc{layer}"
        nodes.append(helper.make_node("Gemm", [name, f"fc{layer}.weight", f"fc{layer}.bias"], [last], transB=1))
        name, width = f"relu{layer}", out
        if layer < 3:
            nodes.append(helper.make_node("Relu", [last], [name]))
    graph = helper.make_graph(nodes, "small",
                              [helper.make_tensor_value_info("images", TensorProto.FLOAT, [rows, 4])],
                              [helper.make_tensor_value_info("classes", TensorProto.FLOAT, [rows, 2])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    onnx.checker.check_model(model)
    Path(path).write_bytes(model.SerializeToString())
