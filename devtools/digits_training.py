"""The network whose weights all built-in models share."""

from __future__ import annotations

from typing import Any

import numpy as np
from digits_data import SEED, Digits, scaled

EPOCH_COUNT = 40
BATCH_SIZE = 32


def make_network() -> Any:
    """The untrained torch network, which maps images (n, 1, 8, 8) to logits (n, 10).

    No layer before the pooling reduces the image, so that few weights cause much computation. The
    pooling spans the whole image, because a dense layer after a 1x1 image needs no transposition
    between NHWC and NCHW. The pooling takes the maximum, which needs no rounding in int8.
    """
    from torch import nn

    layers: list[Any] = []
    for input_count, output_count in ((1, 24), (24, 32), (32, 32)):
        layers += [nn.Conv2d(input_count, output_count, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(8), nn.Flatten(), nn.Linear(32, 10))


def train(data: Digits) -> Any:
    """Train the network on the training samples only; the same data gives the same weights."""
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(SEED)
    network = make_network()
    images = torch.from_numpy(scaled(data.train_images).transpose(0, 3, 1, 2).copy())
    labels = torch.from_numpy(data.train_labels.astype(np.int64))
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    step_count = EPOCH_COUNT * -(-len(labels) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.005, total_steps=step_count)
    for _ in range(EPOCH_COUNT):
        for batch in torch.randperm(len(labels)).split(BATCH_SIZE):
            logits = network(images[batch])
            loss = torch.nn.functional.cross_entropy(logits, labels[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()
