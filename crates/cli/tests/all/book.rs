//! The documents: the shell blocks of the pages that people use first run as they are written, and links lead somewhere.

use std::{
    collections::HashMap,
    env,
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use nix::{
    sched::{CloneFlags, unshare},
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::common::namespace::in_namespace;

/// What a block may need besides the command.
const NEVER_HERE: [&str; 5] = ["browser", "cluster", "compiler", "other-machine", "packages"];
const PROGRAMS: [&str; 4] = ["ffmpeg", "gst-launch-1.0", "iperf3", "tshark"];

/// A fenced block: its language, the words behind it, and its text.
struct Block {
    language: String,
    words: Vec<String>,
    text: String,
}

impl Block {
    fn all(page: &str) -> Vec<Self> {
        let mut lines = page.lines();
        let mut blocks = Vec::new();
        while let Some(line) = lines.next() {
            let Some(info) = line.strip_prefix("```") else { continue };
            let mut words = info.split(' ').map(str::to_owned);
            let language = words.next().unwrap();
            let text =
                lines.by_ref().take_while(|line| *line != "```").fold(String::new(), |mut text, line| {
                    writeln!(text, "{line}").unwrap();
                    text
                });
            blocks.push(Self { language, words: words.collect(), text });
        }
        blocks
    }

    /// The value of `KEY=VALUE` behind the language.
    fn value(&self, key: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// What it needs and this machine does not have.
    fn missing(&self) -> Option<&str> {
        self.value("needs").into_iter().flat_map(|needs| needs.split(',')).find(|need| {
            let folders = env::var_os("PATH").unwrap_or_default();
            match *need {
                "monitor" => !cfg!(feature = "monitor"),
                "root" => fs::metadata("/proc/self").unwrap().uid() != 0,
                need if NEVER_HERE.contains(&need) => true,
                need if PROGRAMS.contains(&need) => {
                    !env::split_paths(&folders).any(|folder| folder.join(need).is_file())
                }
                need => panic!("needs={need}: unknown"),
            }
        })
    }
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Blocks of a page run one after the other in one folder: `toml NAME` is written to this file or behind it, and `sh` is run, if what it
/// `needs=` is here, and ends with `status=` (default: 0).
#[test]
fn shell_blocks_of_the_pages_run_as_written() {
    // The thread ends with its namespace. Without the privilege, pages share ports and run one after the other.
    let together = thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET).is_ok()).join().unwrap();
    let how_to = files(&repository().join("docs/how-to"));
    let pages =
        ["README.md", "docs/tutorial.md"].map(|page| repository().join(page)).into_iter().chain(how_to);
    thread::scope(|scope| {
        for page in pages {
            if together {
                scope.spawn(move || in_namespace(&page.to_string_lossy(), 65536, || run_page(&page)));
            } else {
                run_page(&page);
            }
        }
    });
}

fn run_page(page: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["scenarios", "lab"] {
        symlink(repository().join(name), folder.join(name)).unwrap();
    }
    // Figures of a busy machine that cannot be trusted (3) are no fault of a page.
    let programs = tempfile::tempdir().unwrap();
    let giusto = programs.path().join("giusto");
    let script = format!(
        "#!/bin/sh\n{} \"$@\"\nstatus=$?\n[ $status = 3 ] || exit $status\n",
        env!("CARGO_BIN_EXE_giusto")
    );
    fs::write(&giusto, script).unwrap();
    fs::set_permissions(&giusto, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.path().display(), env::var("PATH").unwrap());

    for block in Block::all(&fs::read_to_string(page).unwrap()) {
        match (&*block.language, block.missing()) {
            ("toml", _) => {
                let mut file =
                    File::options().create(true).append(true).open(folder.join(&block.words[0])).unwrap();
                file.write_all(block.text.as_bytes()).unwrap();
            }
            ("sh", Some(need)) if !NEVER_HERE.contains(&need) => {
                // Also where the output of tests is captured.
                let _ = writeln!(std::io::stderr(), "SKIPPED a block of {}: it needs {need}", page.display());
            }
            ("sh", None) => run_block(page, &block, folder, &path),
            _ => {}
        }
    }
}

fn run_block(page: &Path, block: &Block, folder: &Path, path: &str) {
    let (script, printed) = (format!("set -e\n{}wait\n", block.text), folder.join("printed"));
    let output = File::create(&printed).unwrap();
    let mut command = Command::new("timeout");
    command.args(["120", "sh", "-c", &script]).current_dir(folder).env("PATH", path).process_group(0);
    command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    let mut child = command.spawn().unwrap();
    let status = child.wait().unwrap().code();
    // What a failed block leaves behind.
    let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
    let expected = block.value("status").map_or(0, |status| status.parse().unwrap());
    let printed = fs::read_to_string(printed).unwrap();
    assert_eq!(status, Some(expected), "{}:\n{}{printed}", page.display(), block.text);
}

/// A blank line would show the rest of a table as text, and begin a list anew.
#[test]
fn tables_and_lists_are_whole() {
    let mut broken = String::new();
    for file in files(&repository()).iter().filter(|file| file.extension().is_some_and(|kind| kind == "md")) {
        let text = fs::read_to_string(file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (number, around) in (2..).zip(lines.windows(4)) {
            let &[before, "", after, next] = around else { continue };
            let cuts_table = before.starts_with('|') && after.starts_with('|') && !next.starts_with("|-");
            if cuts_table || before.starts_with("- ") && after.starts_with("- ") {
                writeln!(broken, "{}:{number}", file.display()).unwrap();
            }
        }
    }
    assert!(broken.is_empty(), "blank lines within tables or lists:\n{broken}");
}

/// Relative links of all documents, with their anchors, and the documents that programs and scripts name.
#[test]
fn links_lead_to_files_and_headings() {
    let root = repository();
    let mut headings = HashMap::new();
    let mut broken = String::new();
    for file in files(&root) {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let is_page = file.extension().is_some_and(|kind| kind == "md");
        let targets = if is_page { links(&text) } else { named_documents(&text) };
        for target in targets {
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let from = match file.parent() {
                // It becomes a page there.
                _ if name.ends_with("/page.md") => &root.join("docs/reproduce"),
                Some(folder) if is_page => folder,
                _ => &root,
            };
            let to = if path.is_empty() { file.clone() } else { from.join(path) };
            let known = to.exists()
                && (anchor.is_empty()
                    || headings
                        .entry(to.clone())
                        .or_insert_with(|| anchors(&to))
                        .iter()
                        .any(|known| known == anchor));
            if !known {
                writeln!(broken, "{name}: {target}").unwrap();
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{broken}");
}

#[test]
fn the_site_has_every_page() {
    let docs = repository().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut listed = links(&summary);
    let pages = files(&docs).into_iter().filter(|file| !file.ends_with("SUMMARY.md"));
    let mut pages: Vec<_> =
        pages.map(|page| page.strip_prefix(&docs).unwrap().to_string_lossy().into_owned()).collect();
    listed.sort();
    pages.sort();
    assert_eq!(listed, pages);
}

/// The text files in a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !name.starts_with('.') && name != "target" {
            found.extend(files(&path));
        } else if kind.is_file()
            && [".md", ".py", ".rs", ".service", "Makefile"].iter().any(|end| name.ends_with(end))
        {
            found.push(path);
        }
    }
    found
}

/// The lines outside blocks of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The relative targets of `[…](…)`.
fn links(page: &str) -> Vec<String> {
    let text = prose(page).collect::<Vec<_>>().join("\n");
    let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.filter(|target| !target.contains(':')).map(str::to_owned).collect()
}

/// The `docs/….md` in the text of a program.
fn named_documents(text: &str) -> Vec<String> {
    let rests = text.split("docs/").skip(1);
    let names = rests.filter_map(|rest| Some(rest.split_once(".md")?.0));
    let is_name =
        |name: &&str| name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_/".contains(letter));
    names.filter(is_name).map(|name| format!("docs/{name}.md")).collect()
}

/// The anchors that a page's headings get.
fn anchors(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap_or_default();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let headings = prose(&text).filter_map(|line| {
        Some(line.trim_start_matches('#').strip_prefix(' ')).filter(|_| line.starts_with('#'))?
    });
    headings
        .map(|heading| {
            let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
            let slug = kept.collect::<String>().to_lowercase().replace(' ', "-");
            let times = seen.entry(slug.clone()).or_default();
            *times += 1;
            if *times == 1 { slug } else { format!("{slug}-{}", *times - 1) }
        })
        .collect()
}
