// Maxima and minima for the lanes of a loop on the CPU (`omp simd reduction`). A NaN is the result
// of both.

#pragma omp declare reduction(larger                                          \
                              : float, double                                 \
                              : omp_out = LargerOf::Combine(omp_out, omp_in)) \
    initializer(omp_priv = omp_orig)
#pragma omp declare reduction(smaller                                          \
                              : float, double                                  \
                              : omp_out = SmallerOf::Combine(omp_out, omp_in)) \
    initializer(omp_priv = omp_orig)
