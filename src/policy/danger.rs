//! The danger gate: commands that destroy what can't be brought back. It guards against a mistake of the model, not
//! against an adversary, so what it can't know passes: values of variables, files that are run, commands for other
//! hosts. Data is no command: arguments of `echo`, comments, here-documents to programs other than shells.

use super::hazard::{Hazard, hazard, is_device, listed};
use super::shell::{self, Command, Kind, Nest, Op, Redir, Script, Word, joined};
use super::wrapper::unwrap;

/// Levels of `sh -c` and `eval`.
const MAX_NESTED: u32 = 6;
/// Bytes of a word shown in a reason.
const MAX_SHOWN: usize = 80;

const DOWNLOAD: &str = "runs a download in a shell";
const POWER: &str = "shuts down or restarts the device: ";
const FLASH: &str = "writes or erases flash: ";
const RAW: &str = "writes to the raw device ";
const DOWNLOADERS: &str = "curl wget wget-ssl wget-nossl uclient-fetch fetch";
/// Programs that pass on what they read, more or less changed.
const CARRIERS: &str = "cat tee gunzip gzip zcat xz xzcat unxz bunzip2 bzcat zstd zstdcat base64 openssl tr sed \
    head tail dos2unix envsubst pv";

/// How a program is judged.
#[derive(Clone, Copy)]
enum Act {
    Rm,
    Dd,
    Cd,
    Eval,
    Source,
    Find,
    Shell,
    Su,
    /// A raw device among its arguments.
    Onto,
    /// A raw device as its last argument.
    Last,
    /// Whatever it is told, but for these words.
    Always,
    /// Whenever it is told something, but for these words.
    Told,
    /// When one of these words is its first operand.
    Verb,
    /// When one of these words is among its arguments.
    Any,
}

/// Programs, how they are judged, words that count, and the reason.
static PROGRAMS: [(&str, Act, &str, &str); 18] = [
    ("rm", Act::Rm, "", "recursive forced delete of "),
    ("find", Act::Find, "", "find deletes in "),
    ("dd", Act::Dd, "", "writes to the device "),
    ("tee mke2fs mkdosfs mkswap", Act::Onto, "", RAW),
    ("cp", Act::Last, "", RAW),
    ("cd pushd popd", Act::Cd, "", ""),
    ("eval", Act::Eval, "", ""),
    (". source", Act::Source, "", ""),
    ("sh ash bash dash zsh ksh mksh hush", Act::Shell, "", ""),
    ("su", Act::Su, "", ""),
    ("mkfs", Act::Always, "", "makes a filesystem: "),
    ("shutdown reboot halt poweroff", Act::Always, "-c", POWER),
    (
        "firstboot jffs2reset",
        Act::Always,
        "",
        "resets the device to its defaults: ",
    ),
    (
        "ubiformat ubidetach ubirmvol ubiupdatevol flash_erase flash_eraseall flashcp nandwrite",
        Act::Always,
        "",
        FLASH,
    ),
    (
        "sysupgrade",
        Act::Told,
        "-b -l -T -h --create-backup --list-backup --test",
        "replaces the system: ",
    ),
    ("mtd mtd_debug", Act::Any, "write erase jffs2write", FLASH),
    ("init telinit", Act::Verb, "0 6", POWER),
    (
        "systemctl",
        Act::Verb,
        "reboot poweroff halt kexec soft-reboot reboot.target poweroff.target halt.target",
        POWER,
    ),
];

/// Why `command`, run by a shell in `cwd` by a user whose home is `home`, should not run unasked; `None` if nothing
/// speaks against it. `pattern` is asked about the whole command last: the number of the configured pattern that
/// matches, from 0. The reason quotes the command: control characters in it are the caller's to make visible.
pub fn danger(
    command: &[u8],
    cwd: &[u8],
    home: &[u8],
    pattern: &mut dyn FnMut(&[u8]) -> Option<usize>,
) -> Option<Vec<u8>> {
    let mut gate = Gate {
        cwd: Some(cwd).filter(|c| c.starts_with(b"/")),
        home,
        nested: 0,
        fuel: command.len().saturating_mul(8).saturating_add(4096),
        reason: Vec::new(),
    };
    if !gate.script(command, false) {
        let n = pattern(command)?;
        gate.flag("matches entry ", b"");
        crate::text::push_dec(&mut gate.reason, (n as u64).saturating_add(1));
        gate.reason.extend_from_slice(b" of danger_patterns");
    }
    Some(gate.reason)
}

