"""PyTorch Geometric: graph neural networks, among them recommenders. An edge is a pair of nodes; messages along edges are gathered, and
added up by a scatter. The numbers of nodes and of edges are dynamic."""

import torch
from torch_geometric import nn as geometric

from model import Input, Model, floats, ids

GRAPH = ({"nodes": 12, "edges": 30, "pairs": 5}, {"nodes": 21, "edges": 47, "pairs": 8})
USERS_AND_ITEMS = 20  # of recommenders, whose nodes are the rows of a table
FEATURES = floats("x", "nodes", 8)
EDGES = ids("edges", 2, "edges", below=12)
WEIGHTS = Input("weights", ("edges",), lambda sizes: torch.rand(sizes) + 0.1)
KINDS = ids("kinds", "edges", below=3)
GRAPHS = Input("graphs", ("nodes",), lambda sizes: torch.sort(torch.randint(0, 3, sizes)).values)  # the graph of each node
STACK = {"in_channels": 8, "hidden_channels": 16, "num_layers": 2, "out_channels": 4}


def graph(name, make, *inputs, call=lambda module, *tensors: module(*tensors)):
    return Model(name, make, list(inputs), call, GRAPH)


def models():
    yield from recommenders()
    yield from stacks()
    yield from layers()
    yield from pools()


def recommenders():
    edges = ids("edges", 2, "edges", below=USERS_AND_ITEMS)
    pairs = ids("pairs", 2, "pairs", below=USERS_AND_ITEMS)
    yield graph("LightGCN", lambda: geometric.LightGCN(USERS_AND_ITEMS, 8, 3), edges, pairs)
    yield graph("LightGCN_weighted", lambda: geometric.LightGCN(USERS_AND_ITEMS, 8, 2), edges, pairs, WEIGHTS)


def stacks():
    for kind in (geometric.GraphSAGE, geometric.GIN, geometric.GAT, geometric.GCN, geometric.EdgeCNN):
        yield graph(kind.__name__, lambda k=kind: k(**STACK), FEATURES, EDGES)
    yield graph("GAT_v2_heads", lambda: geometric.GAT(**STACK, v2=True, heads=2), FEATURES, EDGES)
    yield graph("GraphSAGE_max", lambda: geometric.GraphSAGE(**STACK, aggr="max", norm="layer_norm"), FEATURES, EDGES)
    yield graph("GraphSAGE_jumps", lambda: geometric.GraphSAGE(**STACK, jk="cat"), FEATURES, EDGES)


def layers():
    plain = {
        "SAGE_mean": lambda: geometric.SAGEConv(8, 4, normalize=True),
        "SAGE_many": lambda: geometric.SAGEConv(8, 4, aggr=["mean", "max", "std"]),
        "GCN_plain": lambda: geometric.GCNConv(8, 4, add_self_loops=False),
        "GAT_plain": lambda: geometric.GATConv(8, 4, heads=2, add_self_loops=False),
        "Transformer": lambda: geometric.TransformerConv(8, 4, heads=2, beta=True),
        "Cluster": lambda: geometric.ClusterGCNConv(8, 4),
        "SG": lambda: geometric.SGConv(8, 4, K=2, add_self_loops=False),
        "SSG": lambda: geometric.SSGConv(8, 4, alpha=0.1, K=2, add_self_loops=False),
        "APPNP": lambda: geometric.APPNP(2, 0.1, add_self_loops=False),
        "TAG": lambda: geometric.TAGConv(8, 4, K=2),
        "Cheb": lambda: geometric.ChebConv(8, 4, K=2),
        "Graph": lambda: geometric.GraphConv(8, 4),
        "Gated": lambda: geometric.GatedGraphConv(8, 2),
        "ResGated": lambda: geometric.ResGatedGraphConv(8, 4),
        "LE": lambda: geometric.LEConv(8, 4),
        "EG": lambda: geometric.EGConv(8, 8, aggregators=["symnorm", "max"], num_heads=4, add_self_loops=False),
        "General": lambda: geometric.GeneralConv(8, 4, attention=True, heads=2),
    }
    for name, make in plain.items():
        yield graph(name, make, FEATURES, EDGES)
    yield graph("Graph_weighted", lambda: geometric.GraphConv(8, 4), FEATURES, EDGES, WEIGHTS)
    yield graph("RGCN", lambda: geometric.FastRGCNConv(8, 4, 3), FEATURES, EDGES, KINDS)
    attributes = floats("attributes", "edges", 8)
    yield graph("GINE", lambda: geometric.GINEConv(torch.nn.Linear(8, 4)), FEATURES, EDGES, attributes)
    yield graph("CG", lambda: geometric.CGConv(8, 8), FEATURES, EDGES, attributes)


def pools():
    for pool in (geometric.global_add_pool, geometric.global_mean_pool, geometric.global_max_pool):
        yield graph(pool.__name__, lambda: torch.nn.Linear(8, 4), FEATURES, GRAPHS,
                    call=lambda module, x, graphs, p=pool: p(module(x), graphs, 3))  # fmt: skip
    aggregations = {
        "Softmax": lambda: geometric.SoftmaxAggregation(learn=True),
        "Set2Set": lambda: geometric.Set2Set(8, 2),
        "Attentional": lambda: geometric.AttentionalAggregation(torch.nn.Linear(8, 1)),
        "DeepSets": lambda: geometric.DeepSetsAggregation(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)),
        "Median": lambda: geometric.MedianAggregation(),
        "Sort": lambda: geometric.SortAggregation(3),
    }
    for name, make in aggregations.items():
        yield graph(f"{name}Aggregation", make, FEATURES, GRAPHS, call=lambda module, x, graphs: module(x, graphs, dim_size=3))
