//! Pages with the simulator in them: that of `giusto explore --out`, and those beside reports.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use clap::Args;
use giusto::{
    explore::{self, Explorer, Question, Side},
    scenario::{Document, Setting},
    view::html,
    whole_file::{self, Content, unreadable},
};

use crate::usage::{UsageError, misuse};

/// The name of the simulator in WebAssembly.
const ENGINE: &str = "giusto.wasm.gz";

/// Where it is, seen from the folder of the program: in a build, beside it or installed.
const FOLDERS: [&str; 3] = ["", "../web", "../share/giusto"];

const FIX: &str = "`make web` in giusto's repository writes target/web/giusto.wasm.gz: name it with --engine";

/// Flags of commands that write a report.
#[derive(Debug, Args)]
pub(crate) struct LivePageArgs {
    /// Also write live.html to the directory of --out: a page with the simulator in it, on which readers change the scenario
    #[arg(long, requires = "out")]
    live_page: bool,

    /// With --live-page: the simulator that `make web` builds [default: giusto.wasm.gz beside giusto, in ../web or in ../share/giusto]
    #[arg(long, value_name = "FILE", requires = "live_page")]
    engine: Option<PathBuf>,
}

impl LivePageArgs {
    /// Whether a page is asked for.
    pub(crate) fn is_given(&self) -> bool {
        self.live_page
    }

    /// The page that begins with a scenario, its settings and these controllers, if one is asked for. It is made before the runs: what
    /// is wrong with it must not cost their results.
    pub(crate) fn page(
        &self,
        document: Document,
        settings: &[Setting],
        seed: Option<u64>,
        controllers: Vec<String>,
    ) -> anyhow::Result<Option<LivePage>> {
        if !self.live_page {
            return Ok(None);
        }
        let engine = Engine::find(self.engine.as_deref(), "--live-page")?;
        let mut side = Side::of(&document, settings);
        side.settings.extend(seed.map(|seed| ("seed".to_owned(), seed.to_string())));
        let question = Question { sides: vec![side], controllers, seeds: 1 };
        let explorer = Explorer::new(Some(document.keeping_traces()));
        explorer.ask(&question).map_err(|error| {
            UsageError::new(format!("--live-page: {}", error.problems().join("\nerror: ")))
        })?;
        let page = html::Exploration::new(
            explorer.title(),
            Some(&question),
            &explore::entries(),
            explore::MAX_SEEDS,
        );
        Ok(Some(LivePage(engine.text(&explorer, &page))))
    }
}

/// The text of a page beside a report.
#[derive(Debug)]
pub(crate) struct LivePage(String);

impl LivePage {
    /// Writes it beside the report; gives its path.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let path = folder.join("live.html");
        whole_file::write(&path, Content::REPORT, self.0.as_bytes())?;
        Ok(path)
    }
}

/// The simulator in WebAssembly, compressed.
#[derive(Debug)]
pub(crate) struct Engine(Vec<u8>);

impl Engine {
    /// Reads the file that is `given`, or that is where a build or a package puts it. `flag` is what needs it.
    pub(crate) fn find(given: Option<&Path>, flag: &str) -> anyhow::Result<Self> {
        let path = if let Some(path) = given {
            path.to_owned()
        } else {
            let program = env::current_exe().unwrap_or_default();
            let folder = program.parent().unwrap_or(Path::new(""));
            let known = FOLDERS.map(|place| folder.join(place).join(ENGINE));
            let found = known.into_iter().find(|path| path.is_file());
            let Some(found) = found else {
                misuse!(
                    "{flag} needs the simulator in WebAssembly, {ENGINE}, which is not beside {}: {FIX}",
                    program.display()
                )
            };
            found
        };
        let bytes = fs::read(&path)
            .map_err(|error| UsageError::new(format!("--engine: {}", unreadable(&path, &error))))?;
        // RFC 1952 §2.3.1.
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            misuse!("--engine: {}: is not compressed by gzip: {FIX}", path.display());
        }
        Ok(Self(bytes))
    }

    /// The page of an explorer.
    pub(crate) fn text(&self, explorer: &Explorer, page: &html::Exploration) -> String {
        page.to_whole_html(explorer.file(), &self.0)
    }
}
