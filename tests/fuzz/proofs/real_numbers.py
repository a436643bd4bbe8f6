"""Elements of tensors over the reals: terms of Z3, or Python's fractions, integers and bools if they are known.

Functions such as exp are uninterpreted: equal operands give equal results, and nothing else is known of them.
"""

import fractions
import math

import z3


class Unstated(Exception):
    """The reason why a graph cannot be expressed as a term."""


class Outside(Exception):
    """An index that is out of range."""


# Terms that a pass which folds constants turns into other numbers, collected from the graphs evaluated since the last clear.
roundings = set()

# Elements. Known values stay numbers, so that a graph of constants evaluates to numbers.


def is_term(x):
    return isinstance(x, z3.ExprRef)


def real(x):
    """As a term."""
    if is_term(x):
        return z3.ToReal(x) if z3.is_int(x) else x
    return z3.RealVal(x)


def boolean(x):
    return x if is_term(x) else z3.BoolVal(bool(x))


def tidy(x):
    """Simplifies with Z3's order of terms, so that sums that differ only in the order of terms become equal. A known number is returned as
    a number."""
    if not is_term(x):
        return x
    x = z3.simplify(x, sort_sums=True)
    return x.as_fraction() if z3.is_rational_value(x) else x


def normal(x):
    """The same for sums of products: equal polynomials mostly become the same term."""
    return z3.simplify(x, som=True, sort_sums=True) if is_term(x) else x


def choose(condition, yes, no):
    if not is_term(condition):
        return yes if condition else no
    if isinstance(yes, (bool, z3.BoolRef)):
        return z3.If(condition, boolean(yes), boolean(no))
    return z3.If(condition, real(yes), real(no))


def divide(a, b):
    if is_term(a) or is_term(b):
        return real(a) / real(b)
    if b == 0:
        raise Unstated("divides by 0")
    return rounded(fractions.Fraction(a) / b)


def rounded(x):
    if x.denominator & (x.denominator - 1):
        roundings.add("a quotient of known numbers is rounded")
    return x


def apply(name, *operands):
    """Applies the uninterpreted function of this name; for sqrt of a known square, returns its root."""
    if not any(map(is_term, operands)):
        if name == "sqrt" and (root := root_of_square(operands[0])) is not None:
            return root
        roundings.add("a function of known numbers is rounded")
    terms = [real(normal(x)) for x in operands]
    return z3.Function(name, *[z3.RealSort()] * (len(terms) + 1))(*terms)


def root_of_square(x):
    root = fractions.Fraction(math.isqrt(abs(x.numerator)), math.isqrt(x.denominator))
    return root if root * root == x else None


def truncated(x):
    if not is_term(x):
        return int(x)
    return z3.If(x >= 0, z3.ToInt(x), -z3.ToInt(-x))


def largest(x, y):
    return choose(x > y, x, y)


def smallest(x, y):
    return choose(x < y, x, y)


def power(x, exponent):
    if is_term(exponent):
        return apply("pow", x, exponent)
    if exponent.denominator == 2 and 0 < exponent < 8:
        return apply("sqrt", x) * power(x, exponent - fractions.Fraction(1, 2))
    if exponent.denominator == 1 and 0 <= exponent < 8:
        return math.prod([x] * int(exponent), start=fractions.Fraction(1))
    if exponent.denominator <= 2 and -8 < exponent < 0:
        return divide(fractions.Fraction(1), power(x, -exponent))
    return apply("pow", x, exponent)


def remainder(x, y):
    if is_term(x) or is_term(y):
        raise Unstated("remainder of data")
    return x % y


def quotient(x, y):
    if isinstance(x, int) and isinstance(y, int) and y != 0:
        return int(fractions.Fraction(x, y))
    return divide(x, y)


ROOT_OF_HALF, ROOT_OF_2_BY_PI = z3.Real("sqrt(1/2)"), z3.Real("sqrt(2/pi)")
# What constants of such values mean, which lie as near as their dtype allows.
IRRATIONAL = {math.sqrt(0.5): ROOT_OF_HALF, math.sqrt(2): 2 * ROOT_OF_HALF, math.sqrt(2 / math.pi): ROOT_OF_2_BY_PI}
FACTS = [ROOT_OF_HALF > 0, ROOT_OF_HALF * ROOT_OF_HALF == z3.Q(1, 2), ROOT_OF_2_BY_PI > 0]
