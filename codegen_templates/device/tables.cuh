// The addresses of several row-major tables: `first_row[part]` points to the first row of table
// number `part`. Kernels take this parameter by value as __grid_constant__; otherwise each thread
// would copy it to local memory, because `part` is not a constant.
template <class T, int kCount>
struct Tables {
  const T* first_row[kCount];
};
