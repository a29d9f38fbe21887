//! Behaviour tables of the command line.

use super::flags::OPTIONS;
use super::*;

/// The README's table of options.
fn markdown_table() -> String {
    let mut out = String::from("| option | what it does |\n|---|---|\n");
    for flag in flags() {
        let short = match flag.short {
            b' ' => String::new(),
            letter => format!("-{}, ", char::from(letter)),
        };
        let spelling = format!("{short}--{} {}", flag.long, flag.value);
        let row = format!("| `{}` | {} |\n", spelling.trim_end(), flag.help);
        out.push_str(&row);
    }
    out
}

fn option(long: &str) -> Opt {
    let all = [
        Opt::Model,
        Opt::BaseUrl,
        Opt::ApiKey,
        Opt::ApiKeyFile,
        Opt::Profile,
        Opt::Continue,
        Opt::Resume,
        Opt::NoSession,
        Opt::ListSessions,
        Opt::PruneSessions,
        Opt::File,
        Opt::Output,
        Opt::Extract,
        Opt::Quiet,
        Opt::Json,
        Opt::Repl,
        Opt::NoColor,
        Opt::Yes,
        Opt::Mode,
        Opt::Plan,
        Opt::Tools,
        Opt::Deny,
        Opt::Trust,
        Opt::Subagent,
        Opt::MaxSteps,
        Opt::Timeout,
        Opt::Init,
        Opt::Config,
        Opt::ListModels,
        Opt::Help,
        Opt::Version,
        Opt::ShowToolsJson,
        Opt::Record,
        Opt::Replay,
    ];
    let name = long.replace('-', "");
    let found = all
        .into_iter()
        .find(|o| format!("{o:?}").eq_ignore_ascii_case(&name));
    found.unwrap_or_else(|| panic!("{long} is no Opt"))
}

fn parse_words(line: &[&str]) -> Result<Args, String> {
    let args = parse(line.iter().map(OsString::from).collect());
    args.map_err(|e| String::from_utf8(e).unwrap())
}

fn good(line: &[&str]) -> Args {
    match parse_words(line) {
        Ok(args) => args,
        Err(e) => panic!("{line:?}: {e}"),
    }
}

fn bad(line: &[&str]) -> String {
    match parse_words(line) {
        Ok(_) => panic!("{line:?} was accepted"),
        Err(e) => e,
    }
}

fn prompt_of(line: &[&str]) -> Option<String> {
    match good(line).command {
        Command::Prompt(p) => p.map(|p| String::from_utf8(p).unwrap()),
        _ => panic!("{line:?} is no prompt"),
    }
}

fn reserved(line: &[&str]) -> Reserved {
    match good(line).command {
        Command::Reserved(r) => r,
        _ => panic!("{line:?} is no command"),
    }
}

#[test]
fn every_flag_reaches_its_field_and_only_that() {
    assert_eq!(flags().count(), 34);
    for flag in flags() {
        assert_eq!(option(flag.long) as u8, flag.id, "{}", flag.long);
        assert_eq!(name_of(option(flag.long)), flag.long);
        let limits = LIMITS.iter().find(|l| l.0 as u8 == flag.id);
        assert_eq!(limits.is_some(), matches!(flag.value, "N" | "S"));
        let value = limits.map_or("val".to_owned(), |l| l.1.to_string());
        let long = ["--", flag.long].concat();
        let mut lines = vec![vec![long.clone()]];
        if !flag.value.is_empty() {
            lines = vec![
                vec![long.clone(), value.clone()],
                vec![[&long, "=", &value].concat()],
            ];
        }
        if flag.short != b' ' {
            let short = format!("-{}", char::from(flag.short));
            lines.push(if flag.value.is_empty() {
                vec![short]
            } else {
                vec![[&short[..], &value].concat()]
            });
        }
        for line in lines {
            let refs: Vec<&str> = line.iter().map(String::as_str).collect();
            let args = good(&refs);
            let set: Vec<&str> = flags()
                .filter(|f| args.has(option(f.long)))
                .map(|f| f.long)
                .collect();
            let expected = match flag.long {
                "subagent" => vec!["no-session", "quiet", "subagent"],
                other => vec![other],
            };
            assert_eq!(set, expected, "{line:?}");
        }
    }
}

