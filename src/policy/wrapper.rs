//! Programs that run the program named in their arguments: `sudo -u root`, `env A=b`, `timeout 5`.

use super::hazard::{listed, next_word};
use super::shell::{Word, assigned};

/// Four words each: the name; the options that take an argument; those with which it runs nothing; what stands between
/// the options and the program: `=` `NAME=value` words, `0` one word that starts with a digit or isn't known, `w` one
/// word. `.` is none.
const WRAPPERS: &str = "sudo ugpCcrtTRDhU lvkKe = doas uC L = env uC S = busybox . . . toybox . . . command . vV . \
    builtin . . . exec a . . nohup . . . nice n . . ionice cn pPu . chrt TPD pm 0 taskset . p 0 stdbuf ioe . . \
    time fo . . timeout skt . 0 setsid . . . coproc . . . xargs ILnPsdaE . . chroot . . w flock wE u w";

/// Long options of wrappers that take the next word.
const LONG: &str = "--user --group --chdir --chroot --host --prompt --signal --kill-after --unset --adjustment \
    --class --classdata --max-args --max-procs --max-chars --delimiter --arg-file --input --output --error";

/// A program and its arguments.
pub(super) struct Call<'a> {
    /// The program's name without its directory.
    pub name: &'a [u8],
    /// The program and its arguments.
    pub words: &'a [Word],
    /// Whether its input is that of the command.
    pub input: bool,
}

/// The row of a wrapper, behind its name.
pub(super) fn wrapper(name: &[u8]) -> Option<&'static [u8]> {
    let mut list = WRAPPERS.as_bytes();
    while !list.is_empty() {
        if next_word(&mut list) == name {
            return Some(list);
        }
        for _ in 0..3 {
            next_word(&mut list);
        }
    }
    None
}

/// The program that `words` run in the end; `None` when it isn't known or there is none.
pub(super) fn unwrap(mut words: &[Word]) -> Option<Call<'_>> {
    let mut input = true;
    loop {
        let (first, mut args) = words.split_first()?;
        let name = program(first.known()?);
        let Some(mut row) = wrapper(name) else {
            return Some(Call { name, words, input });
        };
        input &= name != b"xargs";
        let takes = next_word(&mut row);
        let inert = next_word(&mut row);
        let skips = row.first().copied().unwrap_or(b'.');
        while let Some(text) = args.first()?.known() {
            let Some(letters) = text.strip_prefix(b"-") else {
                break;
            };
            args = args.get(1..)?;
            if letters == b"-" {
                break;
            }
            let mut skip = listed(LONG, text);
            for (i, letter) in letters.iter().enumerate() {
                if *letter == b'-' {
                    break;
                }
                if inert.contains(letter) {
                    return None;
                }
                if takes.contains(letter) {
                    skip = i + 1 == letters.len();
                    break;
                }
            }
            args = args.get(usize::from(skip)..)?;
        }
        loop {
            let word = args.first()?;
            let fits = match skips {
                b'=' => assigned(&word.text),
                b'0' => word
                    .known()
                    .is_none_or(|t| t.first().is_some_and(u8::is_ascii_digit)),
                b'w' => true,
                _ => false,
            };
            args = args.get(usize::from(fits)..)?;
            if !fits || skips != b'=' {
                break;
            }
        }
        words = args;
    }
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
