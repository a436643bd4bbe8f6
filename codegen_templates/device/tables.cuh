// Where several tables begin, passed to a kernel by value: `first_row[part]` is table number
// `part`, row-major.
template <class T, int kCount>
struct Tables {
  const T* first_row[kCount];
};
