//! The forms of `send`, `recv` and `call`: each far end has flags of its own. What a form does not know is not there.
//!
//! A protocol is its module, and a row here for each side.

use std::{ffi::OsString, process::ExitCode, sync::atomic::AtomicBool};

use clap::{
    Arg, ArgMatches, Command,
    builder::PossibleValuesParser,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{call, groups, iperf3, live::LivePage, recv, run::Run, send, stamp, tcp};

/// One form of a command.
pub(crate) struct Form {
    command: &'static str,
    name: &'static str,
    /// The flag that chooses it, with one of these values. The first form of a command is the one without a choice.
    flag: &'static str,
    values: &'static [&'static str],
    flags: fn(Command) -> Command,
    pub(crate) run: fn(&ArgMatches, &AtomicBool, &mut Option<LivePage>) -> anyhow::Result<ExitCode>,
}

#[rustfmt::skip]
const FORMS: [Form; 11] = [
    Form::of::<send::SendArgs>("send", "giusto streams", "protocol", &["giusto"]),
    Form::of::<iperf3::Iperf3ClientArgs>("send", "--protocol iperf3", "protocol", &["iperf3"]),
    Form::of::<stamp::SenderArgs>("send", "--protocol stamp", "protocol", &["stamp"]),
    Form::of::<tcp::TcpClientArgs>("send", "--protocol tcp", "protocol", &["tcp"]),
    Form::of::<recv::RecvArgs>("recv", "giusto streams", "accept", &["rtp", "raw"]),
    Form::of::<iperf3::Iperf3ServerArgs>("recv", "--accept iperf3", "accept", &["iperf3"]),
    Form::of::<stamp::ReflectorArgs>("recv", "--accept stamp", "accept", &["stamp"]),
    Form::of::<tcp::TcpServerArgs>("recv", "--accept tcp", "accept", &["tcp"]),
    Form::of::<call::CallerArgs>("call", "a caller", "", &[]),
    Form::of::<call::ListenerArgs>("call", "--listen", "listen", &[]),
    Form::of::<call::BrowserArgs>("call", "--browser", "browser", &[]),
];

/// The form that the words of a command line choose.
pub(crate) fn chosen(words: &[OsString]) -> Option<&'static Form> {
    let mut words = words.iter().map(|word| word.to_str().unwrap_or_default()).skip(1);
    let command = words.next()?;
    let words: Vec<&str> = words.take_while(|word| *word != "--").collect();
    let mut forms = FORMS.iter().filter(|form| form.command == command);
    let first = forms.next()?;
    Some(forms.rfind(|form| form.is_in(&words)).unwrap_or(first))
}

/// `command` with the flags of this form, and of the first form of the other commands.
pub(crate) fn with_flags(command: Command, chosen: Option<&Form>) -> Command {
    let mut command = command;
    for name in ["send", "recv", "call"] {
        let form = chosen.filter(|form| form.command == name);
        if let Some(form) = form.or_else(|| FORMS.iter().find(|form| form.command == name)) {
            command = command.mut_subcommand(name, |subcommand| form.add_flags(subcommand));
        }
    }
    groups::grouped(command)
}

/// `command` with the flags of all forms, for completions and manual pages.
pub(crate) fn with_all_flags(command: Command) -> Command {
    let command = FORMS.iter().fold(with_flags(command, None), |command, form| {
        command.mut_subcommand(form.command, |subcommand| {
            let own = (form.flags)(Command::new(form.command));
            let is_new = |arg: &&Arg| subcommand.get_arguments().all(|known| known.get_id() != arg.get_id());
            let new: Vec<Arg> =
                own.get_arguments().filter(is_new).map(|arg| arg.clone().required(false)).collect();
            // What one form does without is not required.
            let spared = |arg: &&Arg| {
                arg.is_required_set() && own.get_arguments().all(|known| known.get_id() != arg.get_id())
            };
            let spared: Vec<_> =
                subcommand.get_arguments().filter(spared).map(|arg| arg.get_id().clone()).collect();
            let spare = |command: Command, id| command.mut_arg(id, |arg| arg.required(false));
            spared.into_iter().fold(subcommand, spare).args(new)
        })
    });
    groups::grouped(command)
}

