// Maximum and minimum reductions over the SIMD lanes of a loop on the CPU (`omp simd reduction`).
// If any element is NaN, the result of both is NaN.

#pragma omp declare reduction(larger                                          \
                              : float, double                                 \
                              : omp_out = LargerOf::Combine(omp_out, omp_in)) \
    initializer(omp_priv = omp_orig)
#pragma omp declare reduction(smaller                                          \
                              : float, double                                  \
                              : omp_out = SmallerOf::Combine(omp_out, omp_in)) \
    initializer(omp_priv = omp_orig)
