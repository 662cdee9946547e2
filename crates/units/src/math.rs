//! Elementary functions that give the same bits on every machine.
//!
//! The standard library takes `exp`, `ln`, `pow` and their like from the system's C library, whose results differ in the last bit
//! from one system to the next. What a simulation computes with comes from here instead: the `libm` crate, a translation of musl's
//! functions into Rust. IEEE 754 fixes `+`, `-`, `*`, `/`, `sqrt` and rounding to the last bit: `sqrt`, `round`, `floor` and `ceil` are here
//! for crates without the standard library.

/// `e^x`.
#[inline]
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// Natural logarithm.
#[inline]
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// Logarithm to base 2.
#[inline]
pub fn log2(x: f64) -> f64 {
    libm::log2(x)
}

/// Logarithm to base 10.
#[inline]
pub fn log10(x: f64) -> f64 {
    libm::log10(x)
}

/// `x^y`.
#[inline]
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// `x^n` by repeated squaring.
pub fn powi(x: f64, n: u32) -> f64 {
    let (mut power, mut square, mut left) = (1.0, x, n);
    while left > 0 {
        if left & 1 == 1 {
            power *= square;
        }
        square *= square;
        left >>= 1;
    }
    power
}

/// Cube root.
#[inline]
pub fn cbrt(x: f64) -> f64 {
    libm::cbrt(x)
}

/// The nearest whole number, halves away from zero.
#[inline]
pub fn round(x: f64) -> f64 {
    libm::round(x)
}

/// The largest whole number that is not above `x`.
#[inline]
pub fn floor(x: f64) -> f64 {
    libm::floor(x)
}

/// The smallest whole number that is not below `x`.
#[inline]
pub fn ceil(x: f64) -> f64 {
    libm::ceil(x)
}

/// Square root.
#[inline]
pub fn sqrt(x: f64) -> f64 {
    libm::sqrt(x)
}

/// Sine of an angle in radians.
#[inline]
pub fn sin(x: f64) -> f64 {
    libm::sin(x)
}

/// Cosine of an angle in radians.
#[inline]
pub fn cos(x: f64) -> f64 {
    libm::cos(x)
}

/// `sqrt(x² + y²)` without overflow.
#[inline]
pub fn hypot(x: f64, y: f64) -> f64 {
    libm::hypot(x, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 15 digits of W. Abramowitz and I. Stegun, Handbook of Mathematical Functions, tables 1.1 and 4.1 to 4.6.
    #[test]
    fn values_match_published_tables() {
        let cases = [
            (exp(1.0), std::f64::consts::E),
            (ln(2.0), std::f64::consts::LN_2),
            (ln(10.0), std::f64::consts::LN_10),
            (log10(2.0), std::f64::consts::LOG10_2),
            (log2(10.0), std::f64::consts::LOG2_10),
            (pow(2.0, 0.5), std::f64::consts::SQRT_2),
            (pow(10.0, -0.25), 0.562_341_325_190_349),
            (cbrt(2.0), 1.259_921_049_894_873),
            (sin(1.0), 0.841_470_984_807_897),
            (cos(1.0), 0.540_302_305_868_140),
            (hypot(3.0, 4.0), 5.0),
            (powi(0.9, 3), 0.729),
            (powi(-2.0, 5), -32.0),
            (powi(7.0, 0), 1.0),
        ];
        for (number, (ours, published)) in cases.into_iter().enumerate() {
            assert!((ours / published - 1.0).abs() < 2e-15, "{number}: {ours} for {published}");
        }
    }

    /// The bits of every machine: fails where a compiler or a library replaces the functions.
    #[test]
    fn bits_are_the_same_everywhere() {
        let mut digest = 0xcbf2_9ce4_8422_2325_u64;
        for step in 1..2000_u32 {
            let x = f64::from(step) / 61.0;
            for value in
                [exp(-x), ln(x), log2(x), log10(x), pow(x, -0.37), powi(x, 9), cbrt(x), sin(x), cos(x)]
            {
                digest = (digest ^ value.to_bits()).wrapping_mul(0x0100_0000_01b3);
            }
        }
        assert_eq!(digest, 0xecca_94ed_b1f9_c2df, "{digest:#x}");
    }
}
