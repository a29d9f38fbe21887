//! Programs that run the program named in their arguments: `sudo -u root`, `env A=b`, `timeout 5`.

use super::hazard::listed;
use super::shell::{Word, assigned};

/// A program that runs another one.
struct Wrapper {
    name: &'static str,
    /// Options that take an argument.
    takes: &'static str,
    /// Options with which it runs nothing.
    inert: &'static str,
    /// Words between the options and the program.
    skips: Skip,
}

#[derive(Clone, Copy)]
enum Skip {
    None,
    /// `NAME=value` words.
    Assigns,
    /// One word that starts with a digit or isn't known.
    Number,
    /// One word.
    Word,
}

const fn wrapper(
    name: &'static str,
    takes: &'static str,
    inert: &'static str,
    skips: Skip,
) -> Wrapper {
    Wrapper {
        name,
        takes,
        inert,
        skips,
    }
}

static WRAPPERS: [Wrapper; 21] = [
    wrapper("sudo", "ugpCcrtTRDhU", "lvkKe", Skip::Assigns),
    wrapper("doas", "uC", "L", Skip::Assigns),
    wrapper("env", "uC", "S", Skip::Assigns),
    wrapper("busybox", "", "", Skip::None),
    wrapper("toybox", "", "", Skip::None),
    wrapper("command", "", "vV", Skip::None),
    wrapper("builtin", "", "", Skip::None),
    wrapper("exec", "a", "", Skip::None),
    wrapper("nohup", "", "", Skip::None),
    wrapper("nice", "n", "", Skip::None),
    wrapper("ionice", "cn", "pPu", Skip::None),
    wrapper("chrt", "TPD", "pm", Skip::Number),
    wrapper("taskset", "", "p", Skip::Number),
    wrapper("stdbuf", "ioe", "", Skip::None),
    wrapper("time", "fo", "", Skip::None),
    wrapper("timeout", "skt", "", Skip::Number),
    wrapper("setsid", "", "", Skip::None),
    wrapper("coproc", "", "", Skip::None),
    wrapper("xargs", "ILnPsdaE", "", Skip::None),
    wrapper("chroot", "", "", Skip::Word),
    wrapper("flock", "wE", "u", Skip::Word),
];

/// Long options of wrappers that take the next word.
const LONG: &str = "--user --group --chdir --chroot --host --prompt --signal --kill-after --unset --adjustment \
    --class --classdata --max-args --max-procs --max-chars --delimiter --arg-file --input --output --error";

/// A program and its arguments.
pub(super) struct Call<'a> {
    /// The program's name without its directory.
    pub name: &'a [u8],
    /// Its arguments.
    pub args: &'a [Word],
    /// The words from the program on.
    pub words: &'a [Word],
    /// Whether its input is that of the command.
    pub input: bool,
}

/// The program that `words` run in the end; `None` when it isn't known or there is none.
pub(super) fn unwrap(mut words: &[Word]) -> Option<Call<'_>> {
    let mut input = true;
    loop {
        let (first, args) = words.split_first()?;
        let name = program(first.known()?);
        let Some(wrapper) = WRAPPERS.iter().find(|w| w.name.as_bytes() == name) else {
            return Some(Call {
                name,
                args,
                words,
                input,
            });
        };
        input &= name != b"xargs";
        words = inside(wrapper, args)?;
    }
}

/// Whether `name` is a program that runs others.
pub(super) fn is_wrapper(name: &[u8]) -> bool {
    WRAPPERS.iter().any(|w| w.name.as_bytes() == name)
}

/// The words behind a wrapper's own options and operands.
fn inside<'a>(wrapper: &Wrapper, mut words: &'a [Word]) -> Option<&'a [Word]> {
    while let Some(text) = words.first()?.known() {
        let mut skip = 1;
        if text == b"--" {
            words = words.get(1..)?;
            break;
        } else if text.starts_with(b"--") {
            skip += usize::from(listed(LONG, text));
        } else if let Some(letters) = text.strip_prefix(b"-") {
            for (i, letter) in letters.iter().enumerate() {
                if wrapper.inert.as_bytes().contains(letter) {
                    return None;
                }
                if wrapper.takes.as_bytes().contains(letter) {
                    skip += usize::from(i + 1 == letters.len());
                    break;
                }
            }
        } else {
            break;
        }
        words = words.get(skip..)?;
    }
    let first = words.first()?;
    match wrapper.skips {
        Skip::None => {}
        Skip::Assigns => {
            while assigned(&words.first()?.text).is_some() {
                words = words.get(1..)?;
            }
        }
        Skip::Number => {
            if first
                .known()
                .is_none_or(|t| t.first().is_some_and(u8::is_ascii_digit))
            {
                words = words.get(1..)?;
            }
        }
        Skip::Word => words = words.get(1..)?,
    }
    Some(words)
}

/// The name of a program without the directory, when that is one where the system's programs are.
fn program(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|b| *b == b'/') {
        Some(n) if path.get(..n).is_some_and(|dir| dir.ends_with(b"bin")) => {
            path.get(n + 1..).unwrap_or(path)
        }
        _ => path,
    }
}
