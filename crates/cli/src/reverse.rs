//! `giusto send --reverse` and `--bidir`: the far end sends, or both ends do.

use std::{
    net::SocketAddr,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use giusto_net::{TrafficClass, driver::Verdict};
use giusto_pace::IpVersion;
use giusto_session::probe::{Ended, ReceiverEvent};
use giusto_units::TimeDelta;
use serde_json::json;

use crate::{
    args::{DEFAULT_PORT, read_keys, resolve_all},
    console::{self, Progress},
    output::Output,
    send::{SendArgs, is_silent, stream_plan},
    usage::UsageError,
};
use giusto::measured::{
    RunError,
    interval::{IntervalFigures, ReceptionIntervals},
    plan::ResolvedPlan,
    recv::{self, Reception},
    result::{LiveFigures, RunResult},
    send::{self, Destination, Transmission},
};

/// How long the far end may take to begin what it has agreed to.
const BEGINS: TimeDelta = TimeDelta::from_seconds(5);

/// How long the receiver answers a sender that has not got the final report.
const LINGER: TimeDelta = TimeDelta::from_millis(300);

pub(crate) fn run(args: &SendArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let mut output = Output::new(args.json, &args.output, false);
    let progress = Progress::live();
    let mut asked = ask(args, stop)?;
    let mut printed = Ok(());
    let on_live = |shown: Shown<'_>| {
        match shown {
            Shown::Live(live) => progress.say(format!("from the far end: {}", console::live_line(live))),
            Shown::Interval(figures) if printed.is_ok() => printed = output.interval(*figures),
            Shown::Interval(_) => {}
        }
        if output.is_closed() || printed.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let both = thread::scope(|scope| {
        let sending = args.bidir.then(|| {
            let Asked { plan, destination, .. } = &asked;
            let (plan, destination) = (plan.clone(), destination.clone());
            scope.spawn(move || send::run(&plan, &destination, stop, |_| {}))
        });
        let received = measure(&mut asked.reception, args.output.interval(), stop, on_live);
        let sent = sending.map(|thread| thread.join().unwrap_or(Err(RunError::Thread("sending"))));
        received.map(|received| (sent, received))
    });
    progress.clear();
    printed?;
    let (sent, received) = both?;
    report(&mut output, &asked, sent.transpose()?.as_ref(), received, stop)
}

/// A far end that has agreed to send.
struct Asked {
    plan: ResolvedPlan,
    destination: Destination,
    reception: Reception,
}

/// Asks the first address of the host that answers.
fn ask(args: &SendArgs, stop: &AtomicBool) -> anyhow::Result<Asked> {
    let traffic_class = TrafficClass::from_byte(args.dscp << 2 | args.ecn.bits());
    let keys = args.key_file.as_deref().map(read_keys).transpose()?;
    let plan = stream_plan(args)?;
    let addresses = resolve_all(&args.target, args.port, DEFAULT_PORT)?;
    for (index, to) in addresses.iter().copied().enumerate() {
        let plan = plan.clone().resolve(IpVersion::of(to.ip())).map_err(UsageError::from)?;
        let keys = keys.clone();
        let destination =
            Destination { to, streams: 1, one_way: false, traffic_class, keys, interval: None, feed: None };
        match Reception::ask(&plan, &destination, stop) {
            Ok(reception) => return Ok(Asked { plan, destination, reception }),
            Err(error) if index + 1 < addresses.len() && is_silent(&error) => {}
            Err(RunError::Socket(error)) => return Err(UsageError::new(error).into()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(UsageError::new(format!("unknown host in \"{}\": check the name", args.target)).into())
}

enum Shown<'a> {
    Live(&'a LiveFigures),
    Interval(&'a IntervalFigures),
}

/// Measures the stream that comes. Without one for [`BEGINS`] there is nothing to return.
fn measure(
    reception: &mut Reception,
    interval: Option<TimeDelta>,
    stop: &AtomicBool,
    mut show: impl FnMut(Shown<'_>),
) -> Result<Option<(Option<Ended>, RunResult)>, RunError> {
    let granted = reception.socket.granted().clone();
    let clock = reception.clock;
    let mut intervals = interval.map(ReceptionIntervals::new);
    let mut end = Some(clock.now() + BEGINS);
    let mut measured = None;
    reception.run(stop, |receiver, event| {
        let now = clock.now();
        let figures = intervals.as_mut().and_then(|all| all.on_event(now, receiver, event.as_ref(), None));
        if let Some(figures) = &figures {
            show(Shown::Interval(figures));
        }
        match event {
            Some(ReceiverEvent::Opened(_)) => end = None,
            Some(ReceiverEvent::Closed(_, mut stream)) => {
                let result = recv::result(&mut stream, receiver.cpu_ratio(), &granted);
                end = Some(
                    now + if stream.ended() == Some(Ended::Finished) { LINGER } else { TimeDelta::ZERO },
                );
                measured = Some((stream.ended(), result));
            }
            _ => show(Shown::Live(&recv::live(receiver))),
        }
        if end.is_some_and(|end| now >= end) { Verdict::Stop } else { Verdict::Continue }
    })?;
    Ok(measured)
}

fn report(
    output: &mut Output,
    asked: &Asked,
    sent: Option<&Transmission>,
    received: Option<(Option<Ended>, RunResult)>,
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let to: SocketAddr = asked.destination.to;
    let sent_results = sent.map(|sent| sent.results(&asked.plan)).unwrap_or_default();
    let is_complete = matches!(received, Some((Some(Ended::Finished), _))) || stop.load(Ordering::Relaxed);
    let received: Vec<RunResult> = received.into_iter().map(|(_, result)| result).collect();
    let all: Vec<RunResult> = sent_results.iter().chain(&received).cloned().collect();
    if output.is_one_object() {
        match &all[..] {
            [one] if sent.is_none() => output.object(one)?,
            many => output.object(&json!({ "runs": many }))?,
        }
    } else {
        for (title, results) in [("to", &sent_results), ("from", &received)] {
            if !results.is_empty() {
                output.results(Some(&format!("{title} {to}:")), results)?;
            }
        }
    }
    let failure = sent.and_then(Transmission::failure);
    let failure = failure.or_else(|| match received.is_empty() {
        _ if is_complete => None,
        true => Some(format!(
            "it agreed to send, but nothing arrived within {BEGINS}: is UDP blocked on the path?"
        )),
        false => Some("the sender there disappeared".to_owned()),
    });
    if let Some(failure) = failure {
        let part = if all.is_empty() { "" } else { "; the figures cover the time until then" };
        console::complain(&format!("error: {to}: {failure}{part}"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(console::measured(&all))
}