#[test]
fn flags_of_the_specification_are_there() {
    let all = "model m base-url api-key continue c resume r list-sessions yes y init show-tools-json help h version \
                   V subagent plan quiet q no-session config profile mode max-steps tools deny record replay no-color \
                   list-models prune-sessions repl trust timeout json file f output o extract x api-key-file";
    for name in all.split_whitespace() {
        let found = flags().any(|f| f.long == name || name.as_bytes() == [f.short]);
        assert!(found, "{name}");
    }
    let all: Vec<Flag> = flags().collect();
    for (i, a) in all.iter().enumerate() {
        for b in &all[..i] {
            assert!(a.long != b.long && (a.short == b' ' || a.short != b.short));
        }
    }
}

#[test]
fn values_are_kept() {
    let args = good(&[
        "-m",
        "a",
        "-mb",
        "-r",
        "20260529-201630-1000.json",
        "-f",
        "x",
        "-f-",
        "--tools",
        "read, grep",
        "--tools=bash,",
        "--max-steps",
        "7",
        "--prune-sessions=30",
    ]);
    assert_eq!(args.text(Opt::Model), Some("b"));
    assert_eq!(args.text(Opt::Resume), Some("20260529-201630-1000"));
    assert!(args.each(Opt::File).eq([&b"x"[..], b"-"]));
    assert_eq!(args.list(Opt::Tools), ["read", "grep", "bash"]);
    assert_eq!(args.number(Opt::MaxSteps), Some(7));
    assert!(args.command == Command::Task(Opt::PruneSessions));
    assert_eq!(args.number(Opt::PruneSessions), Some(30));
    let odd = parse(vec![
        OsString::from("-o"),
        OsString::from_vec(b"\xff.txt".to_vec()),
        OsString::from_vec(b"caf\xe9".to_vec()),
    ]);
    let odd = odd.unwrap_or_default();
    assert_eq!(odd.bytes(Opt::Output), Some(&b"\xff.txt"[..]));
    assert!(odd.command == Command::Prompt(Some("caf\u{FFFD}".into())));
}

#[test]
fn prompts() {
    let table: &[(&[&str], Option<&str>)] = &[
        (&[], None),
        (&["-y"], None),
        (&["fix", "the", "bug"], Some("fix the bug")),
        (&["fix", "-y", "it"], Some("fix it")),
        (&["two  spaces"], Some("two  spaces")),
        (&["--", "-n", "--model"], Some("-n --model")),
        (&["why", "--", "-n"], Some("why -n")),
        (&["--", "sessions", "list"], Some("sessions list")),
        (&["sessions are slow"], Some("sessions are slow")),
        (&["list", "sessions"], Some("list sessions")),
        (&["a", "-"], Some("a -")),
        (&["--", "--"], Some("--")),
    ];
    for (line, expected) in table {
        assert_eq!(prompt_of(line).as_deref(), *expected, "{line:?}");
    }
    assert!(good(&["-"]).prompt_from_stdin && prompt_of(&["-"]).is_none());
    assert!(!good(&["x"]).prompt_from_stdin);
    assert_eq!(bad(&[""]), "the prompt is empty");
    assert_eq!(bad(&["-q", " \n"]), "the prompt is empty");
}

#[test]
fn tasks() {
    assert!(good(&["--init"]).command == Command::Task(Opt::Init));
    assert!(good(&["--list-sessions"]).command == Command::Task(Opt::ListSessions));
    assert!(
        good(&["--list-models", "--base-url", "http://x"]).command
            == Command::Task(Opt::ListModels)
    );
    assert!(good(&["-h", "--bogus", "sessions", "x"]).command == Command::Task(Opt::Help));
    assert!(good(&["-m", "x", "--version", "--bogus"]).command == Command::Task(Opt::Version));
    assert_eq!(
        bad(&["--init", "now"]),
        "--init takes no prompt and no command"
    );
    assert_eq!(
        bad(&["--list-models", "sessions", "list"]),
        "--list-models takes no prompt and no command"
    );
    let child = good(&["--subagent", "--plan", "look"]);
    for option in [Opt::Subagent, Opt::Quiet, Opt::NoSession, Opt::Plan] {
        assert!(child.has(option));
    }
}

