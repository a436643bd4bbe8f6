"""Sequences that recurrent layers read step by step."""

import torch
from torch import nn


class Gru4Rec(nn.Module):
    """Session-based recommendation: clicked items, a GRU of two layers, scores of all items for the last click."""

    exporters = ("ts", "dynamo")
    dims = [{0: "batch", 1: "seq"}, {0: "batch"}]

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(60, 12)
        self.gru = nn.GRU(12, 20, num_layers=2, batch_first=True)
        self.dense = nn.Linear(20, 12)

    def forward(self, clicks, last):
        states, _ = self.gru(self.items(clicks))
        rows = last.view(-1, 1, 1).expand(-1, 1, 20)
        session = self.dense(states.gather(1, rows).squeeze(1))
        return session @ self.items.weight.T

    @staticmethod
    def inputs():
        return torch.randint(0, 60, (3, 7)), torch.tensor([6, 2, 0])


class BiLstm(nn.Module):
    """Histories of their own lengths, read in both directions; the last states meet in a tower."""

    exporters = ("ts",)
    dims = [{0: "batch", 1: "seq"}, {0: "batch"}]

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(50, 10)
        self.lstm = nn.LSTM(10, 9, num_layers=2, bidirectional=True, batch_first=True)
        self.top = nn.Sequential(nn.Linear(18, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, history, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.items(history), lengths, batch_first=True, enforce_sorted=False
        )
        _, (last, _) = self.lstm(packed)
        return self.top(torch.cat((last[-2], last[-1]), 1))

    @staticmethod
    def inputs():
        return torch.randint(0, 50, (3, 7)), torch.tensor([7, 3, 1])
