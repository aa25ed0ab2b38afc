//! Sums of counts, field by field.

/// Gives a type of counts `+` and [`Iterator::sum`]. All its fields must be named, and have `+` too.
macro_rules! sums {
    ($counts:ident { $($field:ident),+ }) => {
        impl std::ops::Add for $counts {
            type Output = Self;

            fn add(self, more: Self) -> Self {
                Self { $($field: self.$field + more.$field),+ }
            }
        }

        impl std::iter::Sum for $counts {
            fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
                counts.fold(Self::default(), std::ops::Add::add)
            }
        }
    };
}

pub(crate) use sums;
