// Where several tables begin; kernels take this by value. `first_row[part]` is the first row of
// table number `part`, which is row-major.
template <class T, int kCount>
struct Tables {
  const T* first_row[kCount];
};
