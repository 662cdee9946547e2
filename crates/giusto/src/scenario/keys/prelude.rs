//! What every file of rows uses.

pub(super) use super::{keys, names};
pub(super) use crate::scenario::read::{
    self, Context, Found, Node, RateOrZero, Read, elements, expected, list, measure, named, one_or_many,
    quoted_id, table, wrong,
};
pub(super) use crate::scenario::row::{
    ABOVE_0, ANY, COUNT, Group,
    Kind::{
        self, Any, Capacity, Choice, Controller, List, Measure, Name, Number, Pair, Rate, Size, Switch,
        Table, Text, Time, Whole, Word,
    },
    Preset::{Is, Required, Said, Shown, Unset},
    RATIO, Range, above, choice, from, up_to, variant, within,
};
