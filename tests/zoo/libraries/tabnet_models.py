"""pytorch-tabnet: the network of its classifiers and regressors, and its pretraining network."""

import torch
from pytorch_tabnet.tab_network import TabNet, TabNetPretraining

from model import Input, Model, floats

COLUMNS = Input("features", ("batch", 8), lambda sizes: torch.cat([torch.randn(sizes[0], 6), torch.randint(0, 5, (sizes[0], 2)).float()], 1))


def tabnet(columns=8, **more):
    kind = {"n_d": 8, "n_a": 8, "n_steps": 3, "virtual_batch_size": 128}
    return TabNet(columns, 2, **{"group_attention_matrix": torch.eye(columns), **kind, **more})


def models():
    dense = floats("features", "batch", 8)
    for mask in ("sparsemax", "entmax"):
        yield Model(f"TabNet_{mask}", lambda mask=mask: tabnet(mask_type=mask), [dense])
    yield Model("TabNet_1_step", lambda: tabnet(n_steps=1), [dense])
    yield Model("TabNet_unshared", lambda: tabnet(n_shared=0, n_independent=1), [dense])
    yield Model("TabNet_categories", lambda: tabnet(cat_idxs=[6, 7], cat_dims=[5, 5], cat_emb_dim=[2, 2],
                                                    group_attention_matrix=torch.eye(8)), [COLUMNS])  # fmt: skip
    yield Model("TabNet_tasks", lambda: TabNet(8, [2, 3], 8, 8, 2, group_attention_matrix=torch.eye(8)), [dense])
    yield Model("TabNetPretraining", lambda: TabNetPretraining(8, 0.2, 8, 8, 2, group_attention_matrix=torch.eye(8)), [dense])
