"""Models of a handful of words, made here, in the formats of their libraries."""

import json

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

WORDS = ["[PAD]", "[UNK]", "cat", "dog", "tea", "milk", "query", "passage", ":"]
MATRIX = np.random.default_rng(0).normal(size=(len(WORDS), 4)).astype(np.float32)


def tokenizer():
    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


def mean(*words):
    """The vector of a text of these words, as a model that looks words up makes it."""
    return np.mean([MATRIX[WORDS.index(word)] for word in words], axis=0)


def unit(*words):
    vector = mean(*words)
    return vector / np.linalg.norm(vector)


def static(folder, matrix=MATRIX):
    """A model of model2vec."""
    from model2vec import StaticModel

    StaticModel(matrix, tokenizer()).save_pretrained(folder)
    return folder


def onnx_files(folder, *, max_length, nodes, output, constants=()):
    """A model by ONNX whose words are looked up in the matrix, with its tokenizer."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    numbers = {"matrix": MATRIX, **dict(constants)}
    graph = helper.make_graph(
        [helper.make_node("Gather", ["matrix", "input_ids"], ["looked_up"]), *nodes(helper)],
        "tiny",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])],
        [helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1])],
        [numpy_helper.from_array(np.asarray(one), name) for name, one in numbers.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    (folder / "onnx").mkdir(parents=True)
    onnx.save(
        helper.make_model(graph, opset_imports=opset, ir_version=9), folder / "onnx/model.onnx"
    )
    tokenizer().save(str(folder / "tokenizer.json"))
    for name, content in {
        "tokenizer_config.json": {"model_max_length": max_length, "pad_token": "[PAD]"},
        "special_tokens_map.json": {"pad_token": "[PAD]", "unk_token": "[UNK]"},
        "config.json": {"hidden_size": 4, "pad_token_id": 0},
    }.items():
        (folder / name).write_text(json.dumps(content))
    return folder


def bi_encoder(folder, *, max_length=16):
    return onnx_files(
        folder,
        max_length=max_length,
        nodes=lambda helper: [helper.make_node("Identity", ["looked_up"], ["hidden"])],
        output=("hidden", ["batch", "length", 4]),
    )


def cross_encoder(folder):
    """Its score is the sum of the first numbers of all words, of the question's and of the text's."""
    return onnx_files(
        folder,
        max_length=64,
        nodes=lambda helper: [
            helper.make_node("Gather", ["looked_up", "first"], ["firsts"], axis=2),
            helper.make_node("ReduceSum", ["firsts", "along"], ["logits"], keepdims=0),
        ],
        output=("logits", ["batch", 1]),
        constants={"first": np.array([0]), "along": np.array([1])}.items(),
    )