#[test]
fn usage_errors_name_the_remedy() {
    let table: &[(&[&str], &str)] = &[
        (
            &["--modle", "x"],
            "unknown option --modle; did you mean --model?",
        ),
        (
            &["--nocolor"],
            "unknown option --nocolor; did you mean --no-color?",
        ),
        (
            &["-model", "x"],
            "unknown option -model; did you mean --model?",
        ),
        (&["-yes"], "unknown option -yes; did you mean --yes?"),
        (&["-M"], "unknown option -M; did you mean -m?"),
        (&["-qv"], "unknown option -v; did you mean -V?"),
        (
            &["--frobnicate"],
            "unknown option --frobnicate (--help lists them; a prompt that holds it goes in quotes or after --)",
        ),
        (
            &["-z"],
            "unknown option -z (--help lists them; a prompt that holds it goes in quotes or after --)",
        ),
        (&["-m"], "--model needs a MODEL"),
        (&["--model", ""], "--model needs a MODEL, not nothing"),
        (&["-o", ""], "--output needs a FILE, not nothing"),
        (
            &["--model", "--quiet", "hello"],
            "--model needs a MODEL, found --quiet; if you mean that, write --model=--quiet",
        ),
        (
            &["--config", "--", "hello"],
            "--config needs a PATH, found --; if you mean that, write --config=--",
        ),
        (&["--quiet=yes"], "--quiet takes no value"),
        (&["-q=yes"], "-q takes no value"),
        (
            &["--max-steps", "0"],
            "--max-steps must be a whole number from 1 to 1000000, not \"0\"",
        ),
        (
            &["--max-steps=+5"],
            "--max-steps must be a whole number from 1 to 1000000, not \"+5\"",
        ),
        (
            &["--timeout", "1.5"],
            "--timeout must be a whole number from 1 to 31536000, not \"1.5\"",
        ),
        (
            &["--timeout", "99999999999999999999999"],
            "--timeout must be a whole number from 1 to 31536000, not \"99999999999999999999999\"",
        ),
        (
            &["-c", "-r", "1"],
            "--continue and --resume exclude each other",
        ),
        (&["--json", "-q"], "--json and --quiet exclude each other"),
        (
            &["--subagent", "--json", "x"],
            "--json and --subagent exclude each other",
        ),
        (
            &["--api-key", "a", "--api-key-file", "b"],
            "--api-key and --api-key-file exclude each other",
        ),
        (
            &["--init", "--list-models"],
            "--list-models and --init exclude each other",
        ),
    ];
    for (line, expected) in table {
        assert_eq!(bad(line), *expected, "{line:?}");
    }
    assert_eq!(good(&["--model=--quiet"]).text(Opt::Model), Some("--quiet"));
    assert_eq!(good(&["-m", "-x-"]).text(Opt::Model), Some("-x-"));
    let name = parse(vec!["-m".into(), OsString::from_vec(vec![0xff])]);
    assert_eq!(
        name.err().as_deref(),
        Some(&b"the value of --model is not UTF-8"[..])
    );
}

#[test]
fn reserved_words() {
    let r = reserved(&["sessions"]);
    assert_eq!((r.word, r.verb, r.rest.len()), ("sessions", "list", 0));
    let r = reserved(&["-m", "x", "sessions", "search", "wifi", "--no-color", "key"]);
    assert_eq!((r.word, r.verb), ("sessions", "search"));
    assert_eq!(r.rest, [b"wifi".to_vec(), b"key".to_vec()]);
    let r = reserved(&["checkpoint", "restore-run", "7"]);
    assert_eq!((r.verb, &r.rest[..]), ("restore-run", &[b"7".to_vec()][..]));
    let r = reserved(&["skill", "import", "--dry-run", "https://x/y", "--dest", "d"]);
    assert!(r.has("dry-run") && !r.has("force"));
    assert_eq!(r.option("dest"), Some(&b"d"[..]));
    let r = reserved(&[
        "mcp",
        "add",
        "files",
        "--command",
        "npx",
        "--",
        "-y",
        "server",
        "--",
        ".",
    ]);
    assert_eq!(r.option("command"), Some(&b"npx"[..]));
    assert_eq!(r.rest.join(&b' '), b"files -y server -- .");
    let r = reserved(&["doctor", "--endpoint"]);
    assert!(r.has("endpoint") && r.verb.is_empty());
    let r = reserved(&["marketplace", "anthropics/skills"]);
    assert_eq!((r.verb, &r.rest[0][..]), ("", &b"anthropics/skills"[..]));
    let r = reserved(&["sessions", "--", "show", "-1"]);
    assert_eq!((r.verb, &r.rest[0][..]), ("show", &b"-1"[..]));
    let every = "sessions checkpoint rules modes skill marketplace mcp doctor";
    assert!(WORDS.iter().map(|w| w.name).eq(every.split(' ')));
}

