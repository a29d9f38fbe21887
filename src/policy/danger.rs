//! The danger gate: commands that destroy what can't be brought back. It guards against a mistake of the model, not
//! against an adversary, so what it can't know passes: values of variables, files that are run, commands for other
//! hosts. Data is no command: arguments of `echo`, comments, here-documents to programs other than shells.

use super::hazard::{Hazard, block_target, hazard, listed, raw_device};
use super::shell::{self, Command, Kind, Nest, Op, Place, Redir, Script, Word};
use super::wrapper::{Call, unwrap};

/// Levels of `sh -c` and `eval`.
const MAX_NESTED: u32 = 6;
/// Bytes of a word shown in a reason.
const MAX_SHOWN: usize = 80;

const DOWNLOAD: &[u8] = b"runs a download in a shell";
const SHELLS: &str = "sh ash bash dash zsh ksh mksh hush";
const DOWNLOADERS: &str = "curl wget wget-ssl wget-nossl uclient-fetch fetch";
/// Programs that pass on what they read, more or less changed.
const CARRIERS: &str = "cat tee gunzip gzip zcat xz xzcat unxz bunzip2 bzcat zstd zstdcat base64 openssl tr sed \
    head tail dos2unix envsubst pv";

/// Programs that are flagged whatever they are told, and why.
static PROGRAMS: [(&str, &str); 3] = [
    (
        "shutdown reboot halt poweroff",
        "shuts down or restarts the device: ",
    ),
    (
        "firstboot jffs2reset",
        "resets the device to its defaults: ",
    ),
    (
        "ubiformat ubidetach ubirmvol ubiupdatevol flash_erase flash_eraseall flashcp nandwrite",
        "writes or erases flash: ",
    ),
];

/// Programs that are flagged with one of these words.
static VERBS: [(&str, &str, &str); 3] = [
    (
        "mtd mtd_debug",
        "write erase jffs2write",
        "writes or erases flash: ",
    ),
    ("init telinit", "0 6", "shuts down or restarts the device: "),
    (
        "systemctl",
        "reboot poweroff halt kexec soft-reboot",
        "shuts down or restarts the device: ",
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
    };
    gate.script(command, false).or_else(|| {
        let n = pattern(command)?;
        let mut reason = b"matches entry ".to_vec();
        crate::text::push_dec(&mut reason, (n as u64).saturating_add(1));
        reason.extend_from_slice(b" of danger_patterns");
        Some(reason)
    })
}

struct Gate<'a> {
    /// The working directory, until a command may have changed it.
    cwd: Option<&'a [u8]>,
    home: &'a [u8],
    nested: u32,
    /// Bytes that may still be read as scripts: what is nested may not multiply the work.
    fuel: usize,
}

