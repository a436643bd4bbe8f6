"use strict";
// Lays out an acyclic graph in layers, top to bottom, with Sugiyama's method: layers by longest path, the order in a
// layer by medians, x by least squares. The same input always gives the same picture.

const NODE_GAP = 18, LINE_GAP = 10;

// nodes: [{width, height}], edges: [[from, to]] without cycles, gap: the distance between layers. Sets x and y (the upper
// left corner) of each node and returns {width, height, paths}; paths has for each edge the points from the lower border
// of one node to the upper border of the other.
function layOut(nodes, edges, gap) {
  const items = nodes.map((node) => ({ node, width: node.width, height: node.height, up: [], down: [], layer: 0 }));
  setLayers(items, edges);
  const chains = edges.map(([from, to]) => chainOf(items, items[from], items[to]));
  const layers = [];
  for (const item of items) (layers[item.layer] = layers[item.layer] || []).push(item);
  for (let i = 0; i < layers.length; ++i) layers[i] = layers[i] || [];
  orderLayers(layers);
  setColumns(layers);
  let y = 0;
  for (const layer of layers) {
    const height = Math.max(0, ...layer.map((item) => item.height));
    for (const item of layer) {
      item.top = y;
      item.bottom = y + height;
      if (item.node) {
        item.node.x = item.x;
        item.node.y = y + (height - item.height) / 2;
      }
    }
    y += height + gap;
  }
  const right = Math.max(0, ...items.map((item) => item.x + item.width));
  return { width: right, height: Math.max(0, y - gap), paths: chains.map(pointsOf) };
}

// Assigns layers, as many as the longest path has nodes. Each node is just above its first reader; a node without readers
// is just below its last operand.
function setLayers(items, edges) {
  const next = items.map(() => []), open = items.map(() => 0);
  for (const [from, to] of edges) {
    next[from].push(to);
    ++open[to];
  }
  const ready = items.map((_, i) => i).filter((i) => open[i] === 0);
  for (let at = 0; at < ready.length; ++at) {
    for (const to of next[ready[at]]) {
      items[to].layer = Math.max(items[to].layer, items[ready[at]].layer + 1);
      if (--open[to] === 0) ready.push(to);
    }
  }
  for (const i of ready.reverse())
    if (next[i].length > 0) items[i].layer = next[i].reduce((least, to) => Math.min(least, items[to].layer), Infinity) - 1;
  const lowest = items.map(() => -1);
  for (const [from, to] of edges) lowest[to] = Math.max(lowest[to], items[from].layer);
  for (const to of items.keys()) if (next[to].length === 0) items[to].layer = lowest[to] + 1;
}

// The items of an edge: its two nodes, and a placeholder in each layer between them.
function chainOf(items, from, to) {
  const chain = [from];
  for (let layer = from.layer + 1; layer < to.layer; ++layer) {
    const place = { width: LINE_GAP, height: 0, up: [], down: [], layer };
    items.push(place);
    chain.push(place);
  }
  chain.push(to);
  for (let i = 0; i + 1 < chain.length; ++i) {
    chain[i].down.push(chain[i + 1]);
    chain[i + 1].up.push(chain[i]);
  }
  return chain;
}

function crossings(layers) {
  let count = 0;
  for (const layer of layers) {
    const ends = [];
    for (const item of layer) ends.push(...item.down.map((to) => to.place).sort((a, b) => a - b));
    for (let i = 0; i < ends.length; ++i) for (let j = 0; j < i; ++j) count += ends[j] > ends[i] ? 1 : 0;
  }
  return count;
}

