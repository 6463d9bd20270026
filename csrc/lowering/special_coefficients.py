"""Prints special_coefficients.h: Chebyshev series of the functions that StableHLO lacks.

Every series is fitted in 40 digits at the Chebyshev nodes of t in [-1, 1] and cut where the
coefficients fall below the precision of float64.
"""

from collections.abc import Callable

from mpmath import (
    airyai,
    airybi,
    besseli,
    besselj,
    besselk,
    bessely,
    cos,
    erfc,
    exp,
    fsum,
    log,
    mp,
    mpf,
    pi,
    sin,
    sqrt,
)

mp.dps = 40
POINTS = 64


def chebyshev(f: Callable[[mpf], mpf]) -> list[float]:
    nodes = [cos(pi * (k + mpf(1) / 2) / POINTS) for k in range(POINTS)]
    values = [f(t) for t in nodes]
    series = []
    for n in range(POINTS):
        terms = (v * cos(n * pi * (k + mpf(1) / 2) / POINTS) for k, v in enumerate(values))
        series.append(2 * fsum(terms) / POINTS)
    series[0] /= 2
    size = max(abs(c) for c in series)
    while abs(series[-1]) < size * mpf(2) ** -56:
        series.pop()
    return [float(c) for c in series]


def from_square(f: Callable[[mpf], mpf], end: int) -> Callable[[mpf], mpf]:
    """t = 2 (x / end)^2 - 1 for x in [0, end]."""
    return lambda t: f(end * sqrt((t + 1) / 2))


def from_inverse(f: Callable[[mpf], mpf], start: mpf) -> Callable[[mpf], mpf]:
    """t = 2 start / x - 1 for x in [start, infinity)."""
    return lambda t: f(2 * start / (t + 1))


def from_inverse_square(f: Callable[[mpf], mpf], start: mpf) -> Callable[[mpf], mpf]:
    """t = 2 (start / x)^2 - 1 for x in [start, infinity)."""
    return lambda t: f(start / sqrt((t + 1) / 2))


def hankel(order: int, cosine: bool) -> Callable[[mpf], mpf]:
    """P and x Q / 8 of J = sqrt(2 / (pi x)) (P cos chi - Q sin chi), Y with sin and cos swapped."""

    def f(x: mpf) -> mpf:
        chi = x - (2 * order + 1) * pi / 4
        scale = sqrt(pi * x / 2)
        j, y = besselj(order, x), bessely(order, x)
        if cosine:
            return scale * (j * cos(chi) + y * sin(chi))
        return scale * (y * cos(chi) - j * sin(chi)) * x / 8

    return f


AIRY_SPLIT = mpf(2) / 3 * mpf(2) ** mpf("1.5")  # zeta at x = 2


def airy_decay(zeta: mpf) -> mpf:
    x = (mpf(3) / 2 * zeta) ** (mpf(2) / 3)
    return airyai(x) * 2 * sqrt(pi) * x ** (mpf(1) / 4) * exp(zeta)


def airy_wave(cosine: bool) -> Callable[[mpf], mpf]:
    """P and zeta Q of Ai(-x) = (P sin theta - Q cos theta) / (sqrt(pi) x^(1/4))."""

    def f(zeta: mpf) -> mpf:
        x = (mpf(3) / 2 * zeta) ** (mpf(2) / 3)
        theta = zeta + pi / 4
        scale = sqrt(pi) * x ** (mpf(1) / 4)
        a, b = airyai(-x), airybi(-x)
        if cosine:
            return scale * (a * sin(theta) + b * cos(theta))
        return scale * (b * sin(theta) - a * cos(theta)) * zeta

    return f


def scaled_i(order: int) -> Callable[[mpf], mpf]:
    return lambda x: exp(-x) * besseli(order, x)


def erfcx(x: mpf) -> mpf:
    if x > 1000:  # asymptotic series; erfc underflows any exponent
        s = 1 / (2 * x * x)
        return (1 - s + 3 * s**2 - 15 * s**3 + 105 * s**4) / (x * sqrt(pi))
    return exp(x * x) * erfc(x)


