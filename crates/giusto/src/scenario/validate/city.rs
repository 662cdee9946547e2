//! Validation of cities.

use giusto_lte::city::CityError;
use giusto_sim::link::queue::{Discipline, Limit};

use super::{check, expectation::limits, failed, is_folder_name, media};
use crate::scenario::{
    city::{CityExpectation, CityScenario, CitySpec},
    error::{At, Finding, KeyError},
};

/// The scenario, or everything that is wrong with it.
pub(in crate::scenario) fn scenario(scenario: CityScenario) -> Result<CityScenario, Vec<Finding>> {
    let CityScenario { name, spec, expectations, .. } = &scenario;
    let checks = [check(
        is_folder_name(name),
        "name",
        format_args!("name {name:?} cannot be the name of a folder: use letters, digits and spaces"),
    )];
    let mut found: Vec<Finding> = Vec::new();
    found.extend(failed(checks).map(|(key, text)| (At::new("", 0, key), text)));
    city(spec, &mut found);
    for (index, expectation) in expectations.iter().enumerate() {
        let checks = [self::expectation(spec, expectation)];
        let of = |(key, text)| (At::new("expect", index, key), format!("expect of {text}"));
        found.extend(failed(checks).map(of));
    }
    if found.is_empty() { Ok(scenario) } else { Err(found) }
}

fn city(spec: &CitySpec, found: &mut Vec<Finding>) {
    let at = |key| At::new("city", 0, key);
    let mut add = |at, text: String| found.push((at, format!("city: {text}")));
    let CitySpec { config, media, queue } = spec;
    if let Err(error) = config.validate() {
        match error {
            CityError::Range { setting, range, found } => {
                let key = if setting == "end of the evaluation" { "evaluation" } else { "files" };
                add(at(key), format!("{key}: {setting} must be {range}, found {found}"));
            }
            error => add(at("files"), format!("files: {error}")),
        }
    } else if let Err(error) = config.deployment.check() {
        add(at("path-loss"), error.to_string());
    }
    if let Err((key, element, text)) = media::validate(media) {
        add(At { element, ..at(key) }, text);
    }
    let videos = media.videos.len();
    let pauses = media.videos.iter().any(|video| !video.pauses.is_empty()) || !media.pauses.is_empty();
    let checks = [
        check(videos == 1, "video", format_args!("video: a call has one video, found {videos}")),
        check(!pauses, "pauses", format_args!("pauses: a call has none: remove them")),
        limit(queue.discipline()),
        queue.discipline().validate().map_err(|error| ("queue", format!("queue: {error}"))),
    ];
    for (key, text) in failed(checks) {
        add(at(key), text);
    }
}

fn expectation(spec: &CitySpec, expectation: &CityExpectation) -> Result<(), KeyError> {
    let CityExpectation { metric, direction, min, max, .. } = expectation;
    let title = expectation.title();
    let text = format_args!("{title}: only metrics of the radio have a direction: remove it");
    check(direction.is_none() || metric.is_of_radio(), "direction", text)?;
    let is_fixed = spec.config.opposite == giusto_lte::city::Opposite::Fixed;
    let missing = is_fixed && direction.is_some_and(|direction| direction != spec.config.direction);
    let text = format_args!("{title}: this direction is not modelled: set opposite = \"radio\"");
    check(!missing, "direction", text)?;
    limits(*min, *max).map_err(|(key, text)| (key, format!("{title}: {text}")))
}

/// A limit in time needs the rate of a link, and a bearer that is not served has none.
fn limit(queue: &dyn Discipline) -> Result<(), KeyError> {
    let Limit::Time(time) = queue.limit() else { return Ok(()) };
    let fix = "limit it in packets or bytes";
    Err(("queue", format!("queue: a bearer has no rate of its own, found a limit of {time}: {fix}")))
}
