//! `giusto explore`: a page on which a user changes the values of a scenario.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use clap::Args;
use giusto::{
    explore::{self, Explorer, Question, Side},
    run::comparison,
    scenario::{Document, Setting},
    view::html,
    whole_file::{self, Content},
};
use giusto_net::{
    Clock,
    http::{Limits, Pages, Response, Routes},
};
use giusto_units::TimeDelta;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{
    args::whole,
    console::{self, print_text},
    live_page::Engine,
    opener,
    usage::{UsageError, misuse},
};

/// The time that an answer may take.
const MAX_TIME: TimeDelta = TimeDelta::from_millis(120_000);

/// How often Ctrl-C is looked for.
const PATIENCE: Duration = Duration::from_millis(50);

/// Flags of `giusto explore`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto explore media
  giusto explore
  giusto explore media-vs-cubic --controller gcc:libwebrtc,scream:v2 --seeds 10
  giusto explore media --set bottleneck.rate=2M --no-open
  giusto explore media --out media.html

The page is served on loopback until Ctrl-C. Its address holds a random token: anyone who has it can run scenarios here.
docs/how-to/explore.md describes the page.")]
pub(crate) struct ExploreArgs {
    /// Scenario file, or name of a built-in scenario; without it the page begins with a gallery of scenarios
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Begin with a changed value, such as link.bottleneck.rate=5M; repeatable
    #[arg(long, value_name = "KEY=VALUE", requires = "file")]
    set: Vec<Setting>,

    /// Begin with these congestion controllers side by side, comma-separated
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', requires = "file")]
    controller: Vec<String>,

    /// Begin with this number of seeds
    #[arg(long, value_name = "N", default_value_t = 1, requires = "file", value_parser = whole::<u16>(1, explore::MAX_SEEDS.into()))]
    seeds: u16,

    /// Serve the page on this port of 127.0.0.1 [default: any free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Print the address of the page, and open no browser
    #[arg(long)]
    no_open: bool,

    /// Write the page to a file, with the simulator in it, instead of serving it
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["port", "no_open"])]
    out: Option<PathBuf>,

    /// With --out: the simulator that `make web` builds [default: giusto.wasm.gz beside giusto, in ../web or in ../share/giusto]
    #[arg(long, value_name = "FILE", requires = "out")]
    engine: Option<PathBuf>,
}

pub(crate) fn run(args: &ExploreArgs, stop: &Arc<AtomicBool>) -> anyhow::Result<ExitCode> {
    let document = args.file.as_ref().map(explore::load).transpose().map_err(UsageError::from)?;
    if document.as_ref().is_some_and(Document::is_city) {
        misuse!("a city is no network of links: run it by `giusto sim`, in Python by `giusto.city`");
    }
    if let Some(out) = &args.out {
        console::check_file("--out", out, Content::REPORT)?;
    }
    let side = document.as_ref().map(|document| Side::of(document, &args.set)).unwrap_or_default();
    let question = Question { sides: vec![side], controllers: args.controller.clone(), seeds: args.seeds };
    let explorer = Arc::new(Explorer::new(document.map(Document::keeping_traces)));
    if let Some(document) = explorer.file() {
        explorer.ask(&question).map_err(|error| UsageError::new(error.problems().join("\nerror: ")))?;
        // Of a scenario without media, which a page could replace by one with media.
        if let Ok(controllers) = args.controller.join(",").parse() {
            comparison::contenders(document, &args.set, &controllers, None).map_err(UsageError::from)?;
        }
    }
    let start = args.file.is_some().then_some(&question);
    let page = html::Exploration::new(explorer.title(), start, &explore::entries(), explore::MAX_SEEDS);
    if let Some(out) = &args.out {
        let text = Engine::find(args.engine.as_deref(), "--out")?.text(&explorer, &page);
        whole_file::write(out, Content::REPORT, text.as_bytes())?;
        print_text(&format!("{}: open it in a browser", out.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let pages = Pages::start(routes(&explorer, page, stop), args.port, Limits::default())
        .map_err(|error| UsageError::new(format!("--port: {error}")))?;
    print_text(&pages.url())?;
    let is_opened = !args.no_open && opener::has_display();
    let opened = is_opened.then(|| opener::open(&pages.url()));
    if let Some(Err(error)) = &opened {
        console::complain(&format!("note: {error}"));
    }
    while !stop.load(Ordering::Relaxed) {
        thread::park_timeout(PATIENCE);
    }
    Ok(ExitCode::SUCCESS)
}

/// What the page asks for.
fn routes(explorer: &Arc<Explorer>, page: html::Exploration, stop: &Arc<AtomicBool>) -> Routes {
    let [runs, saves, films, sketches] = [(); 4].map(|()| Arc::clone(explorer));
    let stop = Arc::clone(stop);
    Routes::new()
        .get("", move |request| Response::page(page.to_html(request.nonce())))
        .post("run", move |request| {
            let question: Question = match body(request.body()) {
                Ok(question) => question,
                Err(refused) => return refused,
            };
            let (explorer, stop) = (Arc::clone(&runs), Arc::clone(&stop));
            Response::lines(move |sink| {
                let clock = Clock::start();
                let began = clock.now();
                let is_late = || clock.now() - began > MAX_TIME;
                let ends = || sink.is_gone() || stop.load(Ordering::Relaxed) || is_late();
                let result = explorer.answer(&question, &ends, &|update| {
                    // A client that has gone away stops the runs by its flag.
                    let _ = sink.send(line(&update));
                });
                let problems = match result {
                    Err(error) => error.problems(),
                    Ok(false) if is_late() => vec![format!(
                        "the runs took more than {MAX_TIME}: choose a shorter duration or fewer flows"
                    )],
                    Ok(_) => return,
                };
                let _ = sink.send(line(&json!({ "kind": "problems", "problems": problems })));
            })
        })
        .post("save", move |request| {
            let side: Side = match body(request.body()) {
                Ok(side) => side,
                Err(refused) => return refused,
            };
            match saves.save(&side) {
                Ok(text) => Response::json(json!({ "text": text }).to_string()),
                Err(error) => Response::json(json!({ "problems": error.problems() }).to_string()),
            }
        })
        .post("film", move |request| {
            let side: Side = match body(request.body()) {
                Ok(side) => side,
                Err(refused) => return refused,
            };
            match films.film(&side) {
                Ok(film) => Response::json(line(&film)),
                Err(error) => Response::json(json!({ "problems": error.problems() }).to_string()),
            }
        })
        .get("sketch", move |request| match sketches.sketch(request.query()) {
            Ok(sketch) => Response::json(serde_json::to_string(&sketch).unwrap_or_default()),
            Err(error) => Response::text("404 Not Found", format!("{error}\n")),
        })
}

/// A line of a stream.
fn line(value: &impl Serialize) -> String {
    // Strings, numbers and vectors under names that are strings: serialisation has no way to fail.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

/// What a request asks, or the answer where it cannot be read.
fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Response> {
    giusto::json::from_bytes(bytes)
        .map_err(|error| Response::text("400 Bad Request", format!("the question cannot be read: {error}\n")))
}
