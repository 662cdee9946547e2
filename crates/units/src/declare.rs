//! Macros that write what a list says: names of choices, setters of configurations.

use alloc::{borrow::ToOwned, string::String};
use core::fmt;

/// An unknown name of a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownName {
    /// The kind of choice.
    pub what: &'static str,
    /// The text.
    pub text: String,
    /// The valid names, separated by commas.
    pub known: String,
}

impl UnknownName {
    #[doc(hidden)]
    pub fn new(what: &'static str, text: &str, known: &[&str]) -> Self {
        Self { what, text: text.to_owned(), known: known.join(", ") }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} \"{}\": the known ones are {}", self.what, self.text, self.known)
    }
}

impl core::error::Error for UnknownName {}

/// Gives the variants of an enumeration names: `ALL`, `name` and `named`; with `as` and the kind of choice also `Display` and `FromStr`,
/// whose error is [`UnknownName`].
///
/// # Example
///
/// ```
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// enum Direction {
///     Down,
///     Up,
/// }
///
/// giusto_units::names!(Direction as "direction" { Down = "down", Up = "up" });
///
/// assert_eq!((Direction::ALL.len(), Direction::Up.name()), (2, "up"));
/// assert_eq!(Direction::named("down"), Some(Direction::Down));
/// assert_eq!("left".parse::<Direction>().unwrap_err().to_string(), "unknown direction \"left\": the known ones are down, up");
/// ```
#[macro_export]
macro_rules! names {
    ($type:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            /// All of them, in order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The one of this name.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
    ($type:ident as $what:literal { $($variant:ident = $name:literal),+ $(,)? }) => {
        $crate::names!($type { $($variant = $name),+ });

        impl ::core::fmt::Display for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::core::str::FromStr for $type {
            type Err = $crate::UnknownName;

            /// Reads a [name](Self::name).
            fn from_str(text: &str) -> Result<Self, $crate::UnknownName> {
                Self::named(text.trim()).ok_or_else(|| $crate::UnknownName::new($what, text, &[$($name),+]))
            }
        }
    };
}

/// Implements an operator: `operator!(Sub::sub(Timestamp, TimeDelta) -> Timestamp: |time, delta| time + -delta)`.
macro_rules! operator {
    ($(#[$about:meta])* $trait:ident::$method:ident($left:ty, $right:ty) -> $out:ty: |$a:ident, $b:ident| $value:expr) => {
        impl core::ops::$trait<$right> for $left {
            type Output = $out;

            $(#[$about])*
            #[inline]
            fn $method(self, $b: $right) -> $out {
                let $a = self;
                $value
            }
        }
    };
}
pub(crate) use operator;

/// Implements an operator that assigns the result of another: `assigning!(AddAssign::add_assign(TimeDelta, TimeDelta): +)`.
macro_rules! assigning {
    ($trait:ident::$method:ident($left:ty, $right:ty): $operator:tt) => {
        impl core::ops::$trait<$right> for $left {
            #[inline]
            fn $method(&mut self, right: $right) {
                *self = *self $operator right;
            }
        }
    };
}
pub(crate) use assigning;

/// Declares a struct whose fields state their defaults. With the head of a function behind it, that function makes it instead of
/// `Default`, and the values may follow from its arguments.
///
/// # Example
///
/// ```
/// giusto_units::defaults! {
///     #[derive(Debug, PartialEq)]
///     pub struct Limits {
///         pub packets: Option<u64> = None,
///         pub overtime: u64 = 250,
///     }
/// }
///
/// giusto_units::defaults! {
///     pub struct Plan {
///         pub rate: u64 = rate,
///         pub limits: Limits = Limits::default(),
///     }
///     /// A plan without limits.
///     pub fn new(rate: u64);
/// }
///
/// assert_eq!(Plan::new(64_000).limits, Limits { packets: None, overtime: 250 });
/// ```
#[macro_export]
macro_rules! defaults {
    (
        $(#[$about:meta])*
        $of_struct:vis struct $name:ident {
            $($(#[$of_field:meta])* $of:vis $field:ident: $type:ty = $default:expr),+ $(,)?
        }
    ) => {
        $(#[$about])*
        $of_struct struct $name {
            $($(#[$of_field])* $of $field: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
    (
        $(#[$about:meta])*
        $of_struct:vis struct $name:ident {
            $($(#[$of_field:meta])* $of:vis $field:ident: $type:ty = $default:expr),+ $(,)?
        }
        $(#[$of_new:meta])*
        $of_fn:vis fn $new:ident($($given:ident: $of_given:ty),* $(,)?);
    ) => {
        $(#[$about])*
        $of_struct struct $name {
            $($(#[$of_field])* $of $field: $type,)+
        }

        impl $name {
            $(#[$of_new])*
            $of_fn fn $new($($given: $of_given),*) -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
}

/// Gives a configuration with public fields its setters. `into T` takes a `T` or an `Option<T>`.
///
/// # Example
///
/// ```
/// #[derive(Debug, Clone, Copy, Default)]
/// pub struct Limits {
///     pub packets: Option<u64>,
///     pub overtime: u64,
/// }
///
/// giusto_units::setters!(Limits {
///     /// With at most this number of packets.
///     with_packets(packets: into u64);
///     /// With this overtime.
///     with_overtime(overtime: u64);
/// });
///
/// assert_eq!(Limits::default().with_packets(3).packets, Some(3));
/// ```
#[macro_export]
macro_rules! setters {
    ($type:ident $(<$life:lifetime>)? { $($(#[$about:meta])* $name:ident($field:ident: $($of:tt)+);)+ }) => {
        impl $(<$life>)? $type $(<$life>)? {
            $($crate::setters!(@ $(#[$about])* $name($field: $($of)+));)+
        }
    };
    (@ $(#[$about:meta])* $name:ident($field:ident: into $of:ty)) => {
        $(#[$about])*
        #[must_use]
        pub fn $name(mut self, $field: impl Into<Option<$of>>) -> Self {
            self.$field = $field.into();
            self
        }
    };
    (@ $(#[$about:meta])* $name:ident($field:ident: $of:ty)) => {
        $(#[$about])*
        #[must_use]
        pub const fn $name(self, $field: $of) -> Self {
            Self { $field, ..self }
        }
    };
}
