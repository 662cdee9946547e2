//! Reads controllers: a name, a name with constants, a table of them, or a file of such a table.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use giusto_congestion::{Algorithm, Constant, ConstantError};
use toml::de::{DeTable, DeValue};

use super::value::{Found, Node, Problem, expected, shown, wrong};
use crate::scenario::{
    error::{nearest, unknown},
    trace::Traces,
};

/// The key of a table that names its algorithm.
const ALGORITHM: &str = "algorithm";

/// What the name of a file of constants ends with.
const SUFFIX: &str = ".toml";

/// Algorithms with constants are never freed: more different ones are refused in one program.
const MOST: usize = 100_000;

static MADE: Mutex<BTreeMap<String, Algorithm>> = Mutex::new(BTreeMap::new());

/// A controller that is built in or one of `own`; `traces` are where a file is read from.
pub(in crate::scenario) fn controller(
    node: &Node<'_>,
    traces: &Traces,
    own: &[Algorithm],
) -> Found<Algorithm> {
    let Some(text) = node.get_ref().as_str() else {
        return match node.get_ref().as_table() {
            Some(table) => of_table(node, table),
            None => expected(
                node,
                &format!("a name or a table, such as {{ {ALGORITHM} = \"nada\", kappa = 0.4 }}"),
            ),
        };
    };
    if let Some(custom) = own.iter().find(|own| own.name() == text) {
        // A built-in one of the same name comes first.
        return Ok(text.parse().unwrap_or(*custom));
    }
    let found = if is_file(text) {
        traces.text(text).and_then(|(path, content)| of_file(&path.display().to_string(), &content))
    } else {
        named(text, unknown_name(own))
    };
    found.or_else(|text| wrong(node, text))
}

/// Says that the name of a file's key is none of the built-in controllers or of `own`.
fn unknown_name(own: &[Algorithm]) -> impl Fn(&str) -> String {
    |name| {
        let known: Vec<&str> = Algorithm::all().chain(own.iter().copied()).map(Algorithm::name).collect();
        unknown("name", name, &known)
    }
}

/// Whether this is the name of a file rather than of a controller.
pub(in crate::scenario) fn is_file(text: &str) -> bool {
    text.ends_with(SUFFIX)
}

/// A controller by its name, or by its name and constants, such as `nada+kappa=0.4+tau=450ms`. `unknown` says that the name is none.
pub(in crate::scenario) fn named(text: &str, unknown: impl Fn(&str) -> String) -> Result<Algorithm, String> {
    let (plain, values) = Algorithm::read_name(text).map_err(|error| match error {
        ConstantError::Algorithm { name, .. } => unknown(&name),
        ConstantError::Unknown { algorithm, name, .. } => {
            algorithm.parse().map_or(name.clone(), |algorithm| no_constant(algorithm, &name))
        }
        error => error.to_string(),
    })?;
    with(plain, &values)
}

/// The controller of a file called `name`.
pub(in crate::scenario) fn of_file(name: &str, text: &str) -> Result<Algorithm, String> {
    let line = |start: usize| 1 + text.get(..start).unwrap_or(text).matches('\n').count();
    let root = DeTable::parse(text).map_err(|error| {
        let start = error.span().unwrap_or_default().start;
        format!("{name}:{}: {}", line(start), error.message().replace('\n', ", "))
    })?;
    let root = toml::Spanned::new(0..0, DeValue::Table(root.into_inner()));
    let table = root.get_ref().as_table();
    let found = table.map_or_else(|| expected(&root, "a table"), |table| of_table(&root, table));
    found.map_err(|mut problems| {
        crate::order::sort_by_key(&mut problems, |problem| problem.span.start);
        let place = |problem: Problem| format!("{name}:{}: {}", line(problem.span.start), problem.text);
        problems.into_iter().map(place).collect::<Vec<_>>().join("\n")
    })
}

fn of_table(node: &Node<'_>, table: &DeTable<'_>) -> Found<Algorithm> {
    let Some(name) = table.get(ALGORITHM) else {
        return wrong(
            node,
            format_args!("{ALGORITHM} is missing: add {ALGORITHM} = \"nada\", or another name"),
        );
    };
    let Some(text) = name.get_ref().as_str() else { return expected(name, "a quoted string") };
    let plain =
        named(text, unknown_name(&[])).or_else(|text| wrong(name, format_args!("{ALGORITHM}: {text}")))?;
    let (mut values, mut problems) = (Vec::new(), Vec::new());
    for (key, value) in table.iter().filter(|(key, _)| key.get_ref() != ALGORITHM) {
        match constant(plain, key.get_ref()) {
            Ok(constant) => match of_value(&constant, value) {
                Ok(number) => values.push((constant.name, number)),
                Err(text) => {
                    problems.push(Problem { span: value.span(), text: format!("{}: {text}", constant.name) });
                }
            },
            Err(text) => problems.push(Problem { span: key.span(), text }),
        }
    }
    if problems.is_empty() { with(plain, &values).or_else(|text| wrong(node, text)) } else { Err(problems) }
}

/// The constant of this name.
fn constant(algorithm: Algorithm, name: &str) -> Result<Constant, String> {
    let found = algorithm.constants().into_iter().find(|constant| constant.name == name);
    found.ok_or_else(|| no_constant(algorithm, name))
}

/// Says that the algorithm has no such constant, and which may be meant.
fn no_constant(algorithm: Algorithm, name: &str) -> String {
    let known: Vec<&str> = algorithm.constants().iter().map(|constant| constant.name).collect();
    let fix = match nearest(name, &known) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if known.is_empty() => "it has none".to_owned(),
        None => format!("known are {}", known.join(", ")),
    };
    format!("{algorithm} has no constant \"{name}\": {fix}")
}

fn of_value(constant: &Constant, node: &Node<'_>) -> Result<f64, String> {
    match node.get_ref() {
        DeValue::String(text) if !constant.unit.is_empty() => number(constant, text),
        DeValue::Integer(_) | DeValue::Float(_) if constant.unit.is_empty() => number(constant, &shown(node)),
        _ => Err(format!("{}, found {}", wanted(constant), shown(node))),
    }
}

/// A number with the unit of the constant, in this unit.
fn number(constant: &Constant, text: &str) -> Result<f64, String> {
    constant.value_of(text).map_err(|error| error.to_string())
}

fn wanted(constant: &Constant) -> String {
    match constant.unit {
        "" => "expected a number".to_owned(),
        unit => format!("expected a text with a unit, such as \"{} {unit}\"", constant.value),
    }
}

/// The algorithm with these values: the same one each time.
fn with(plain: Algorithm, values: &[(&'static str, f64)]) -> Result<Algorithm, String> {
    if values.is_empty() {
        return Ok(plain);
    }
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut sorted = values.to_vec();
    crate::order::sort_by_key(&mut sorted, |(name, _)| *name);
    let key = format!("{plain} {sorted:?}");
    if let Some(algorithm) = made.get(&key) {
        return Ok(*algorithm);
    }
    if made.len() >= MOST {
        return Err(format!("this program has used {MOST} controllers with constants: start it again"));
    }
    let algorithm = plain.with_constants(values).map_err(|error| error.to_string())?;
    made.insert(key, algorithm);
    Ok(algorithm)
}

/// Whether a controller with constants has been made under this name.
#[cfg(test)]
pub(crate) fn is_made(name: &str) -> bool {
    MADE.lock().unwrap_or_else(PoisonError::into_inner).values().any(|made| made.name() == name)
}
