//! One spelling of each value.

use giusto_units::{DataRate, DataSize, TimeDelta};
use toml::Value;

use super::plan::{MAX_RUNS, Sweep};
use crate::scenario::Setting;

impl Sweep {
    /// The sweep with its values in one spelling, however they were given: `1 Mbit/s` for `1M`, `"1 Mbit/s"` and `1000 kbit/s`, `0.1` for
    /// `1e-1`. A spelling is taken only if the scenario is the same with it.
    #[must_use]
    pub fn spelled(mut self) -> Self {
        // `check` refuses it.
        if self.len() > MAX_RUNS || self.values.iter().any(|own| own.values.is_empty()) {
            return self;
        }
        for place in 0..self.values.len() {
            let first = |own: &super::Values| own.values.first().cloned().unwrap_or_default();
            let mut settings: Vec<Setting> =
                self.values.iter().map(|own| Setting { path: own.path.clone(), value: first(own) }).collect();
            let mut spelled = self.values.get(place).map(|own| own.values.clone()).unwrap_or_default();
            for value in &mut spelled {
                let mut scenario = |text: &str| {
                    text.clone_into(&mut settings.get_mut(place)?.value);
                    self.document.scenario(&settings).ok()
                };
                let mut spellings = spellings(value);
                // Most values are as they should be.
                spellings.truncate(spellings.iter().position(|own| own == value).unwrap_or(spellings.len()));
                let Some(given) = (!spellings.is_empty()).then(|| scenario(value)).flatten() else {
                    continue;
                };
                if let Some(same) = spellings.into_iter().find(|own| scenario(own).as_ref() == Some(&given)) {
                    *value = same;
                }
            }
            if let Some(own) = self.values.get_mut(place) {
                own.values = spelled;
            }
        }
        self
    }
}

/// How results may write a value, the best first.
fn spellings(value: &str) -> Vec<String> {
    let text = match value.parse::<Value>() {
        Ok(Value::String(text)) => text,
        Ok(Value::Integer(number)) => return vec![number.to_string()],
        Ok(Value::Float(number)) if number.is_finite() => return vec![number.to_string()],
        Ok(list @ (Value::Array(_) | Value::Table(_))) => return vec![list.to_string()],
        _ => value.to_owned(),
    };
    let rate = text.parse::<DataRate>().map(|rate| rate.to_string());
    let time = text.parse::<TimeDelta>().map(|time| time.to_string());
    let size = text.parse::<DataSize>().map(|size| size.to_string());
    [rate, time, size].into_iter().flatten().chain([text]).collect()
}

#[cfg(test)]
mod tests {
    use crate::{
        run::sweep::{Seeds, Sweep},
        scenario::Document,
    };

    const FILE: &str = r#"
duration = "2 s"
link = [{ id = "wire", from = "here", to = "there", rate = "1 Mbit/s", delay = "20 ms", loss = 0.1 }]
flow = [{ id = "voice", kind = "cbr", rate = "64 kbit/s", size = "200 B" }]
"#;

    fn spelled(values: &[&str]) -> Vec<Vec<String>> {
        let sweep = Sweep {
            document: Document::parse(FILE, "sweep.toml").unwrap(),
            values: values.iter().map(|values| values.parse().unwrap()).collect(),
            seeds: Seeds(vec![1]),
        };
        sweep.spelled().values.into_iter().map(|own| own.values).collect()
    }

    #[test]
    fn a_value_has_one_spelling_however_it_is_given() {
        let rates = spelled(&["wire.rate=1M,1000 kbit/s,\"1 Mbit/s\",1.0 Mbps,1000000,1000001bps,unlimited"]);
        let one = "1 Mbit/s";
        // A number without a unit is no rate: it stays, and the plan refuses it.
        assert_eq!(rates, [[one, one, one, one, "1000000", "1.000001 Mbit/s", "unlimited"]]);
        let all = ["voice.size=200 B,2k,0.2 kB", "wire.delay=0.02s,20 ms,20000 us", "wire.loss=0.10,1e-1,.1"];
        assert_eq!(spelled(&all), [["200 B", "2000 B", "200 B"], ["20 ms"; 3], ["0.1", "0.1", ".1"]]);
        let tables =
            r#"wire.queue={kind="codel",target="5ms"},{ target = "5ms", kind = "codel" },"codel",codel"#;
        let queues = spelled(&[tables]).remove(0);
        assert_eq!(queues[0], queues[1]);
        assert_eq!(queues[2..], ["codel", "codel"]);
    }

    #[test]
    fn a_spelling_that_means_something_else_is_not_taken() {
        // Names that look like quantities, and values that are not valid.
        let found = spelled(&["name=1M,\"1000 ms\"", "wire.rate=fast"]);
        assert_eq!(found, [vec!["1M", "\"1000 ms\""], vec!["fast"]]);
        assert_eq!(spelled(&["name=1M,\"1000 ms\""]), [["1M", "1000 ms"]]);
    }
}
