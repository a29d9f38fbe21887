//! The texts made from the tables: `--help`, `--version` and the README's tables.

use super::flags::{FLAGS, Flag, GROUPS};
use super::words::{Verb, WORDS, Word};

/// Where the second column of the help begins.
const COLUMN: usize = 26;

fn pad(out: &mut String, start: usize) {
    let used = out.len() - start;
    for _ in used..COLUMN {
        out.push(' ');
    }
}

fn push_spelling(out: &mut String, flag: &Flag) {
    if flag.short != ' ' {
        out.push('-');
        out.push(flag.short);
        out.push_str(", ");
    }
    out.push_str("--");
    out.push_str(flag.long);
    if !flag.value.is_empty() {
        out.push(' ');
        out.push_str(flag.value);
    }
}

/// The words a verb is typed as, with its arguments: `sessions show ID`.
pub fn usage_of(word: &Word, verb: &Verb) -> String {
    let mut out = String::from(word.name);
    for part in [verb.name, verb.usage] {
        if !part.is_empty() {
            out.push(' ');
            out.push_str(part);
        }
    }
    out
}

/// The text of `--help`: at most 80 columns.
pub fn help() -> String {
    let mut out = String::from(
        "cluade: a coding agent for small Linux devices\n\n\
         Usage: cluade [options] [prompt...]\n\
         \x20      cluade [options] WORD [verb] [arguments]\n\n\
         Without a prompt: a conversation on a terminal, else stdin is the prompt.\n\
         With one, stdin (a file or a pipe) is attached to it. Behind -- everything\n\
         is the prompt, whatever it looks like.\n",
    );
    for (group, title) in GROUPS.iter().enumerate() {
        out.push('\n');
        out.push_str(title);
        out.push('\n');
        for flag in FLAGS
            .iter()
            .filter(|f| f.group == group && !f.help.is_empty())
        {
            let start = out.len();
            out.push_str(if flag.short == ' ' { "      " } else { "  " });
            push_spelling(&mut out, flag);
            pad(&mut out, start);
            out.push_str(flag.help);
            out.push('\n');
        }
    }
    out.push_str("\nWords that are no prompt\n");
    for word in WORDS {
        let start = out.len();
        out.push_str("  ");
        out.push_str(word.name);
        pad(&mut out, start);
        out.push_str(word.help);
        if word.verbs.len() > 1 {
            out.push('\n');
            for _ in 0..COLUMN {
                out.push(' ');
            }
            push_verbs(&mut out, word);
        }
        out.push('\n');
    }
    out.push_str(
        "\nEnvironment\n\
         \x20 OPENAI_API_KEY          API key; ANTHROPIC_API_KEY for a base URL of your own\n\
         \x20 CLUADE_BASE_URL         base URL, else OPENAI_BASE_URL\n\
         \x20 CLUADE_MODEL            model\n\
         \x20 CLUADE_HOME             config and sessions, default ~/.cluade\n\
         \x20 NO_COLOR                no colour\n\
         \nExit status\n\
         \x20 0 finished   1 failed   2 usage or configuration   3 stopped at a limit\n\
         \x20 4 finished, but a call nobody was there to approve was refused\n\
         \x20 130, 143 ended by a signal\n\
         \nExamples\n\
         \x20 cluade \"why does wlan0 not come up?\"\n\
         \x20 logread | cluade -q \"what failed?\" >report.txt\n\
         \x20 cluade --base-url http://192.168.1.10:11434/v1 -m qwen3 -c\n",
    );
    out
}

/// Appends the verbs of `word`, a space between.
pub fn push_verbs(out: &mut String, word: &Word) {
    for (i, verb) in word.verbs.iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        out.push_str(verb.name);
    }
}

/// The text of `--version`: version, machine and how HTTPS is done.
pub fn version() -> String {
    [
        "cluade ",
        env!("CARGO_PKG_VERSION"),
        " (",
        std::env::consts::ARCH,
        if cfg!(target_endian = "big") {
            " big-endian"
        } else {
            ""
        },
        if cfg!(feature = "tls") {
            ", HTTPS built in)\n"
        } else {
            ", HTTPS by curl, uclient-fetch or wget)\n"
        },
    ]
    .concat()
}

/// The README's table of options.
pub fn markdown_table() -> String {
    let mut out = String::from("| option | what it does |\n|---|---|\n");
    for flag in FLAGS.iter().filter(|f| !f.help.is_empty()) {
        out.push_str("| `");
        push_spelling(&mut out, flag);
        out.push_str("` | ");
        out.push_str(flag.help);
        out.push_str(" |\n");
    }
    out
}

/// The README's table of reserved words.
pub fn markdown_words() -> String {
    let mut out = String::from("| command | about |\n|---|---|\n");
    for word in WORDS {
        for verb in word.verbs {
            out.push_str("| `cluade ");
            out.push_str(&usage_of(word, verb).replace('|', "\\|"));
            out.push_str("` | ");
            out.push_str(word.help);
            out.push_str(" |\n");
        }
    }
    out
}
