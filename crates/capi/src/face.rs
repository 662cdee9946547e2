//! The functions of the library.

#![allow(
    unsafe_code,
    reason = "functions for C take pointers, which the rules in the header bind the caller to"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the rules are the same for all functions: cbindgen.toml puts them into the header"
)]

use std::{
    ffi::{CStr, CString, c_char},
    panic::{self, AssertUnwindSafe},
    ptr, slice,
};

use giusto_congestion::Algorithm;
use giusto_units::{Ecn, PeerTimestamp};

use crate::{
    session::Session,
    sized,
    status::{Failure, GiustoStatus, c_text},
    types::{
        GIUSTO_NEVER, GiustoConfig, GiustoFeedback, GiustoPacket, GiustoProbe, GiustoRequirements,
        GiustoTarget, GiustoTotals,
    },
};

/// Version of the binary interface. It grows when a program must be compiled anew; functions and fields are added without.
pub const GIUSTO_ABI_VERSION: u32 = 1;

/// Most reports in one feedback.
const MOST_REPORTS: usize = 1 << 20;

/// A congestion controller with the packets that were sent. Made by `giusto_new`, freed by `giusto_free`.
#[derive(Debug)]
pub struct GiustoController {
    session: Session,
    /// A call has panicked, so that the state may be inconsistent.
    is_broken: bool,
    error: CString,
    decision: CString,
}

impl GiustoController {
    fn new(session: Session) -> Self {
        Self { session, is_broken: false, error: CString::default(), decision: CString::default() }
    }
}

/// Runs `call`, and keeps the text of its failure. A panic ends here.
///
/// # Safety
///
/// `controller` is NULL or of `giusto_new`, not freed, and no other call uses it.
unsafe fn guarded(
    controller: *mut GiustoController,
    call: impl FnOnce(&mut Session) -> Result<GiustoStatus, Failure>,
) -> GiustoStatus {
    // SAFETY: `giusto_new` made it by `Box`, and the caller promises that nobody else uses it now.
    let Some(controller) = (unsafe { controller.as_mut() }) else {
        return GiustoStatus::GiustoInvalidArgument;
    };
    if controller.is_broken {
        return GiustoStatus::GiustoBroken;
    }
    let session = &mut controller.session;
    let failure = match panic::catch_unwind(AssertUnwindSafe(|| call(session))) {
        Ok(Ok(status)) => {
            return status;
        }
        Ok(Err(failure)) => failure,
        Err(payload) => {
            controller.is_broken = true;
            let why = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let why = why.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
            // Dropping it may panic again.
            std::mem::forget(payload);
            Failure {
                status: GiustoStatus::GiustoBroken,
                text: format!("an error of libgiusto, please report it: {why}"),
            }
        }
    };
    controller.error = c_text(&failure.text);
    failure.status
}

/// What `read` returns of a controller that serves; `other` if it does not.
///
/// # Safety
///
/// As of [`guarded`].
unsafe fn asked<T>(controller: *const GiustoController, other: T, read: impl FnOnce(&Session) -> T) -> T {
    // SAFETY: `giusto_new` made it by `Box`, and the caller promises that nobody changes it now.
    match unsafe { controller.as_ref() } {
        Some(controller) if !controller.is_broken => {
            panic::catch_unwind(AssertUnwindSafe(|| read(&controller.session))).unwrap_or(other)
        }
        _ => other,
    }
}

/// Copies `text` with its final NUL to `to`, as much as `capacity` holds. Returns the length of all of it, without NUL.
///
/// # Safety
///
/// `to` is NULL, or `capacity` bytes can be written there.
unsafe fn copy_text(text: &str, to: *mut c_char, capacity: usize) -> usize {
    if !to.is_null() && capacity > 0 {
        let mut end = text.len().min(capacity - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // SAFETY: `end` is below `capacity`, and at most the length of `text`, which is our own.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), end);
            to.add(end).write(0);
        }
    }
    text.len()
}