function orderLayers(layers) {
  const number = (layer) => layer.forEach((item, place) => (item.place = place));
  layers.forEach(number);
  const total = layers.reduce((sum, layer) => sum + layer.length, 0);
  const sweeps = total > 3000 ? 4 : 12;
  let best = layers.map((layer) => layer.slice()), fewest = crossings(layers);
  for (let sweep = 0; sweep < sweeps && fewest > 0; ++sweep) {
    const down = sweep % 2 === 0;
    for (let i = 0; i < layers.length; ++i) {
      const layer = layers[down ? i : layers.length - 1 - i];
      for (const item of layer) {
        const others = down ? item.up : item.down;
        item.weight = others.length ? others.reduce((sum, other) => sum + other.place, 0) / others.length : item.place;
      }
      layer.sort((a, b) => a.weight - b.weight || a.place - b.place);
      number(layer);
    }
    const now = crossings(layers);
    if (now < fewest) {
      fewest = now;
      best = layers.map((layer) => layer.slice());
    }
  }
  best.forEach((layer, i) => {
    layers[i] = layer;
    number(layer);
  });
}

// Sets x so that every node is as close to its neighbours in other layers as the order in its layer and the minimum
// distances allow. This is an isotonic regression, which is solved by pooling adjacent nodes that would overlap.
function setColumns(layers) {
  for (const layer of layers) {
    let x = 0;
    for (const item of layer) {
      item.x = x;
      x += item.width + (item.node ? NODE_GAP : LINE_GAP);
    }
  }
  const middle = (item) => item.x + item.width / 2;
  const rounds = 24;  // even, so that the last round goes up and chains that join are straight
  for (let round = 0; round < rounds; ++round) {
    for (let i = 0; i < layers.length; ++i) {
      const layer = layers[round % 2 === 0 ? i : layers.length - 1 - i];
      const pools = [];
      let offset = 0;
      for (const item of layer) {
        const others = round % 2 === 0 ? item.up : item.down;
        const wanted = others.length
          ? others.reduce((sum, other) => sum + middle(other), 0) / others.length - item.width / 2 : item.x;
        const weight = (item.node ? 1 : 4) * (others.length ? 1 : 0.1);
        let pool = { sum: (wanted - offset) * weight, weight, items: [[item, offset]] };
        while (pools.length && pools[pools.length - 1].sum / pools[pools.length - 1].weight > pool.sum / pool.weight) {
          const before = pools.pop();
          pool = { sum: before.sum + pool.sum, weight: before.weight + pool.weight, items: [...before.items, ...pool.items] };
        }
        pools.push(pool);
        offset += item.width + (item.node ? NODE_GAP : LINE_GAP);
      }
      for (const pool of pools) for (const [item, at] of pool.items) item.x = pool.sum / pool.weight + at;
    }
  }
  const least = layers.flat().reduce((least, item) => Math.min(least, item.x), Infinity);
  for (const item of layers.flat()) item.x -= least;
}

function pointsOf(chain) {
  const inner = (item, x) => {
    const inset = Math.min(14, item.width / 2);
    return Math.max(item.x + inset, Math.min(item.x + item.width - inset, x));
  };
  const middle = (item) => item.x + item.width / 2;
  const from = chain[0], to = chain[chain.length - 1];
  const points = [{ x: inner(from, middle(chain[1])), y: from.node.y + from.height }];
  for (const place of chain.slice(1, -1)) points.push({ x: middle(place), y: place.top }, { x: middle(place), y: place.bottom });
  points.push({ x: inner(to, points.length > 1 ? points[points.length - 1].x : points[0].x), y: to.node.y });
  if (chain.length === 2) points[0].x = inner(from, points[1].x);
  return points;
}

// A smooth line down through the points.
function pathText(points) {
  let text = "M" + rounded(points[0].x) + " " + rounded(points[0].y);
  for (let i = 1; i < points.length; ++i) {
    const a = points[i - 1], b = points[i];
    if (Math.abs(a.x - b.x) < 0.5) {
      text += "L" + rounded(b.x) + " " + rounded(b.y);
      continue;
    }
    const y = (a.y + b.y) / 2;
    text += "C" + [a.x, y, b.x, y, b.x, b.y].map(rounded).join(" ");
  }
  return text;
}