impl Gate<'_> {
    fn script(&mut self, text: &[u8], fed: bool) -> Option<Vec<u8>> {
        self.fuel = self.fuel.checked_sub(text.len())?;
        if self.nested == MAX_NESTED {
            return None;
        }
        self.nested += 1;
        let script = shell::read(text);
        let view = View::new(&script, fed);
        let found = fork_bomb(&script).or_else(|| {
            let mut commands = script.commands.iter();
            commands.find_map(|command| self.command(&view, command))
        });
        self.nested -= 1;
        found
    }

    fn command(&mut self, view: &View, command: &Command) -> Option<Vec<u8>> {
        let mut written = command.redirs.iter().filter(|r| r.op == Op::Out);
        if let Some(reason) = written.find_map(|r| onto_device(&r.target)) {
            return Some(reason);
        }
        if command.words.first().is_some_and(|w| view.runs_download(w)) {
            return Some(DOWNLOAD.to_vec());
        }
        let call = unwrap(&command.words)?;
        self.call(&call, call.input.then_some((view, command)))
    }

    /// Judges one program with its arguments. `input`: where its input comes from, if that is known.
    fn call(&mut self, call: &Call, input: Option<(&View, &Command)>) -> Option<Vec<u8>> {
        let args = call.args;
        match call.name {
            b"rm" => self.rm(args),
            b"dd" => args.iter().find_map(|word| {
                let path = word.known()?.strip_prefix(b"of=")?;
                block_target(path).then(|| because("writes to the device ", path))
            }),
            b"tee" => args.iter().find_map(onto_device),
            b"cp" => args.last().and_then(onto_device),
            b"cd" | b"pushd" | b"popd" => {
                self.cwd = None;
                None
            }
            b"eval" => {
                let texts: Vec<&[u8]> = args.iter().map(|w| w.text.as_slice()).collect();
                self.script(&texts.join(&b' '), false)
            }
            b"." | b"source" => self.file(args.first()?, input),
            b"find" => self.find(args),
            b"su" => self.su(args),
            b"start-stop-daemon" => self.daemon(args),
            name if listed(SHELLS, name) => self.shell(args, input),
            name => by_name(name, args),
        }
    }

    fn rm(&self, args: &[Word]) -> Option<Vec<u8>> {
        let (mut recursive, mut force, mut literal) = (false, false, false);
        let mut targets = Vec::new();
        for word in args {
            match word.known() {
                Some(b"--") if !literal => literal = true,
                Some(text) if !literal && text.starts_with(b"--") => {
                    let is = |long: &[u8]| text.len() > 2 && long.starts_with(text);
                    recursive |= is(b"--recursive");
                    force |= is(b"--force");
                }
                Some(text) if !literal && text.len() > 1 && text.starts_with(b"-") => {
                    recursive |= text.iter().any(|b| matches!(b, b'r' | b'R'));
                    force |= text.contains(&b'f');
                }
                _ => targets.push(word),
            }
        }
        if !recursive || !force {
            return None;
        }
        let target = targets
            .iter()
            .find(|w| hazard(w, self.cwd, self.home).is_some())?;
        Some(because("recursive forced delete of ", &target.text))
    }

    fn find(&mut self, args: &[Word]) -> Option<Vec<u8>> {
        let start = args.iter().position(|w| !listed("-H -L -P", &w.text))?;
        let args = args.get(start..)?;
        let is_path = |w: &Word| !w.text.starts_with(b"-") && !listed("( !", &w.text);
        let paths = args.iter().position(|w| !is_path(w))?;
        let (paths, tests) = args.split_at_checked(paths)?;
        let mut removes = false;
        for (i, word) in tests.iter().enumerate() {
            removes |= word.text == b"-delete";
            if listed("-exec -execdir", &word.text) {
                let words = tests.get(i + 1..)?;
                let end = words.iter().position(|w| listed("; +", &w.text));
                let words = words.get(..end.unwrap_or(words.len()))?;
                if let Some(call) = unwrap(words) {
                    removes |= call.name == b"rm";
                    let found = self.call(&call, None);
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        if !removes {
            return None;
        }
        // Without a test in front the whole of it goes.
        let all = tests
            .first()
            .is_some_and(|w| listed("-delete -exec -execdir", &w.text));
        let path = paths
            .iter()
            .find(|w| match hazard(w, self.cwd, self.home) {
                Some(Hazard::System) => true,
                Some(Hazard::Home) => all,
                _ => false,
            })?;
        Some(because("find deletes in ", &path.text))
    }

    fn su(&mut self, args: &[Word]) -> Option<Vec<u8>> {
        let mut args = args.iter();
        while let Some(word) = args.next() {
            let text = word.text.as_slice();
            if let Some(script) = text.strip_prefix(b"--command=") {
                return self.script(script, false);
            }
            if text == b"--command" || !text.starts_with(b"--") && is_short(text, b'c') {
                return self.script(&args.next()?.text, false);
            }
        }
        None
    }

    fn daemon(&mut self, args: &[Word]) -> Option<Vec<u8>> {
        let stops = |w: &Word| is_short(&w.text, b'K') || w.text == b"--stop";
        if args.iter().any(stops) {
            return None;
        }
        let starts = |w: &Word| !w.text.starts_with(b"--") && is_short(&w.text, b'x');
        let at = args.iter().position(|w| starts(w) || w.text == b"--exec")?;
        let program = args.get(at + 1..at + 2)?;
        let mut call = unwrap(program)?;
        if let Some(n) = args.iter().position(|w| w.text == b"--") {
            call.args = args.get(n + 1..)?;
        }
        self.call(&call, None)
    }

    fn shell(&mut self, args: &[Word], input: Option<(&View, &Command)>) -> Option<Vec<u8>> {
        let (mut script, mut stdin) = (false, false);
        let mut args = args.iter();
        let operand = loop {
            let Some(word) = args.next() else { break None };
            match word.known().unwrap_or(b"") {
                b"-" | b"--" => break args.next(),
                b"--rcfile" | b"--init-file" => {
                    args.next();
                }
                text if text.starts_with(b"--") => {}
                text if text.starts_with(b"-") || text.starts_with(b"+") => {
                    script |= is_short(text, b'c');
                    stdin |= is_short(text, b's');
                    if matches!(text.last(), Some(b'o' | b'O')) {
                        args.next();
                    }
                }
                _ => break Some(word),
            }
        };
        match operand {
            Some(text) if script => {
                let fed = input.is_some_and(|(view, command)| view.is_fed(command));
                self.script(&text.text, fed)
            }
            Some(file) if !stdin => self.file(file, input),
            _ if script => None,
            _ => self.stdin(input?),
        }
    }

    /// A shell runs what is in `file`.
    fn file(&mut self, file: &Word, input: Option<(&View, &Command)>) -> Option<Vec<u8>> {
        if listed("/dev/stdin /dev/fd/0 /proc/self/fd/0", &file.text) {
            return self.stdin(input?);
        }
        input?.0.is_download_file(file).then(|| DOWNLOAD.to_vec())
    }

    /// A shell runs what it reads.
    fn stdin(&mut self, (view, command): (&View, &Command)) -> Option<Vec<u8>> {
        if let Some(redir) = stdin_redir(command) {
            return match redir.op {
                Op::In => view
                    .is_download_file(&redir.target)
                    .then(|| DOWNLOAD.to_vec()),
                Op::Doc(body) => self.script(&view.script.bodies.get(body)?.text, false),
                Op::Text => self.script(&redir.target.text, false),
                Op::Out | Op::Dup => None,
            };
        }
        if view.is_fed(command) {
            return Some(DOWNLOAD.to_vec());
        }
        // `cat <<EOF | sh`
        let place = command.place;
        let before = view.script.commands.get(place.pipe..place.stage)?.last()?;
        if before.words.len() != 1 || before.words.first()?.text != b"cat" {
            return None;
        }
        match stdin_redir(before)?.op {
            Op::Doc(body) => self.script(&view.script.bodies.get(body)?.text, false),
            _ => None,
        }
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

    /// Whether the output of a scope is a download, passed on at most by programs that don't pick from it.
    fn is_download_scope(&self, number: usize) -> bool {
        let Some(scope) = self.script.scopes.get(number) else {
            return false;
        };
        if !self.any(scope.first, scope.end) {
            return false;
        }
        let mut carried = false;
        let mut pipe = (usize::MAX, 0);
        for i in scope.first..scope.end {
            let Some(command) = self.script.commands.get(i) else {
                break;
            };
            let place = command.place;
            if !self.is_within(place.scope, number) {
                continue;
            }
            if pipe != (place.scope, place.pipe) {
                if carried {
                    return true;
                }
                pipe = (place.scope, place.pipe);
            }
            carried = self.any(i, i + 1)
                || carried && unwrap(&command.words).is_some_and(|c| listed(CARRIERS, c.name));
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

    /// Whether a program's name is what was downloaded: `$(curl …)`, as in `eval "$(curl …)"`.
    fn runs_download(&self, word: &Word) -> bool {
        word.marks.first().is_some_and(|mark| match mark.kind {
            Kind::Output(scope) => mark.start == 0 && self.is_download_scope(scope),
            _ => false,
        })
    }

    /// Whether a file's name is `<(curl …)`.
    fn is_download_file(&self, word: &Word) -> bool {
        word.marks.first().is_some_and(|mark| match mark.kind {
            Kind::From(scope) => mark.start == 0 && self.is_download_scope(scope),
            _ => false,
        })
    }
}

fn because(text: &str, what: &[u8]) -> Vec<u8> {
    let mut reason = text.as_bytes().to_vec();
    reason.extend_from_slice(what.get(..MAX_SHOWN).unwrap_or(what));
    if what.len() > MAX_SHOWN {
        reason.extend_from_slice(b"...");
    }
    reason
}

fn onto_device(word: &Word) -> Option<Vec<u8>> {
    let path = word.known()?;
    raw_device(path).then(|| because("writes to the raw device ", path))
}

/// Whether `text` is a cluster of short options with `letter` in it.
fn is_short(text: &[u8], letter: u8) -> bool {
    text.starts_with(b"-") && text.contains(&letter)
}

fn stdin_redir(command: &Command) -> Option<&Redir> {
    command.redirs.iter().rev().find(|r| r.fd == 0)
}

/// Programs whose name, with a word or two, says all.
fn by_name(name: &[u8], args: &[Word]) -> Option<Vec<u8>> {
    let has = |list: &str| args.iter().any(|w| listed(list, &w.text));
    if has("--help --version") {
        return None;
    }
    let mut operands = args.iter().filter(|w| !w.text.starts_with(b"-"));
    if name == b"mkfs" || name.starts_with(b"mkfs.") {
        return Some(because("makes a filesystem: ", name));
    }
    if listed("mke2fs mkdosfs mkswap", name) {
        return operands.find_map(onto_device);
    }
    if name == b"sysupgrade" {
        let harmless = has("-b -l -T -h --create-backup --list-backup --test");
        return (!harmless && !args.is_empty()).then(|| because("replaces the system: ", name));
    }
    if name == b"shutdown" && has("-c") {
        return None;
    }
    for (names, reason) in &PROGRAMS {
        if listed(names, name) {
            return Some(because(reason, name));
        }
    }
    let (_, verbs, reason) = VERBS.iter().find(|(names, ..)| listed(names, name))?;
    let mut verb = operands.next()?;
    if name.starts_with(b"mtd") {
        // Options of mtd take words, too.
        verb = args.iter().find(|w| listed(verbs, &w.text))?;
    }
    let target = listed("start isolate", &verb.text)
        && operands.next().is_some_and(|w| {
            let unit = w.text.strip_suffix(b".target");
            name == b"systemctl" && unit.is_some_and(|unit| listed(verbs, unit))
        });
    (target || listed(verbs, &verb.text))
        .then(|| because(reason, &[name, b" ", &verb.text].concat()))
}

/// Whether a command downloads something to its output, where a pipe can take it.
fn is_download(command: &Command) -> bool {
    let Some(call) = unwrap(&command.words).filter(|c| listed(DOWNLOADERS, c.name)) else {
        return false;
    };
    if command.redirs.iter().any(|r| r.fd == 1 && r.op == Op::Out) {
        return false;
    }
    let (long, letter, takes): (&[u8], u8, &[u8]) = match call.name {
        b"curl" => (b"--output", b'o', b"AbcCdDeEFhHKmPQrtTuUwxXyYz"),
        b"fetch" => (b"--output", b'o', b"BSTNiw"),
        _ => (b"--output-document", b'O', b"aeiotTUwQPBDIRAXl"),
    };
    let mut stdout = call.name == b"curl";
    let mut words = call.args.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_slice();
        let mut value = None;
        if let Some(rest) = text.strip_prefix(long) {
            value = match rest.strip_prefix(b"=") {
                Some(rest) => Some(rest),
                None if rest.is_empty() => words.next().map(|w| w.text.as_slice()),
                None => None,
            };
        } else if text.starts_with(b"--") {
            stdout &= !text.starts_with(b"--remote-name");
        } else if let Some(letters) = text.strip_prefix(b"-") {
            for (i, c) in letters.iter().enumerate() {
                if *c == letter {
                    let rest = letters.get(i + 1..).filter(|r| !r.is_empty());
                    value = rest.or_else(|| words.next().map(|w| w.text.as_slice()));
                    break;
                }
                if takes.contains(c) {
                    break;
                }
                stdout &= *c != b'O';
            }
        }
        if let Some(value) = value {
            stdout = listed("- /dev/stdout /dev/fd/1 /proc/self/fd/1", value);
        }
    }
    stdout
}

/// A function that pipes itself into itself, and is called.
fn fork_bomb(script: &Script) -> Option<Vec<u8>> {
    let calls = |c: &Command, name: &[u8]| c.words.first().is_some_and(|w| w.text == name);
    script.functions.iter().find_map(|function| {
        let scope = script.scopes.get(function.scope)?;
        let body = script.commands.get(scope.first..scope.end)?;
        let mut inside = body.iter().filter(|c| calls(c, &function.name));
        let mut last: Option<Place> = None;
        let twice = inside.any(|c| {
            let (now, before) = (c.place, last.replace(c.place));
            before
                .is_some_and(|b| (b.scope, b.pipe) == (now.scope, now.pipe) && b.stage != now.stage)
        });
        let mut after = script.commands.get(scope.end..)?.iter();
        (twice && after.any(|c| calls(c, &function.name)))
            .then(|| because("fork bomb: ", &function.name))
    })
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
