//! `giusto monitor`: measures streams between hosts for months.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto monitor monitor.toml
  giusto monitor monitor.toml --here berlin    on the host that the file calls berlin
  giusto monitor monitor.toml --check          checks the file
SIGHUP reads the file again. docs/how-to/monitor.md has a first file, docs/reference/monitor.md all keys.")]
#[cfg_attr(not(feature = "monitor"), allow(dead_code, reason = "only the monitor reads them"))]
pub(crate) struct MonitorArgs {
    /// Hosts, pairs, streams and bounds, in TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The host of the file that this machine is [default: `here` of the file, or the name of this machine]
    #[arg(long, value_name = "HOST")]
    here: Option<String>,

    /// File of keys that the hosts share, instead of `keys` of the file
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Results, instead of `database` of the file
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,

    /// Read the file, say what is wrong with it, and end
    #[arg(long)]
    check: bool,
}

#[cfg(not(feature = "monitor"))]
mod absent {
    use std::{process::ExitCode, sync::atomic::AtomicBool};

    use super::MonitorArgs;
    use crate::usage::misuse;

    #[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
    pub(crate) fn prepare() -> anyhow::Result<()> {
        Ok(())
    }

    pub(crate) fn run(_: &MonitorArgs, _: &AtomicBool) -> anyhow::Result<ExitCode> {
        misuse!(
            "monitor: this giusto was built without SQLite: build it with `cargo install --locked --path crates/cli --features monitor`"
        )
    }
}
#[cfg(not(feature = "monitor"))]
pub(crate) use absent::{prepare, run};

#[cfg(feature = "monitor")]
mod present {
    use std::{path::Path, process::ExitCode, sync::atomic::AtomicBool};

    use giusto::scenario::Document;
    use giusto_monitor::service::{Config, Host, ServiceError, Session, run as watch};
    use giusto_net::Hangups;

    use super::MonitorArgs;
    use crate::{
        args::{read_keys, read_keys_of, resolve_all},
        console::complain,
        usage::{UsageError, misuse},
    };

    /// Before there are threads: SIGHUP is to be read, not to end the program.
    pub(crate) fn prepare() -> anyhow::Result<()> {
        Hangups::block()?;
        Ok(())
    }

    pub(crate) fn run(args: &MonitorArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
        let config = read(args)?;
        if args.check {
            return Ok(ExitCode::SUCCESS);
        }
        let hangups = Hangups::block()?;
        let hold = |session: &dyn Session, target: &str, port, stop: &AtomicBool| {
            let addresses = resolve_all(target, None, port).map_err(|error| error.to_string())?;
            session.hold(&addresses, stop).map_err(|error| error.to_string())
        };
        let mut reload = || hangups.take().then(|| read(args).map_err(|error| error.to_string()));
        let mut host = Host { hold: &hold, reload: &mut reload, say: &mut |text| complain(text) };
        match watch(config, &mut host, stop) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error @ (ServiceError::Store(_) | ServiceError::Listen { .. })) => {
                Err(UsageError::new(format!("{}: {error}", args.file.display())).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn read(args: &MonitorArgs) -> anyhow::Result<Config> {
        let spec =
            Document::load(&args.file).and_then(|document| document.monitor()).map_err(UsageError::from)?;
        let folder = args.file.parent().unwrap_or(Path::new("")).to_owned();
        let here = match args.here.clone().or_else(|| spec.here.clone()) {
            Some(here) => here,
            None => std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned(),
        };
        if spec.hosts.iter().all(|host| host.id != here) {
            let known: Vec<&str> = spec.hosts.iter().map(|host| host.id.as_str()).collect();
            let file = args.file.display();
            misuse!(
                "{file}: no host is called \"{here}\": say which of {} this is, with --here",
                known.join(", ")
            );
        }
        let keys = match (&args.key_file, &spec.keys) {
            (Some(path), _) => Some(read_keys(path)?),
            (None, Some(own)) => {
                Some(read_keys_of(&format!("{}: keys:", args.file.display()), &folder.join(own))?)
            }
            (None, None) => None,
        };
        let database = args.database.clone().unwrap_or_else(|| folder.join(&spec.database));
        Ok(Config { spec, here, database, keys })
    }
}
#[cfg(feature = "monitor")]
pub(crate) use present::{prepare, run};