#[test]
fn wrong_verbs_show_how_to_quote_a_prompt() {
    let quote = "\nIf it is a prompt, put it in quotes: cluade \"";
    let table: &[(&[&str], &str, &str)] = &[
        (
            &["sessions", "are", "slow"],
            "sessions has no verb \"are\"; it has: list show search export import fork rename prune",
            "sessions ...\"",
        ),
        (
            &["sessions", "serach", "x"],
            "sessions has no verb \"serach\"; did you mean \"search\"?",
            "sessions ...\"",
        ),
        (
            &["rules", "of", "chess"],
            "rules has no verb \"of\"; it has: list",
            "rules ...\"",
        ),
        (
            &["doctor", "my", "code"],
            "usage: cluade doctor [--endpoint]",
            "doctor ...\"",
        ),
        (
            &["mcp", "--", "is", "what"],
            "mcp has no verb \"is\"; it has: list add test remove",
            "mcp ...\"",
        ),
    ];
    for (line, text, tail) in table {
        assert_eq!(bad(line), [*text, quote, tail].concat());
    }
    assert_eq!(bad(&["sessions", "show"]), "usage: cluade sessions show ID");
    assert_eq!(bad(&["marketplace"]), "usage: cluade marketplace SOURCE");
    assert_eq!(
        bad(&["skill", "import", "x", "--dry-rum"]),
        "unknown option --dry-rum; did you mean --dry-run?"
    );
    assert_eq!(
        bad(&["skill", "import", "x", "--dest"]),
        "--dest needs a value"
    );
    assert_eq!(
        bad(&["skill", "import", "x", "--link=1"]),
        "--link takes no value"
    );
}

#[test]
fn help_fits_a_terminal() {
    let text = String::from_utf8(help::help()).unwrap();
    for line in text.lines() {
        assert!(line.len() <= 80 && line.is_ascii(), "{line}");
        assert!(!line.ends_with(' '), "{line:?}");
    }
    // No line that looks like an option escapes the parser, and columns hold.
    for line in OPTIONS.lines().filter(|l| l.trim_start().starts_with('-')) {
        let short = line.as_bytes()[3];
        let found = flags().find(|f| line[8..].starts_with(&format!("{} ", f.long)));
        let flag = found.unwrap_or_else(|| panic!("{line}"));
        assert_eq!((flag.short, flag.help), (short, &line[26..]));
        assert_eq!(line.as_bytes()[25], b' ', "{line}");
    }
    for status in [
        "0 finished",
        "1 failed",
        "2 usage",
        "3 stopped",
        "4 finished",
        "130, 143",
    ] {
        assert!(text.contains(status), "{status}");
    }
    let defaults = crate::config::Config::default();
    assert!(text.contains(&["(default ", &defaults.model, ")"].concat()));
    assert!(text.contains(&["(default ", &defaults.base_url, ")"].concat()));
    assert!(help::version().starts_with(b"cluade 0."));
}

#[test]
fn readme_has_the_tables() {
    let table = markdown_table();
    let row = "| `-m, --model MODEL` | model or alias (default deepseek-v4-pro) |\n";
    assert!(table.contains(row));
    for line in table.lines() {
        assert_eq!(line.replace("\\|", "").matches('|').count(), 3, "{line}");
    }
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    assert!(readme.contains(&table), "README.md:\n{table}");
}

#[test]
fn no_argument_list_breaks_the_parser() {
    let parts: &[&[u8]] = &[
        b"",
        b"-",
        b"--",
        b"---",
        b"-=",
        b"--=",
        b"-m",
        b"-f=",
        b"-\xff",
        b"--\xff=\xff",
        b"--model",
        b"sessions",
        b"mcp",
        b"add",
        b"-cqy",
        b"-q=1",
        b"x",
        b"--env",
        b"--max-steps=",
        b"--file",
        b"-r.json",
        b"-\xc3\xa9x",
    ];
    let mut seed = 1u32;
    for _ in 0..20_000 {
        let mut line = Vec::new();
        for _ in 0..seed % 6 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            line.push(OsString::from_vec(
                parts[(seed >> 16) as usize % parts.len()].to_vec(),
            ));
        }
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) ^ 0x55;
        match parse(line) {
            Ok(args) => drop(args),
            Err(text) => assert!(!text.is_empty()),
        }
    }
}