/// Where the input of a program comes from: the command it is in, if that is known.
type Input<'a> = Option<(&'a View<'a>, &'a Command)>;

/// Its functions return whether they found something, with the reason written down.
struct Gate<'a> {
    /// The working directory, until a command may have changed it.
    cwd: Option<&'a [u8]>,
    home: &'a [u8],
    nested: u32,
    /// Bytes that may still be read as scripts: what is nested may not multiply the work.
    fuel: usize,
    reason: Vec<u8>,
}

impl Gate<'_> {
    #[inline(never)]
    fn flag(&mut self, text: &str, what: &[u8]) -> bool {
        self.reason.extend_from_slice(text.as_bytes());
        let shown = what.get(..MAX_SHOWN);
        self.reason.extend_from_slice(shown.unwrap_or(what));
        if what.len() > MAX_SHOWN {
            self.reason.extend_from_slice(b"...");
        }
        true
    }

    fn onto_device(&mut self, word: &Word) -> bool {
        word.known()
            .is_some_and(|path| is_device(path, false) && self.flag(RAW, path))
    }

    fn script(&mut self, text: &[u8], fed: bool) -> bool {
        if self.nested == MAX_NESTED || text.len() > self.fuel {
            return false;
        }
        self.fuel -= text.len();
        self.nested += 1;
        let script = shell::read(text);
        let view = View::new(&script, fed);
        let found = self.fork_bomb(&script)
            || script
                .commands
                .iter()
                .any(|command| self.command(&view, command));
        self.nested -= 1;
        found
    }

    fn command(&mut self, view: &View, command: &Command) -> bool {
        for redir in &command.redirs {
            if redir.op == Op::Out && self.onto_device(&redir.target) {
                return true;
            }
        }
        let words = command.run();
        if words
            .first()
            .is_some_and(|w| view.downloads_to(w, Kind::Output))
        {
            return self.flag(DOWNLOAD, b"");
        }
        self.program(words, Some((view, command)))
    }

    /// Judges the program that `words` run.
    fn program(&mut self, words: &[Word], input: Input) -> bool {
        let Some(call) = unwrap(words) else {
            return false;
        };
        let input = input.filter(|_| call.input);
        let name = call.name;
        let args = call.words.get(1..).unwrap_or(&[]);
        let key = match name.starts_with(b"mkfs.") {
            true => b"mkfs",
            false => name,
        };
        let row = PROGRAMS.iter().find(|(names, ..)| listed(names, key));
        let Some(&(_, act, list, reason)) = row else {
            return false;
        };
        let has = |list: &str| args.iter().find(|w| listed(list, &w.text));
        let told = match act {
            Act::Rm => return self.rm(args, reason),
            Act::Find => return self.find(args, reason),
            Act::Eval => return self.script(&joined(args), false),
            Act::Shell => return self.shell(args, input, false),
            Act::Su => return self.shell(args, None, true),
            Act::Source => return args.first().is_some_and(|file| self.file(file, input)),
            Act::Cd => {
                self.cwd = None;
                return false;
            }
            Act::Dd => {
                return args.iter().any(|word| {
                    let path = word.known().and_then(|text| text.strip_prefix(b"of="));
                    path.is_some_and(|path| is_device(path, true) && self.flag(reason, path))
                });
            }
            Act::Onto => return args.iter().any(|word| self.onto_device(word)),
            Act::Last => return args.last().is_some_and(|word| self.onto_device(word)),
            _ if has("--help --version").is_some() => return false,
            Act::Always | Act::Told => {
                if has(list).is_some() || matches!(act, Act::Told) && args.is_empty() {
                    return false;
                }
                None
            }
            Act::Any => match has(list) {
                None => return false,
                verb => verb,
            },
            Act::Verb => {
                let mut words = args.iter();
                let verb =
                    words.find(|w| !w.text.starts_with(b"-") && !listed("start isolate", &w.text));
                match verb {
                    Some(verb) if listed(list, &verb.text) => Some(verb),
                    _ => return false,
                }
            }
        };
        self.flag(reason, name);
        if let Some(verb) = told {
            self.flag(" ", &verb.text);
        }
        true
    }

    fn rm(&mut self, args: &[Word], reason: &str) -> bool {
        let (mut recursive, mut force) = (false, false);
        for word in args {
            let text = word.known().unwrap_or(b"");
            if text == b"--" {
                break;
            }
            let Some(letters) = text.strip_prefix(b"-") else {
                continue;
            };
            // Of a long option the first letter says it: `--recursive`, `--force`.
            let letters = match letters {
                [b'-', letter, ..] => std::slice::from_ref(letter),
                _ => letters,
            };
            recursive |= letters.iter().any(|b| matches!(b, b'r' | b'R'));
            force |= letters.contains(&b'f');
        }
        // As paths, options are harmless.
        recursive
            && force
            && args
                .iter()
                .any(|w| hazard(w, self.cwd, self.home).is_some() && self.flag(reason, &w.text))
    }

    fn find(&mut self, args: &[Word], reason: &str) -> bool {
        let tests = args.iter().position(|w| {
            let test = matches!(w.text.first(), Some(b'-' | b'(' | b'!'));
            test && !listed("-H -L -P", &w.text)
        });
        let Some((paths, tests)) = tests.and_then(|n| args.split_at_checked(n)) else {
            return false;
        };
        let mut removes = false;
        for (i, word) in tests.iter().enumerate() {
            removes |= word.text == b"-delete";
            if !listed("-exec -execdir", &word.text) {
                continue;
            }
            let words = tests.get(i + 1..).unwrap_or(&[]);
            let end = words.iter().position(|w| listed("; +", &w.text));
            let words = words.get(..end.unwrap_or(words.len())).unwrap_or(&[]);
            let name = unwrap(words).map_or(&b""[..], |call| call.name);
            removes |= name == b"rm";
            // A find in a find isn't looked into: the work would double with each.
            if name != b"find" && self.program(words, None) {
                return true;
            }
        }
        // Without a test in front the whole of it goes.
        let all = tests
            .first()
            .is_some_and(|w| listed("-delete -exec -execdir", &w.text));
        removes
            && paths.iter().any(|w| {
                let hazard = hazard(w, self.cwd, self.home);
                (hazard == Some(Hazard::System) || all && hazard == Some(Hazard::Home))
                    && self.flag(reason, &w.text)
            })
    }

    /// A shell, or `su`, whose operands are no scripts.
    fn shell(&mut self, args: &[Word], input: Input, su: bool) -> bool {
        let mut stdin = false;
        let mut args = args.iter();
        while let Some(word) = args.next() {
            let text = word.known().unwrap_or(b"");
            if !text.starts_with(b"-") && !text.starts_with(b"+") {
                if su || stdin {
                    continue;
                }
                return self.file(word, input);
            }
            if text.starts_with(b"--") {
                continue;
            }
            if text.contains(&b'c') {
                let fed = input.is_some_and(|(view, command)| view.is_fed(command));
                return args
                    .next()
                    .is_some_and(|script| self.script(&script.text, fed));
            }
            stdin |= text.contains(&b's');
            if matches!(text.last(), Some(b'o' | b'O')) {
                args.next();
            }
        }
        self.stdin(input)
    }

    /// A shell runs what is in `file`.
    fn file(&mut self, file: &Word, input: Input) -> bool {
        if listed("/dev/stdin /dev/fd/0 /proc/self/fd/0", &file.text) {
            return self.stdin(input);
        }
        input.is_some_and(|(view, _)| view.downloads_to(file, Kind::From))
            && self.flag(DOWNLOAD, b"")
    }

    /// A shell runs what it reads.
    fn stdin(&mut self, input: Input) -> bool {
        let Some((view, mut command)) = input else {
            return false;
        };
        if view.is_fed(command) {
            return self.flag(DOWNLOAD, b"");
        }
        if stdin_redir(command).is_none() {
            // `cat <<EOF | sh`
            let place = command.place;
            let before = view.script.commands.get(place.pipe..place.stage);
            match before.and_then(|b| b.last()) {
                Some(before) if before.words.len() == 1 && joined(&before.words) == b"cat" => {
                    command = before;
                }
                _ => return false,
            }
        }
        let Some(redir) = stdin_redir(command) else {
            return false;
        };
        match redir.op {
            Op::In => self.file(&redir.target, input),
            Op::Text => self.script(&redir.target.text, false),
            Op::Doc(body) => view
                .script
                .bodies
                .get(body)
                .is_some_and(|body| self.script(body, false)),
            Op::Out | Op::Dup => false,
        }
    }

    /// A function that pipes itself into itself, and is called.
    fn fork_bomb(&mut self, script: &Script) -> bool {
        for function in &script.functions {
            let Some(scope) = script.scopes.get(function.scope) else {
                continue;
            };
            let mut last = None;
            let mut twice = false;
            for (i, command) in script.commands.iter().enumerate().skip(scope.first) {
                if command
                    .words
                    .first()
                    .is_none_or(|w| w.text != function.name)
                {
                    continue;
                }
                if i >= scope.end {
                    if twice {
                        return self.flag("fork bomb: ", &function.name);
                    }
                    break;
                }
                let place = command.place;
                let pipe = Some((place.scope, place.pipe));
                twice |= last == pipe;
                last = pipe;
            }
        }
        false
    }
}

