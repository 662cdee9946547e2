//! Reads the values of a file, as the [rows](super::row) of the table of keys say.

mod controller;
mod quantity;
mod table;
mod value;

use giusto_congestion::Algorithm;

#[cfg(test)]
pub(crate) use self::controller::is_made;
#[cfg(test)]
pub(super) use self::value::quoted;
pub(super) use self::{
    controller::{controller, is_file, named as controller_named, of_file as controller_of_file},
    quantity::{RateOrZero, measure},
    table::{Table, named, table},
    value::{
        Found, Node, Problem, Read, choice, elements, expected, id_of, list, one_or_many, quoted_id, within,
        wrong,
    },
};
use super::trace::Traces;

/// What the names in a file refer to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    /// The text of the file.
    pub(super) text: &'a str,
    /// Where trace files are read from.
    pub(super) traces: &'a Traces,
    /// Controllers besides the built-in ones.
    pub(super) algorithms: &'a [Algorithm],
}

#[cfg(test)]
mod tests;
