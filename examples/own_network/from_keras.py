"""From a Keras model to C: convert it to TFLite, make it int8, deploy it.

In: net.tflite, a float network that `--train` trained by Keras (this needs TensorFlow), and stripes.py, in place of your own
samples. Out: in the folder `-o`, firmware/ with the C, and images.bin, held-out images for main.c. docs/KERAS.md explains it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from finish import arguments, finish
from stripes import CLASSES, images

import tinyweave as tw

FLOAT = Path(__file__).parent / "net.tflite"


def trained():
    """Return a float network, trained as always."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(0)
    net = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(6),
            layers.Conv2D(16, 3, strides=2, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(6),
            layers.GlobalAveragePooling2D(),
            layers.Dense(len(CLASSES)),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(keras.optimizers.Adam(1e-2), loss)
    net.fit(*images(512, seed=0), epochs=8, verbose=0)
    return net


def convert(net, path):
    """Write a float .tflite file."""
    import tensorflow as tf

    path.write_bytes(tf.lite.TFLiteConverter.from_keras_model(net).convert())


def main() -> int:
    parser = arguments("deploy a Keras model")
    parser.add_argument("--train", action="store_true", help="train by Keras and write net.tflite again; needs TensorFlow")
    options = parser.parse_args()
    if options.train:
        convert(trained(), FLOAT)
    x, y = images(128, seed=1)
    done = tw.quantize(FLOAT, x, labels=y)
    print("right answers: float {:.0%}, int8 {:.0%}".format(*done.fidelity.accuracy))
    return finish(done.model, options.device, options.output)


if __name__ == "__main__":
    sys.exit(main())
