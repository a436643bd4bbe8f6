"""Models with recurrent layers."""

import torch
import torch.nn as nn

from layers import BATCH, SEQUENCE, ids, mlp


class Gru4Rec(nn.Module):
    """Session-based recommendation: clicked items, a GRU of two layers, scores of all items for the last click."""

    inputs = lambda: (ids(3, 7, below=60), torch.tensor([6, 2, 0]))
    dims = [SEQUENCE, BATCH]
    exporters = ("ts", "dynamo")

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


class BiLstm(nn.Module):
    """Histories of different lengths, read in both directions; a tower reads the last states."""

    inputs = lambda: (ids(3, 7, below=50), torch.tensor([7, 3, 1]))
    dims = [SEQUENCE, BATCH]
    exporters = ("ts",)

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(50, 10)
        self.lstm = nn.LSTM(10, 9, num_layers=2, bidirectional=True, batch_first=True)
        self.top = mlp(18, 8, 1)

    def forward(self, history, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.items(history), lengths, batch_first=True, enforce_sorted=False
        )
        _, (last, _) = self.lstm(packed)
        return self.top(torch.cat((last[-2], last[-1]), 1))