impl Form {
    const fn of<A: Run>(
        command: &'static str,
        name: &'static str,
        flag: &'static str,
        values: &'static [&'static str],
    ) -> Self {
        let run = |matches: &ArgMatches, stop: &AtomicBool, page: &mut Option<LivePage>| {
            A::from_arg_matches(matches)?.run(stop, page)
        };
        Self { command, name, flag, values, flags: A::augment_args, run }
    }

    /// Whether the words have its flag, with one of its values if there are any.
    fn is_in(&self, words: &[&str]) -> bool {
        let next = words.iter().copied().skip(1).chain([""]);
        words.iter().zip(next).any(|(word, next)| {
            let Some(rest) = word.strip_prefix("--").and_then(|word| word.strip_prefix(self.flag)) else {
                return false;
            };
            let value = if rest.is_empty() { Some(next) } else { rest.strip_prefix('=') };
            value.is_some_and(|value| self.values.is_empty() || self.values.contains(&value))
        })
    }

    fn add_flags(&self, command: Command) -> Command {
        let about = command.get_about().cloned();
        let forms = FORMS.iter().filter(|form| form.command == self.command);
        let values: Vec<&str> = forms.flat_map(|form| form.values).copied().collect();
        let command = (self.flags)(command).about(about.unwrap_or_default());
        if values.is_empty() {
            return command;
        }
        command.mut_arg(self.flag, |flag| flag.value_parser(PossibleValuesParser::new(values)))
    }

    /// The complaint about a flag that only other forms of the command have.
    pub(crate) fn complaint(&self, error: &clap::Error) -> Option<String> {
        let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
        if error.kind() != ErrorKind::UnknownArgument {
            return None;
        }
        if !word.starts_with('-') {
            return Some(format!("error: unexpected \"{word}\": leave it out"));
        }
        let is_meant = |arg: &Arg| {
            let short = arg.get_short().is_some_and(|short| *word == format!("-{short}"));
            short || arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long))
        };
        let mut flag = None;
        let mut others = Vec::new();
        for form in FORMS.iter().filter(|form| form.command == self.command) {
            let command = (form.flags)(Command::new(form.command));
            if let Some(long) = command.get_arguments().find(|arg| is_meant(arg)).and_then(Arg::get_long) {
                flag = Some(long.to_owned());
                others.push(form.name);
            }
        }
        let flag = flag?;
        let or = match &others[..] {
            few @ ([_] | [_, _]) => format!(", or use {}", few.join(" or ")),
            _ => String::new(),
        };
        Some(format!("error: --{flag}: not supported with {}: leave it out{or}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    fn named(words: &str) -> Option<&'static str> {
        let words: Vec<OsString> = words.split(' ').map(Into::into).collect();
        chosen(&words).map(|form| form.name)
    }

    #[test]
    fn completions_and_groups_know_the_flags_of_all_forms() {
        let command = with_all_flags(Cli::command());
        command.clone().debug_assert();
        for form in &FORMS {
            let all = command.find_subcommand(form.command).unwrap();
            for flag in (form.flags)(Command::new(form.command)).get_arguments() {
                let known = all.get_arguments().find(|known| known.get_id() == flag.get_id());
                assert_eq!(
                    known.and_then(Arg::get_long),
                    flag.get_long(),
                    "{}: {}",
                    form.name,
                    flag.get_id()
                );
            }
        }
        let is_required = |(name, id): (&str, &str)| {
            let all = command.find_subcommand(name).unwrap();
            all.get_arguments().find(|arg| arg.get_id() == id).unwrap().is_required_set()
        };
        // A listener of calls has no far end.
        assert_eq!([("send", "target"), ("call", "target")].map(is_required), [true, false]);
        for (name, flags) in groups::names() {
            let subcommand = command.find_subcommand(name).unwrap();
            for flag in flags {
                assert!(subcommand.get_arguments().any(|known| known.get_id() == *flag), "{name}: {flag}");
            }
        }
    }

    #[test]
    fn a_flag_chooses_the_form_wherever_it_is() {
        for (words, name) in [
            ("giusto send h", "giusto streams"),
            ("giusto send h --protocol giusto -R", "giusto streams"),
            ("giusto send --protocol stamp h", "--protocol stamp"),
            ("giusto send h -t 3 --protocol=iperf3 -J", "--protocol iperf3"),
            ("giusto send h --protocol nonsense", "giusto streams"),
            ("giusto recv --accept rtp", "giusto streams"),
            ("giusto recv 9 --accept iperf3", "--accept iperf3"),
            ("giusto call h", "a caller"),
            ("giusto call --browser --listen 9", "--browser"),
            ("giusto call --listen 9", "--listen"),
        ] {
            assert_eq!(named(words), Some(name), "{words}");
        }
        assert_eq!([named("giusto sim f"), named("giusto")], [None, None]);
    }

    #[test]
    fn the_help_of_commands_with_many_flags_is_in_groups() {
        const MANY: usize = 15;
        for command in with_flags(Cli::command(), None).get_subcommands() {
            let flags: Vec<_> = command.get_arguments().filter(|flag| !flag.is_positional()).collect();
            let has_groups = flags.iter().any(|flag| flag.get_help_heading().is_some());
            assert_eq!(has_groups, flags.len() > MANY, "{} has {} flags", command.get_name(), flags.len());
        }
    }

    #[test]
    fn only_a_server_of_tcp_has_no_intervals() {
        for form in FORMS.iter().filter(|form| form.command == "recv") {
            let command = with_flags(Cli::command(), Some(form));
            let mut flags = command.find_subcommand("recv").unwrap().get_arguments();
            let interval = flags.find(|flag| flag.get_id() == "interval").unwrap();
            assert_eq!(interval.is_hide_set(), form.name == "--accept tcp", "{}", form.name);
        }
    }

    #[test]
    fn the_flags_of_each_form_are_consistent_and_in_groups() {
        for form in &FORMS {
            let command = with_flags(Cli::command(), Some(form));
            command.clone().debug_assert();
            let flags = command.find_subcommand(form.command).unwrap().get_arguments();
            for flag in flags.filter(|flag| !flag.is_positional()) {
                assert!(flag.get_help_heading().is_some(), "{}: {}", form.name, flag.get_id());
            }
        }
    }
}
