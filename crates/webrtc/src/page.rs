//! The web page of a call: its requests and their answers.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    time::Duration,
};

use giusto_net::{
    Clock,
    http::{Request, Response},
};
use giusto_units::{DataSize, Timestamp};
use serde::{Deserialize, Serialize};

use crate::result::{BrowserFigures, BrowserSample, LiveBrowser, Posted, Sample, short};

/// The page: it receives the call, sends camera and microphone, or both, and posts its statistics.
const PAGE: &str = include_str!("page.html");
/// Time within which an offer is answered; else the loop has ended.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The answer to further browsers.
pub(crate) const TAKEN: &str =
    "this call already has a browser: close its page, or start another `giusto call --browser`";

/// An offer from a client, and where its answer goes: with the token of the call.
pub(crate) struct Asked {
    pub(crate) from: SocketAddr,
    pub(crate) offer: String,
    pub(crate) reply: mpsc::SyncSender<Result<(String, String), String>>,
}

#[derive(Deserialize)]
struct PostedOffer {
    sdp: String,
}

/// The answer to a message of the page.
#[derive(Serialize)]
struct Answer<'a> {
    end: bool,
    /// Why the call is over.
    why: Option<&'a str>,
    /// The latest sample of our end.
    own: Option<Sample>,
}

/// What the page and the loop share.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The token of the call; `None`: there is none.
    token: Option<String>,
    figures: BrowserFigures,
    own: Option<Sample>,
    /// Time 0 of the samples; `None`: media do not flow yet.
    zero: Option<Timestamp>,
    /// Why the call is over; the answer to the page's next message says so.
    over: Option<String>,
    /// The page has sent its last message.
    page_ended: bool,
    posted_at: Option<Timestamp>,
    page_error: Option<String>,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        // What it guards is valid after each statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins, whose page has this token.
    pub(crate) fn begin(&self, token: String) {
        *self.lock() = State { token: Some(token), ..State::default() };
    }

    /// There is no call any more.
    pub(crate) fn reset(&self) {
        *self.lock() = State::default();
    }

    pub(crate) fn connected(&self, at: Timestamp) {
        self.lock().zero = Some(at);
    }

    pub(crate) fn show(&self, own: Option<&Sample>) {
        self.lock().own = own.copied();
    }

    pub(crate) fn end(&self, why: String) {
        self.lock().over = Some(why);
    }

    pub(crate) fn page_has_ended(&self) -> bool {
        self.lock().page_ended
    }

    pub(crate) fn has_posted_since(&self, time: Timestamp) -> bool {
        self.lock().posted_at.is_some_and(|at| at >= time)
    }

    pub(crate) fn take_page_error(&self) -> Option<String> {
        self.lock().page_error.take()
    }

    pub(crate) fn take_figures(&self) -> BrowserFigures {
        std::mem::take(&mut self.lock().figures)
    }

    /// The browser's figures since `mark`, which becomes its latest sample.
    pub(crate) fn interval(&self, mark: &mut BrowserSample, overhead: DataSize) -> Option<LiveBrowser> {
        let latest = self.lock().figures.samples.back().cloned()?;
        let live = LiveBrowser::between(mark, &latest, overhead);
        *mark = latest;
        live
    }

    /// Takes a message of the page that arrived at `now`; returns the answer.
    fn take(&self, now: Timestamp, mut posted: Posted) -> Response {
        let mut state = self.lock();
        let State { token, figures, own, zero, over, page_ended, posted_at, page_error } = &mut *state;
        if token.is_none() || *token != posted.token {
            // A page whose call was refused may say why.
            if token.is_none() && !posted.error.is_empty() {
                *page_error = Some(short(&posted.error));
            }
            return Response::text("403 Forbidden", "this page is not in a call: reload it\n");
        }
        let end = posted.end;
        if zero.is_none() {
            // Samples need a time axis; an error of the page does not.
            posted.samples.clear();
        }
        let time_s = now.saturating_since(zero.unwrap_or_default()).as_seconds();
        figures.take(time_s, posted);
        *page_ended |= end;
        *posted_at = Some(now);
        let answer = Answer { end: end || over.is_some(), why: over.as_deref(), own: *own };
        match serde_json::to_string(&answer) {
            Ok(text) => Response::json(text),
            Err(error) => Response::text("500 Internal Server Error", error.to_string()),
        }
    }
}

/// Whether the request comes from our page: another site's page must not start a call, nor one whose name was made to point here.
fn is_own_page(request: &Request) -> bool {
    let Some(host) = request.host.as_deref() else { return false };
    let name =
        host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    let literal = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    let own = format!("http://{host}");
    (literal || name.eq_ignore_ascii_case("localhost"))
        && request.origin.as_deref().is_none_or(|origin| origin.eq_ignore_ascii_case(&own))
}

/// The page of a call: whether video goes to the browser and comes from it, and whether speech goes to it.
pub(crate) fn page_of((sends, receives): (bool, bool), sends_voice: bool) -> String {
    let direction = |to_browser, from_browser| match (to_browser, from_browser) {
        (true, true) => "sendrecv",
        (false, true) => "sendonly",
        (true, false) => "recvonly",
        (false, false) => "inactive",
    };
    let own = format!(
        "data-video=\"{}\" data-audio=\"{}\"",
        direction(sends, receives),
        direction(sends_voice, receives)
    );
    PAGE.replacen("data-video=\"recvonly\" data-audio=\"inactive\"", &own, 1)
}

/// Answers a request. It runs on a thread of the server, never on that of the call.
pub(crate) fn respond(
    clock: Clock,
    from: SocketAddr,
    request: &Request,
    (page, board): (&str, &Board),
    asks: &mpsc::SyncSender<Asked>,
) -> Response {
    if !is_own_page(request) {
        return Response::text("403 Forbidden", "open the page by its address or as localhost\n");
    }
    match (request.method.as_str(), request.path.as_str()) {
        ("GET" | "HEAD", "/") => Response::page(page),
        ("POST", "/offer") => {
            let Ok(PostedOffer { sdp: offer }) = serde_json::from_slice(&request.body) else {
                return Response::text("400 Bad Request", "expected {\"sdp\": \"…\"}\n");
            };
            let (reply, answer) = mpsc::sync_channel(1);
            let is_taken = board.lock().token.is_some();
            if is_taken || asks.try_send(Asked { from, offer, reply }).is_err() {
                return Response::text("409 Conflict", format!("{TAKEN}\n"));
            }
            match answer.recv_timeout(ANSWER_TIMEOUT) {
                Ok(Ok((sdp, token))) => {
                    Response::json(serde_json::json!({ "sdp": sdp, "token": token }).to_string())
                }
                Ok(Err(why)) => Response::text("400 Bad Request", why),
                Err(_) => Response::text("503 Service Unavailable", "the call has ended\n"),
            }
        }
        ("POST", "/stats") => match serde_json::from_slice::<Posted>(&request.body) {
            Ok(posted) => board.take(clock.now(), posted),
            Err(_) => Response::text("400 Bad Request", "expected {\"token\": \"…\", \"samples\": […]}\n"),
        },
        ("GET" | "HEAD" | "POST", _) => Response::text("404 Not Found", "nothing here: see /\n"),
        _ => {
            let refused = Response::text("405 Method Not Allowed", "use GET or POST\n");
            refused.with_header("Allow", "GET, HEAD, POST")
        }
    }
}
