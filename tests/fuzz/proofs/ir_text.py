"""Parses IR text, as `fusec opt` prints it and as in the cases of tests/passes."""

import re
import typing

TOKEN = re.compile(r'\s+|#[^\n]*|(?P<token>"(?:[^"\\]|\\.)*"|%[\w.$]+|-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf\b)|[A-Za-z_][\w.$]*|\.\.|.)')


class Type(typing.NamedTuple):
    dtype: str
    shape: list  # of dims, each the tokens of an expression of symbols


class Node(typing.NamedTuple):
    results: list  # names
    op: str
    operands: list  # names; None for one that is absent
    elements: list | None  # the elements of a constant, as tokens
    payload: str | None  # the hash of a constant's elements that are stored elsewhere
    attributes: dict  # number, word, string, or list of numbers or dims
    types: list
    body: "Graph | None"


class Graph(typing.NamedTuple):
    inputs: list  # (name, Type)
    symbols: dict  # name -> (low, high)
    nodes: list
    outputs: list  # names


class Reader:
    def __init__(self, text):
        self.tokens = [match["token"] for match in TOKEN.finditer(text) if match["token"]] + [""]
        self.at = 0

    def peek(self):
        return self.tokens[self.at]

    def take(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, token):
        found = self.peek() == token
        self.at += found
        return found

    def expect(self, token):
        taken = self.take()
        if taken != token:
            raise ValueError(f"IR text has {taken!r} behind {' '.join(self.tokens[max(0, self.at - 9) : self.at - 1])!r}, not {token!r}")

    def many(self, end, one):
        """What `one` reads, separated by commas, up to `end`."""
        items = []
        while not self.accept(end):
            items.append(one())
            self.accept(",")
        return items

    def graph(self):
        self.expect("graph")
        self.expect("@")
        self.take()
        self.expect("(")
        inputs = self.many(")", self.input)
        symbols = {}
        if self.accept("symbols"):
            self.expect("(")
            symbols = dict(self.many(")", self.symbol))
        if self.accept("metadata"):
            while self.take() != ")":
                pass
        self.expect("{")
        nodes = []
        while self.peek().startswith("%"):
            nodes.append(self.node())
        self.expect("return")
        return Graph(inputs, symbols, nodes, self.many("}", self.output))

    def input(self):
        name = self.take()
        if self.peek().startswith('"'):
            self.take()
        self.expect(":")
        return name, self.type()

    def output(self):
        name = self.take()
        if self.peek().startswith('"'):
            self.take()
        return name

    def symbol(self):
        name = self.take()
        self.expect("in")
        low = int(self.take())
        self.expect("..")
        return name, (low, int(self.take()))

    def type(self):
        dtype = self.take()
        self.expect("[")
        return Type(dtype, self.many("]", self.dim))

    def dim(self):
        tokens, depth = [], 0
        while depth > 0 or self.peek() not in (",", "]"):
            depth += (self.peek() == "(") - (self.peek() == ")")
            tokens.append(self.take())
        return tokens

    def node(self):
        results = [self.take()]
        while self.accept(","):
            results.append(self.take())
        self.expect("=")
        op = self.take()
        self.expect("(")
        operands = self.many(")", lambda: None if self.accept("_") else self.take())
        elements = payload = body = None
        if self.accept("["):
            elements = self.many("]", self.element)
        elif self.accept("payload"):
            payload = self.take()[1:-1]
        attributes = dict(self.many("}", self.attribute)) if self.accept("{") else {}
        self.expect(":")
        types = [self.type()]
        while self.accept(","):
            types.append(self.type())
        while self.accept("@"):  # where the node came from
            while self.peek().startswith('"'):
                self.take()
        if self.accept("{"):
            body = self.graph()
            self.expect("}")
        return Node(results, op, operands, elements, payload, attributes, types, body)

    def element(self):
        token = self.take()
        if self.accept("("):  # nan(4290772992)
            self.take()
            self.expect(")")
        return token

    def attribute(self):
        name = self.take()
        self.expect("=")
        if self.accept("["):
            return name, self.many("]", lambda: _value(self.take()))
        token = self.take()
        if token == "dims":
            self.expect("[")
            return name, self.many("]", self.dim)
        return name, _value(token)


def _value(token):
    if token.startswith('"'):
        return token[1:-1]
    if re.fullmatch(r"-?\d+", token):
        return int(token)
    return float(token) if re.match(r"-?\d", token) else token


def read(text):
    reader = Reader(text)
    graph = reader.graph()
    reader.expect("")
    return graph
