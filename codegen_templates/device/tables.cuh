// Where several tables begin. `first_row[part]` is the first row of table number `part`, which is
// row-major. Kernels take this by value, as __grid_constant__: each thread would else copy it to
// local memory, because `part` varies.
template <class T, int kCount>
struct Tables {
  const T* first_row[kCount];
};
