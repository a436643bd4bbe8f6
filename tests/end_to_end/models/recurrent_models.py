"""Models with recurrent layers."""

import torch
import torch.nn as nn
from torch._higher_order_ops.scan import scan

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


class Dien(nn.Module):
    """Deep interest evolution (arXiv:1809.03672): a GRU over clicks, attention of the target to its states, and a GRU whose update gate the
    attention weighs. The latter is a scan, which exports as an ONNX Scan."""

    inputs = lambda: (ids(3, 7, below=40), ids(3, below=40))
    dims = [SEQUENCE, BATCH]
    exporters = ("dynamo",)

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(40, 8)
        self.interests = nn.GRU(8, 10, batch_first=True)
        self.query = nn.Linear(8, 10)
        self.update, self.reset, self.candidate = (nn.Linear(10 + 12, 12) for _ in range(3))
        self.top = mlp(12 + 8, 6, 1)

    def step(self, state, step):
        interest, attention = step
        both = torch.cat((interest, state), 1)
        update = attention * torch.sigmoid(self.update(both))
        reset = torch.sigmoid(self.reset(both))
        candidate = torch.tanh(self.candidate(torch.cat((interest, reset * state), 1)))
        state = (1 - update) * state + update * candidate
        return state, state.clone()

    def forward(self, history, target):
        interests, _ = self.interests(self.items(history))
        item = self.items(target)
        scores = (interests * self.query(item).unsqueeze(1)).sum(2)
        steps = (interests.transpose(0, 1), scores.softmax(1).transpose(0, 1).unsqueeze(2))
        last, _ = scan(self.step, interests.new_zeros(history.shape[0], 12), steps, dim=0)
        return self.top(torch.cat((last, item), 1))