SERIES: dict[str, tuple[str, Callable[[mpf], mpf]]] = {
    "BesselI0Small": ("exp(-x) I0(x), t = x / 4 - 1", lambda t: scaled_i(0)(4 * (t + 1))),
    "BesselI0Large": (
        "sqrt(x) exp(-x) I0(x), t = 16 / x - 1",
        from_inverse(lambda x: sqrt(x) * scaled_i(0)(x), 8),
    ),
    "BesselI1Small": (
        "exp(-x) I1(x) / x, t = x / 4 - 1",
        lambda t: scaled_i(1)(4 * (t + 1)) / (4 * (t + 1)),
    ),
    "BesselI1Large": (
        "sqrt(x) exp(-x) I1(x), t = 16 / x - 1",
        from_inverse(lambda x: sqrt(x) * scaled_i(1)(x), 8),
    ),
    "BesselK0Small": (
        "K0(x) + log(x / 2) I0(x), t = x^2 / 2 - 1",
        from_square(lambda x: besselk(0, x) + log(x / 2) * besseli(0, x), 2),
    ),
    "BesselK0Large": (
        "sqrt(x) exp(x) K0(x), t = 4 / x - 1",
        from_inverse(lambda x: sqrt(x) * exp(x) * besselk(0, x), 2),
    ),
    "BesselK1Small": (
        "x (K1(x) - log(x / 2) I1(x)), t = x^2 / 2 - 1",
        from_square(lambda x: x * (besselk(1, x) - log(x / 2) * besseli(1, x)), 2),
    ),
    "BesselK1Large": (
        "sqrt(x) exp(x) K1(x), t = 4 / x - 1",
        from_inverse(lambda x: sqrt(x) * exp(x) * besselk(1, x), 2),
    ),
    "BesselJ0Small": ("J0(x), t = x^2 / 32 - 1", from_square(lambda x: besselj(0, x), 8)),
    "BesselJ1Small": ("J1(x) / x, t = x^2 / 32 - 1", from_square(lambda x: besselj(1, x) / x, 8)),
    "BesselY0Small": (
        "Y0(x) - 2 / pi log(x) J0(x), t = x^2 / 32 - 1",
        from_square(lambda x: bessely(0, x) - 2 / pi * log(x) * besselj(0, x), 8),
    ),
    "BesselY1Small": (
        "(Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x, t = x^2 / 32 - 1",
        from_square(lambda x: (bessely(1, x) - 2 / pi * (log(x) * besselj(1, x) - 1 / x)) / x, 8),
    ),
    "Hankel0P": ("P of order 0, t = 128 / x^2 - 1", from_inverse_square(hankel(0, True), 8)),
    "Hankel0Q": ("x Q / 8 of order 0, the same t", from_inverse_square(hankel(0, False), 8)),
    "Hankel1P": ("P of order 1, t = 128 / x^2 - 1", from_inverse_square(hankel(1, True), 8)),
    "Hankel1Q": ("x Q / 8 of order 1, the same t", from_inverse_square(hankel(1, False), 8)),
    "Erfcx": (
        "(1 + 2 x) exp(x^2) erfc(x), t = (x - 3.75) / (x + 3.75)",
        lambda t: (1 + 2 * (x := mpf("3.75") * (1 + t) / (1 - t))) * erfcx(x),
    ),
    "AirySmall": ("Ai(x), t = x / 2", lambda t: airyai(2 * t)),
    "AiryDecay": (
        "2 sqrt(pi) x^(1/4) exp(zeta) Ai(x), t = 2 zeta(2) / zeta(x) - 1",
        from_inverse(airy_decay, AIRY_SPLIT),
    ),
    "AiryP": (
        "P of Ai(-x), t = 2 (zeta(2) / zeta(x))^2 - 1",
        from_inverse_square(airy_wave(True), AIRY_SPLIT),
    ),
    "AiryQ": ("zeta Q of Ai(-x), the same t", from_inverse_square(airy_wave(False), AIRY_SPLIT)),
}


def main() -> None:
    print("#pragma once\n")
    print("// Made by special_coefficients.py: Chebyshev coefficients, that of T0 first.\n")
    print("namespace torch_tpu::lowering {\n")
    for name, (meaning, f) in SERIES.items():
        series = chebyshev(f)
        print(f"// {meaning}")
        print(f"inline constexpr double k{name}[] = {{")
        for i in range(0, len(series), 4):
            print("    " + ", ".join(repr(c) for c in series[i : i + 4]) + ",")
        print("};\n")
    print("}  // namespace torch_tpu::lowering")


if __name__ == "__main__":
    main()