/// `GIUSTO_ABI_VERSION` of the library that runs. It must equal that of the header.
#[unsafe(no_mangle)]
pub extern "C" fn giusto_abi_version() -> u32 {
    GIUSTO_ABI_VERSION
}

/// Version of the library, such as "0.1.0". It is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn giusto_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// Writes the names of all controllers, each with a newline behind it, to `text`, which holds `capacity` bytes: as much as fits, and a NUL.
/// Returns the length of all of them, without NUL, so that a call with NULL and 0 tells the capacity to provide less 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_names(text: *mut c_char, capacity: usize) -> usize {
    let names: String = Algorithm::all().flat_map(|algorithm| [algorithm.name(), "\n"]).collect();
    // SAFETY: the caller promises what the header says.
    unsafe { copy_text(&names, text, capacity) }
}

/// Makes a controller.
///
/// `name` is one of `giusto_names`, to which constants may be added: "nada+kappa=0.4+tau=450ms". `config` may be NULL: the defaults.
/// `*controller` becomes the new one, which you free with `giusto_free`, or NULL at an error. Then `error`, if it is not NULL, gets the text
/// of the error: as much as `error_capacity` bytes hold, and a NUL.
///
/// Returns `GIUSTO_OK`, `GIUSTO_UNKNOWN_CONTROLLER` or `GIUSTO_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_new(
    name: *const c_char,
    config: *const GiustoConfig,
    controller: *mut *mut GiustoController,
    error: *mut c_char,
    error_capacity: usize,
) -> GiustoStatus {
    let made = panic::catch_unwind(AssertUnwindSafe(|| {
        if controller.is_null() || !controller.is_aligned() {
            return Err(Failure::argument("giusto_new: expected the place of a controller, found NULL"));
        }
        // SAFETY: it is not NULL, and the caller promises that it can be written.
        unsafe { controller.write(ptr::null_mut()) };
        if name.is_null() {
            return Err(Failure::argument("giusto_new: expected the name of a controller, found NULL"));
        }
        // SAFETY: the caller promises a text that ends with NUL.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let config = if config.is_null() {
            None
        } else {
            // SAFETY: the caller promises a `GiustoConfig`.
            Some(unsafe { sized::read(config) }?)
        };
        Session::new(&name, config.as_ref())
    }));
    let failure = match made {
        Ok(Ok(session)) => {
            // SAFETY: it was checked above, and the caller promises that it can be written.
            unsafe { controller.write(Box::into_raw(Box::new(GiustoController::new(session)))) };
            return GiustoStatus::GiustoOk;
        }
        Ok(Err(failure)) => failure,
        Err(_) => Failure {
            status: GiustoStatus::GiustoBroken,
            text: "an error of libgiusto, please report it".into(),
        },
    };
    // SAFETY: the caller promises that `error_capacity` bytes can be written at `error`, if that is not NULL.
    unsafe { copy_text(&failure.text, error, error_capacity) };
    failure.status
}

/// Frees a controller. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_free(controller: *mut GiustoController) {
    if !controller.is_null() {
        // SAFETY: `giusto_new` made it by `Box::into_raw`, and the caller promises that it is freed once.
        let owned = unsafe { Box::from_raw(controller) };
        // A destructor that panics must not unwind into C.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(owned)));
    }
}

/// The text of the latest error of this controller; empty if there was none. It belongs to the controller and is valid until the next call
/// with it. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_error(controller: *const GiustoController) -> *const c_char {
    // SAFETY: `giusto_new` made it by `Box`, and the caller promises that nobody changes it now.
    unsafe { controller.as_ref() }.map_or(ptr::null(), |controller| controller.error.as_ptr())
}

