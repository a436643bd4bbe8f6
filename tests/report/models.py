"""Models as ONNX text for tests of reports: one with hostile names, and one of some 300 nodes."""

HOSTILE_NAMES = [
    "</script><script>harm = 1</script>",
    "<img src=none onerror=harm=1>",
    "'single' `back` ${harm = 1} &lt;b&gt;",
    "\u540d\u524d \u0645\u0631\u062d\u0628\u0627 \U0001f9ea \u202e turned \u2028 line",
    "<!-- report.json -->/* report.js */",
    "tab\tand\x01control",
    "x" * 10000,
    "/" + "/".join(["deep"] * 60) + "/Relu",
]


def hostile_model():
    """A chain of nodes with these names."""
    lines, value = [], "x"
    for i, name in enumerate(HOSTILE_NAMES):
        lines.append(f'  ["{name}"] v{i} = {"Relu" if i % 2 else "Softmax"}({value})')
        value = f"v{i}"
    lines.append(f'  ["last"] y = Sigmoid({value})')
    return ('<ir_version: 10, opset_import: ["" : 20]>\ng (float[batch, 8] x) => (float[batch, 8] y) {\n' + "\n".join(lines) + "\n}\n")


class Layers:
    """A transformer with a LoRA adapter on every product, with 41 nodes per layer."""

    WIDTH, RANK, WORDS = 64, 8, 50

    def __init__(self):
        self.lines, self.weights, self.count = [], [], 0

    def weight(self, name, *shape):
        size = 1
        for extent in shape:
            size *= extent
        numbers = []
        for _ in range(size):  # spread over -0.3..0.3, the same every time
            self.count = (self.count * 1103515245 + 12345) % 2**31
            numbers.append(f"{0.6 * self.count / 2**31 - 0.3:.3f}")
        self.weights.append(f"float[{','.join(map(str, shape))}] {name} = {{{', '.join(numbers)}}}")
        return name

    def node(self, name, result, text):
        self.lines.append(f'  ["{name}"] {result} = {text}')

    def linear(self, layer, module, x, result, rows, columns):
        part = f"l{layer}_{module}"
        path = f"/layers.{layer}/{module}"
        self.node(path + "/base/MatMul", part + "_base", f"MatMul({x}, {self.weight(part + '_w', rows, columns)})")
        self.node(path + "/lora_a/MatMul", part + "_down", f"MatMul({x}, {self.weight(part + '_a', rows, self.RANK)})")
        self.node(path + "/lora_b/MatMul", part + "_up", f"MatMul({part}_down, {self.weight(part + '_b', self.RANK, columns)})")
        self.node(path + "/Add", result, f"Add({part}_base, {part}_up)")

    def norm(self, layer, name, x, result):
        part = f"l{layer}_{name}"
        gain, bias = self.weight(part + "_gain", self.WIDTH), self.weight(part + "_bias", self.WIDTH)
        self.node(f"/layers.{layer}/{name}/LayerNormalization", result, f"LayerNormalization <axis = -1> ({x}, {gain}, {bias})")

    def layer(self, i, x):
        part, path = f"l{i}_", f"/layers.{i}/attention"
        self.norm(i, "norm1", x, part + "n1")
        for which, order in (("query", "0, 2, 1, 3"), ("key", "0, 2, 3, 1"), ("value", "0, 2, 1, 3")):
            self.linear(i, which, part + "n1", part + which, self.WIDTH, self.WIDTH)
            self.node(f"{path}/{which}/Reshape", f"{part}{which}_heads", f"Reshape({part}{which}, heads)")
            self.node(f"{path}/{which}/Transpose", f"{part}{which}_t", f"Transpose <perm = [{order}]> ({part}{which}_heads)")
        self.node(path + "/MatMul", part + "dots", f"MatMul({part}query_t, {part}key_t)")
        self.node(path + "/Mul", part + "scores", f"Mul({part}dots, scale)")
        self.node(path + "/Softmax", part + "shares", f"Softmax <axis = -1> ({part}scores)")
        self.node(path + "/MatMul_1", part + "mixed", f"MatMul({part}shares, {part}value_t)")
        self.node(path + "/Transpose", part + "mixed_t", f"Transpose <perm = [0, 2, 1, 3]> ({part}mixed)")
        self.node(path + "/Reshape", part + "flat", f"Reshape({part}mixed_t, rows)")
        self.linear(i, "out", part + "flat", part + "attended", self.WIDTH, self.WIDTH)
        self.node(f"/layers.{i}/Add", part + "sum", f"Add({x}, {part}attended)")
        self.norm(i, "norm2", part + "sum", part + "n2")
        self.linear(i, "wide", part + "n2", part + "hidden", self.WIDTH, 2 * self.WIDTH)
        self.node(f"/layers.{i}/act/Relu", part + "active", f"Relu({part}hidden)")
        self.linear(i, "narrow", part + "active", part + "made", 2 * self.WIDTH, self.WIDTH)
        self.node(f"/layers.{i}/Add_1", part + "end", f"Add({part}sum, {part}made)")
        return part + "end"


def layers_model(count):
    model = Layers()
    model.weights += ["int64[4] heads = {0, -1, 4, 16}", "int64[3] rows = {0, -1, 64}", "float scale = {0.25}"]
    model.node("/embed/Gather", "h", f"Gather({model.weight('words', model.WORDS, model.WIDTH)}, ids)")
    value = "h"
    for i in range(count):
        value = model.layer(i, value)
    model.node("/head/MatMul", "logits", f"MatMul({value}, {model.weight('head', model.WIDTH, model.WORDS)})")
    return ('<ir_version: 10, opset_import: ["" : 20]>\ng (int64[batch, seq] ids) => (float[batch, seq, 50] logits)\n<'
            + ",\n ".join(model.weights) + "> {\n" + "\n".join(model.lines) + "\n}\n")
