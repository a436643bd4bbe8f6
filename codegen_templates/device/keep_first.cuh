// The first elements of a line, for kernels of the CPU.

// Adds a key to a heap of the first `count` elements so far, of which keys[0] is the last one. At
// most `most` are kept. Returns their new number.
template <class Key>
__device__ long long KeepFirst(Key* keys, long long count, long long most, Key key) {
  if (count < most) {
    long long at = count++;
    for (; at > 0 && ComesBefore(keys[(at - 1) / 2], key); at = (at - 1) / 2)
      keys[at] = keys[(at - 1) / 2];
    keys[at] = key;
  } else if (most > 0 && ComesBefore(key, keys[0])) {
    long long at = 0;
    for (long long below = 1; below < most; at = below, below = 2 * below + 1) {
      if (below + 1 < most && ComesBefore(keys[below], keys[below + 1])) ++below;
      if (!ComesBefore(key, keys[below])) break;
      keys[at] = keys[below];
    }
    keys[at] = key;
  }
  return count;
}

// Sorts such a heap: takes out its last element, again and again.
template <class Key>
__device__ void SortHeap(Key* keys, long long count) {
  while (count > 1) {
    const Key last = keys[0];
    const Key moved = keys[--count];
    long long at = 0;
    for (long long below = 1; below < count; at = below, below = 2 * below + 1) {
      if (below + 1 < count && ComesBefore(keys[below], keys[below + 1])) ++below;
      if (!ComesBefore(moved, keys[below])) break;
      keys[at] = keys[below];
    }
    keys[at] = moved;
    keys[count] = last;
  }
}