/// A packet has left at `now_ns`. `number`, if it is not NULL, gets its number: 0, 1, 2 and so on, to which the reports of
/// `giusto_on_feedback` refer.
///
/// Returns `GIUSTO_OK` or `GIUSTO_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_on_sent(
    controller: *mut GiustoController,
    now_ns: u64,
    packet: *const GiustoPacket,
    number: *mut u64,
) -> GiustoStatus {
    let call = |session: &mut Session| {
        // SAFETY: the caller promises a `GiustoPacket`.
        let packet = unsafe { sized::read(packet) }?;
        let given = session.on_sent(now_ns, &packet)?;
        if !number.is_null() && number.is_aligned() {
            // SAFETY: it is not NULL, and the caller promises that it can be written.
            unsafe { number.write(given) };
        }
        Ok(GiustoStatus::GiustoOk)
    };
    // SAFETY: the caller promises what the header says.
    unsafe { guarded(controller, call) }
}

/// An RTCP datagram has arrived at `now_ns`: decrypted, compound or not, with TWCC, RFC 8888, REMB, NADA feedback, sender and receiver reports.
/// Other packets in it are skipped. Reports of packets that `giusto_on_sent` does not know are ignored.
///
/// Returns `GIUSTO_OK`, `GIUSTO_NONE` if it says nothing new, `GIUSTO_INVALID_RTCP` or `GIUSTO_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_on_rtcp(
    controller: *mut GiustoController,
    now_ns: u64,
    datagram: *const u8,
    size: usize,
) -> GiustoStatus {
    let call = |session: &mut Session| {
        if datagram.is_null() || isize::try_from(size).is_err() {
            let text = "giusto_on_rtcp: expected a datagram and its size, found NULL or a size out of range";
            return Err(Failure::argument(text));
        }
        // SAFETY: it is not NULL, its size fits `isize`, and the caller promises that so many bytes can be read.
        session.on_rtcp(now_ns, unsafe { slice::from_raw_parts(datagram, size) })
    };
    // SAFETY: the caller promises what the header says.
    unsafe { guarded(controller, call) }
}

/// Feedback in a format of your own has arrived at `now_ns`: one call for each message. Report each packet once it has arrived or is lost; a
/// packet that was lost may be reported again when it has arrived.
///
/// Returns `GIUSTO_OK`, `GIUSTO_NONE` if it says nothing new, or `GIUSTO_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_on_feedback(
    controller: *mut GiustoController,
    now_ns: u64,
    feedback: *const GiustoFeedback,
) -> GiustoStatus {
    let call = |session: &mut Session| {
        // SAFETY: the caller promises a `GiustoFeedback`.
        let feedback = unsafe { sized::read(feedback) }?;
        let count = feedback.report_count;
        if count > MOST_REPORTS {
            let text = format!("GiustoFeedback.report_count must be at most {MOST_REPORTS}, found {count}");
            return Err(Failure::argument(text));
        }
        let mut receipts = Vec::with_capacity(count);
        let mut next = feedback.reports;
        for _ in 0..count {
            // SAFETY: the caller promises `report_count` reports of `report_size` bytes.
            let report = unsafe { sized::read_as(next, feedback.report_size) }?;
            let arrival =
                (report.arrival_ns != GIUSTO_NEVER).then_some(PeerTimestamp::from_nanos(report.arrival_ns));
            if report.ecn > 3 {
                let text = format!("GiustoReport.ecn must be 0 to 3, found {}", report.ecn);
                return Err(Failure::argument(text));
            }
            receipts.push((report.number, arrival, Ecn::from_bits(report.ecn as u8)));
            next = next.wrapping_byte_add(feedback.report_size);
        }
        session.on_feedback(now_ns, &receipts, &feedback)
    };
    // SAFETY: the caller promises what the header says.
    unsafe { guarded(controller, call) }
}

/// The time of `giusto_next_timeout` has come, or the session begins: make this the first call. `queue_bytes` wait in your queue, the oldest
/// for `oldest_ns`.
///
/// Returns `GIUSTO_OK` or `GIUSTO_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_on_timeout(
    controller: *mut GiustoController,
    now_ns: u64,
    queue_bytes: u64,
    oldest_ns: u64,
) -> GiustoStatus {
    // SAFETY: the caller promises what the header says.
    unsafe { guarded(controller, |session| session.on_timeout(now_ns, queue_bytes, oldest_ns)) }
}