/// A script with what is asked often about it.
struct View<'a> {
    script: &'a Script,
    /// How many of the commands before each index write a download to their output.
    downloads: Vec<usize>,
    /// Whether the input of the whole script is a download.
    fed: bool,
}

impl<'a> View<'a> {
    fn new(script: &'a Script, fed: bool) -> Self {
        let mut downloads = vec![0];
        let mut n = 0;
        for command in &script.commands {
            n += usize::from(is_download(command));
            downloads.push(n);
        }
        View {
            script,
            downloads,
            fed,
        }
    }

    /// Whether one of the commands from `first` to `end` writes a download.
    fn any(&self, first: usize, end: usize) -> bool {
        self.downloads.get(end) > self.downloads.get(first)
    }

    /// Whether what comes to a command through pipes is a download.
    fn is_fed(&self, command: &Command) -> bool {
        if stdin_redir(command).is_some() {
            return false;
        }
        let mut place = command.place;
        loop {
            if self.any(place.pipe, place.stage) {
                return true;
            }
            match self.script.scopes.get(place.scope) {
                Some(s) if matches!(s.nest, Nest::Group | Nest::Into) => place = s.place,
                Some(s) => return s.nest == Nest::Top && self.fed,
                None => return false,
            }
        }
    }

    /// Whether `word` starts with a substitution of this kind whose output is a download, passed on at most by programs
    /// that don't pick from it: a program named `$(curl …)`, as in `eval "$(curl …)"`, or a file `<(curl …)`.
    fn downloads_to(&self, word: &Word, kind: Kind) -> bool {
        let Some(scope) = self.script.scopes.get(word.scope) else {
            return false;
        };
        if word.unknown == 0
            || word.kind != kind
            || word.start != 0
            || !self.any(scope.first, scope.end)
        {
            return false;
        }
        let mut carried = false;
        let mut pipe = None;
        for i in scope.first..scope.end {
            let Some(command) = self.script.commands.get(i) else {
                break;
            };
            let place = command.place;
            if !self.is_within(place.scope, word.scope) {
                continue;
            }
            let now = Some((place.scope, place.pipe));
            if pipe != now && carried {
                return true;
            }
            pipe = now;
            carried = self.any(i, i + 1)
                || carried && unwrap(command.run()).is_some_and(|c| listed(CARRIERS, c.name));
        }
        carried
    }

