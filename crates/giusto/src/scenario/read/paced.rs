//! Paced flows: a schedule on a machine.

use giusto_pace::{CyclePlan, CycleRule, HeaderLayer, IpVersion, Strategy};
use giusto_sim::machine::{Machine, SleepModel};
use giusto_units::TimeDelta;

use super::{choose, fields::Fields};
use crate::scenario::FlowKind;

pub(super) fn paced(fields: &Fields<'_>) -> Option<FlowKind> {
    let strategies = Strategy::ALL.map(|strategy| (strategy.name(), strategy));
    let strategy = if fields.node("strategy").is_none() {
        Some(Strategy::default())
    } else {
        choose(fields, "strategy", &strategies)
    };
    let (rate, size) = (fields.required("rate", Fields::rate), fields.required("size", Fields::size));
    let packets = fields.count("packets-per-cycle", 1).unwrap_or(1);
    let ecn = super::flow::ecn(fields);
    let machine = machine(fields);
    // Rates and sizes hold all headers everywhere in a scenario.
    let (layer, rule) = (HeaderLayer::Payload, CycleRule::Given(packets));
    let plan = CyclePlan::new(rate?, size?, layer, IpVersion::V4, rule)
        .map_err(|error| fields.complain_of_all(error.to_string()))
        .ok()?;
    if strategy == Some(Strategy::Unpaced)
        && machine.is_some_and(|machine| machine.send_cost <= TimeDelta::ZERO)
    {
        fields.complain_of_all(
            "unpaced sends without end at once: give machine = { send-cost = \"10 us\" }".to_owned(),
        );
        return None;
    }
    Some(FlowKind::Paced { strategy: strategy?, plan, machine: machine?, ecn: ecn? })
}

/// `"ideal"`, `"sun-labs"`, or how coarse it is.
fn machine(fields: &Fields<'_>) -> Option<Machine> {
    if fields.node("machine").is_none() {
        return Some(Machine::default());
    }
    let Some(inner) = fields.table("machine") else {
        return choose(fields, "machine", &[("ideal", Machine::default()), ("sun-labs", Machine::SUN_LABS)]);
    };
    let mut machine = Machine::default();
    for (key, step) in [
        ("clock", &mut machine.clock_step),
        ("sleep", &mut machine.sleep_step),
        ("send-cost", &mut machine.send_cost),
        ("look-cost", &mut machine.look_cost),
    ] {
        if let Some(time) = inner.time(key) {
            *step = time;
        }
    }
    if inner.flag("ticks") == Some(true) {
        machine.sleep_model = SleepModel::Ticks;
    }
    inner.finish();
    Some(machine)
}