/// The latest time at which to call `giusto_on_timeout`, ns. `GIUSTO_NEVER`: none. It may be past: call at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_next_timeout(controller: *const GiustoController) -> u64 {
    // SAFETY: the caller promises what the header says.
    unsafe { asked(controller, GIUSTO_NEVER, Session::next_timeout) }
}

/// Sets new limits at `now_ns`, bit/s; one that is 0 stays. A target outside them moves at once; the start rate is that after a change of the
/// route.
///
/// Returns `GIUSTO_OK` or `GIUSTO_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_set_limits(
    controller: *mut GiustoController,
    now_ns: u64,
    min_bps: u64,
    start_bps: u64,
    max_bps: u64,
) -> GiustoStatus {
    // SAFETY: the caller promises what the header says.
    unsafe { guarded(controller, |session| session.set_limits(now_ns, [min_bps, start_bps, max_bps])) }
}

/// The route has changed, for example from Wi-Fi to cellular: the target returns to the start rate, and packets sent before are forgotten.
///
/// Returns `GIUSTO_OK` or `GIUSTO_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_on_route_change(
    controller: *mut GiustoController,
    now_ns: u64,
) -> GiustoStatus {
    let call = |session: &mut Session| {
        session.on_route_change(now_ns);
        Ok(GiustoStatus::GiustoOk)
    };
    // SAFETY: the caller promises what the header says.
    unsafe { guarded(controller, call) }
}

/// What may be sent now. Read it after each `giusto_on_...` and `giusto_set_limits`. Set `target->size` first.
///
/// Returns `GIUSTO_OK` or `GIUSTO_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_target(
    controller: *mut GiustoController,
    target: *mut GiustoTarget,
) -> GiustoStatus {
    // SAFETY: the caller promises what the header says.
    unsafe {
        guarded(controller, |session| {
            sized::write(target, &session.target()).map(|()| GiustoStatus::GiustoOk)
        })
    }
}

/// Takes the next probe to send. Ask until there is no more, after each `giusto_on_...`. Set `probe->size` first.
///
/// Returns `GIUSTO_OK`, `GIUSTO_NONE` if there is none, or `GIUSTO_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_next_probe(
    controller: *mut GiustoController,
    probe: *mut GiustoProbe,
) -> GiustoStatus {
    let call = |session: &mut Session| {
        // SAFETY: the caller promises a `GiustoProbe`. It is checked before a probe is taken.
        unsafe { sized::check_written(probe) }?;
        let Some(next) = session.next_probe() else { return Ok(GiustoStatus::GiustoNone) };
        // SAFETY: the caller promises what the header says.
        unsafe { sized::write(probe, &next) }.map(|()| GiustoStatus::GiustoOk)
    };
    // SAFETY: the caller promises what the header says.
    unsafe { guarded(controller, call) }
}

/// What the controller requires of you and of the receiver. Set `requirements->size` first.
///
/// Returns `GIUSTO_OK` or `GIUSTO_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_requirements(
    controller: *mut GiustoController,
    requirements: *mut GiustoRequirements,
) -> GiustoStatus {
    let call = |session: &mut Session| {
        // SAFETY: the caller promises a `GiustoRequirements`.
        unsafe { sized::write(requirements, &session.requirements()) }.map(|()| GiustoStatus::GiustoOk)
    };
    // SAFETY: the caller promises what the header says.
    unsafe { guarded(controller, call) }
}

/// What has been sent and reported. Set `totals->size` first.
///
/// Returns `GIUSTO_OK` or `GIUSTO_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_totals(
    controller: *mut GiustoController,
    totals: *mut GiustoTotals,
) -> GiustoStatus {
    // SAFETY: the caller promises what the header says.
    unsafe {
        guarded(controller, |session| {
            sized::write(totals, &session.totals()).map(|()| GiustoStatus::GiustoOk)
        })
    }
}