    /// Whether `scope` is `outer` or a group in it.
    fn is_within(&self, mut scope: usize, outer: usize) -> bool {
        while scope != outer {
            match self.script.scopes.get(scope) {
                Some(s) if s.nest == Nest::Group => scope = s.place.scope,
                _ => return false,
            }
        }
        true
    }
}

fn stdin_redir(command: &Command) -> Option<&Redir> {
    command.redirs.iter().rev().find(|r| r.fd == 0)
}

/// Whether a command downloads something to its output, where a pipe can take it.
fn is_download(command: &Command) -> bool {
    let Some(call) = unwrap(command.run()) else {
        return false;
    };
    let elsewhere = |r: &Redir| r.fd == 1 && r.op == Op::Out;
    if !listed(DOWNLOADERS, call.name) || command.redirs.iter().any(elsewhere) {
        return false;
    }
    let wget = !listed("curl fetch", call.name);
    // The option with the file, and others that take a word.
    let (letter, takes): (u8, &[u8]) = match wget {
        false => (b'o', b"AbcCdDeEFhHKmPQrtTuUwxXyYz"),
        true => (b'O', b"aeiotTUwQPBDIRAXl"),
    };
    let mut stdout = call.name == b"curl";
    let mut words = call.words.iter().skip(1);
    while let Some(word) = words.next() {
        let text = word.text.as_slice();
        let mut value: Option<&[u8]> = None;
        let mut next = false;
        if let Some(long) = text.strip_prefix(b"--") {
            stdout &= !long.starts_with(b"remote-name");
            if let Some(rest) = long.strip_prefix(b"output") {
                let rest = rest.strip_prefix(b"-document").unwrap_or(rest);
                value = rest.strip_prefix(b"=");
                next = rest.is_empty();
            }
        } else if let Some(letters) = text.strip_prefix(b"-") {
            for (i, c) in letters.iter().enumerate() {
                if *c == letter {
                    value = letters.get(i + 1..).filter(|r| !r.is_empty());
                    next = value.is_none();
                    break;
                }
                if takes.contains(c) {
                    break;
                }
                stdout &= *c != b'O';
            }
        }
        if next {
            value = words.next().map(|w| w.text.as_slice());
        }
        if let Some(value) = value {
            stdout = listed("- /dev/stdout /dev/fd/1 /proc/self/fd/1", value);
        }
    }
    stdout
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_patterns_see_the_whole_command() {
        let mut seen = Vec::new();
        let mut pattern = |text: &[u8]| {
            seen.push(text.to_vec());
            text.ends_with(b"wifi down").then_some(1)
        };
        let reason = danger(b"sleep 1; wifi down", b"/", b"/root", &mut pattern);
        assert_eq!(reason, Some(b"matches entry 2 of danger_patterns".to_vec()));
        assert_eq!(danger(b"wifi up", b"/", b"/root", &mut pattern), None);
        let built_in = danger(b"reboot # wifi down", b"/", b"/root", &mut pattern);
        assert_eq!(
            built_in,
            Some(b"shuts down or restarts the device: reboot".to_vec())
        );
        assert_eq!(seen, [&b"sleep 1; wifi down"[..], b"wifi up"]);
    }

    #[test]
    fn reasons_are_short() {
        let long = [b"rm -rf /etc/".as_slice(), &[b'x'; 5000]].concat();
        let reason = danger(&long, b"/", b"/root", &mut |_| None).unwrap_or_default();
        assert!(reason.starts_with(b"recursive forced delete of /etc/xxx"));
        assert!(reason.len() < 150);
    }
}
