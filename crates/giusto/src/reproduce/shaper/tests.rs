use super::*;

fn nothing_measured() -> Shaper {
    run(Plan::QUICK, |_| Ok(RunResult { ended: Some("interrupted".to_owned()), ..RunResult::default() }))
        .unwrap()
}