/// The latest decision and its cause, as JSON: `{"at_ns":2500000000,"from_bps":900000,"to_bps":720000,"cause":"loss","ratio":0.12}`. It belongs
/// to the controller and is valid until the next call with it. NULL for NULL or a broken controller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn giusto_decision(controller: *mut GiustoController) -> *const c_char {
    let mut text = String::new();
    let call = |session: &mut Session| {
        text = session.decision()?;
        Ok(GiustoStatus::GiustoOk)
    };
    // SAFETY: the caller promises what the header says.
    if unsafe { guarded(controller, call) } != GiustoStatus::GiustoOk {
        return ptr::null();
    }
    // SAFETY: it is not NULL, since the call has succeeded; the same promise.
    unsafe { controller.as_mut() }.map_or(ptr::null(), |controller| {
        controller.decision = c_text(&text);
        controller.decision.as_ptr()
    })
}

#[cfg(test)]
mod tests {
    use giusto_congestion::{Decision, Limits, QueueState, SentPacket};
    use giusto_units::Timestamp;

    use super::*;

    /// A controller with an error.
    #[derive(Debug, Clone)]
    struct Panics;

    impl giusto_congestion::Controller for Panics {
        fn on_sent(&mut self, _: Timestamp, _: &SentPacket) {
            panic!("an index out of range");
        }
        fn on_feedback(&mut self, _: Timestamp, _: &giusto_congestion::Feedback<'_>) {}
        fn on_timeout(&mut self, _: Timestamp, _: &QueueState) {}
        fn next_timeout(&self) -> Option<Timestamp> {
            panic!("an error while reading");
        }
        fn set_limits(&mut self, _: Timestamp, _: Limits) {}
        fn on_route_change(&mut self, _: Timestamp) {}
        fn target(&self) -> giusto_congestion::Target {
            giusto_congestion::Target::default()
        }
        fn decision(&self) -> &Decision {
            const NONE: Decision =
                Decision::new(Timestamp::ZERO, giusto_units::DataRate::ZERO, giusto_congestion::Cause::Start);
            &NONE
        }
        fn clone_box(&self) -> Box<dyn giusto_congestion::Controller> {
            Box::new(self.clone())
        }
    }

    #[test]
    fn a_panic_becomes_an_error_and_ends_the_controller() {
        let made = Box::new(GiustoController::new(Session::with(Box::new(Panics))));
        let controller = Box::into_raw(made);
        let size = size_of::<GiustoPacket>();
        let [flags, ssrc, probe] = [0; 3];
        let [rtp_sequence, transport_sequence] = [0; 2];
        let packet = GiustoPacket { size, bytes: 1200, flags, ssrc, probe, rtp_sequence, transport_sequence };
        // SAFETY: the pointers are those of live values of this test, and one thread uses them.
        unsafe {
            assert_eq!(giusto_on_timeout(controller, 0, 0, 0), GiustoStatus::GiustoOk);
            assert_eq!(giusto_next_timeout(controller), GIUSTO_NEVER);
            let sent = giusto_on_sent(controller, 0, &raw const packet, ptr::null_mut());
            assert_eq!(sent, GiustoStatus::GiustoBroken);
            let text = CStr::from_ptr(giusto_error(controller)).to_str().unwrap();
            assert!(text.contains("an index out of range"), "{text}");
            assert_eq!(giusto_on_timeout(controller, 0, 0, 0), GiustoStatus::GiustoBroken);
            assert!(giusto_decision(controller).is_null());
            giusto_free(controller);
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let mut room = [1; 8];
        // SAFETY: it has the given number of bytes.
        let whole = unsafe { copy_text("größer", room.as_mut_ptr(), 5) };
        assert_eq!((whole, room.map(|byte| byte as u8)), (8, *b"gr\xc3\xb6\0\x01\x01\x01"));
        // SAFETY: a pointer that is NULL is not used.
        assert_eq!(unsafe { copy_text("abc", ptr::null_mut(), 5) }, 3);
    }
}
