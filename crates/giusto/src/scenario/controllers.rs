//! Controllers by name, with constants, and in files; scenarios with other controllers.

use std::path::Path;

use giusto_congestion::Algorithm;

use super::{
    FlowKind, Scenario, ScenarioError,
    error::{nearest, read_text},
    read,
};

/// A built-in controller by its name, to which constants may be added, as [`Algorithm::name`] gives them: `nada+kappa=0.4+tau=450ms`.
///
/// # Errors
///
/// What is unknown or out of range, and what is known.
///
/// # Example
///
/// ```
/// use giusto::scenario::controller;
///
/// let slow = controller("nada+kappa=0.4+tau=0.45s")?;
/// assert_eq!(slow.name(), "nada+kappa=0.4+tau=450ms");
/// assert_eq!(controller("nada+kapa=0.4").unwrap_err(), "nada has no constant \"kapa\": did you mean \"kappa\"?");
/// # Ok::<(), String>(())
/// ```
pub fn controller(name: &str) -> Result<Algorithm, String> {
    read::controller_named(name, |name| {
        let known: Vec<&str> = Algorithm::all().map(Algorithm::name).collect();
        let hint =
            nearest(name, &known).map_or_else(String::new, |near| format!("did you mean \"{near}\"? "));
        format!("unknown controller \"{name}\": {hint}expected one of {}", known.join(", "))
    })
}

/// Whether this is the name of a file of constants.
pub(crate) fn is_controller_file(text: &str) -> bool {
    read::is_file(text)
}

/// The same, or the controller of a file, whose name ends with `.toml`: `algorithm = "nada"`, and lines such as `kappa = 0.4`.
///
/// # Errors
///
/// What is unknown or out of range, with its line in a file, or why the file cannot be read.
pub fn load_controller(text: &str) -> Result<Algorithm, String> {
    if is_controller_file(text) {
        return read_text(Path::new(text), false)
            .and_then(|content| read::controller_of_file(text, &content));
    }
    controller(text)
}

impl Scenario {
    /// This scenario with another controller for the media flow `flow`, which may be of the caller's own
    /// ([`Algorithm::custom`]).
    ///
    /// Settings that the controller does not support are removed: feedback that it does not accept, options that it
    /// lacks, a receiver limit.
    ///
    /// # Errors
    ///
    /// No media flow has this name.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto::scenario::Scenario;
    ///
    /// let text = r#"
    ///     duration = "5 s"
    ///     [[link]]
    ///     id = "bottleneck"
    ///     from = "camera"
    ///     to = "viewer"
    ///     rate = "1 Mbit/s"
    ///     reverse = { rate = "unlimited" }
    ///     [[flow]]
    ///     id = "call"
    ///     kind = "media"
    ///     from = "camera"
    ///     to = "viewer"
    /// "#;
    /// let scenario = Scenario::parse(text, "call.toml")?.with_controller("call", "scream:v2".parse()?)?;
    /// assert!(scenario.with_controller("other", "scream:v2".parse()?).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_controller(mut self, flow: &str, algorithm: Algorithm) -> Result<Self, ScenarioError> {
        let media = self.flows.iter_mut().find_map(|spec| match &mut spec.kind {
            FlowKind::Media(media) if spec.id == flow => Some(media),
            _ => None,
        });
        let Some(media) = media else {
            let text = format!("{}: no media flow is called \"{flow}\"", self.name);
            return Err(ScenarioError::new(vec![text]));
        };
        media.set_controller(algorithm);
        Ok(self)
    }

    /// This scenario with another controller for all of its media flows, as [`with_controller`](Self::with_controller).
    ///
    /// # Errors
    ///
    /// There is no media flow.
    pub fn with_controller_of_all(mut self, algorithm: Algorithm) -> Result<Self, ScenarioError> {
        let mut found = false;
        for spec in &mut self.flows {
            if let FlowKind::Media(media) = &mut spec.kind {
                media.set_controller(algorithm);
                found = true;
            }
        }
        if found {
            return Ok(self);
        }
        let text =
            format!("{}: it has no media flow for {algorithm}: add one of kind = \"media\"", self.name);
        Err(ScenarioError::new(vec![text]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.toml");
        std::fs::write(&path, text).unwrap();
        let name = path.display().to_string();
        load_controller(&name).unwrap_err().replace(&name, "own.toml")
    }

    #[test]
    fn errors_of_a_file_name_each_line() {
        insta::assert_snapshot!(complaint("algorithm = \"nada\"\n\nkapa = 0.4\ntau = 5\n"), @r#"
        own.toml:3: nada has no constant "kapa": did you mean "kappa"?
        own.toml:4: tau: expected a text with a unit, such as "500 ms", found 5
        "#);
        insta::assert_snapshot!(complaint("kappa = 0.4\n"), @r#"own.toml:1: algorithm is missing: add algorithm = "nada", or another name"#);
        insta::assert_snapshot!(complaint("algorithm = \"nada\"\nkappa = 0.4\nkappa = 0.5\n"), @"own.toml:3: duplicate key");
        let unknown = complaint("algorithm = \"nata\"\n");
        let start = "own.toml:1: algorithm: unknown name \"nata\": did you mean \"nada\"?";
        assert!(unknown.starts_with(start), "{unknown}");
        assert!(load_controller("nowhere/own.toml").unwrap_err().starts_with("nowhere/own.toml"));
    }

    #[test]
    fn the_same_constants_are_the_same_controller() {
        let one = controller("nada+kappa=0.31+tau=450ms").unwrap();
        let same = controller("nada+tau=0.45s+kappa=0.310").unwrap();
        assert!(std::ptr::eq(one.name(), same.name()), "nothing is made twice");
        assert_eq!(controller(one.name()), Ok(one));
        assert_eq!(controller("nada").map(Algorithm::name), Ok("nada"));
    }
}
