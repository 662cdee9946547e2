//! Scenarios with controllers of the caller's own.

use giusto_congestion::Algorithm;

use super::{FlowKind, Scenario, ScenarioError};

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
}
