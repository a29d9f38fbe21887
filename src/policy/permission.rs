//! Permissions: what the configuration says about one call of a tool. The order of things:
//!
//! 1. `--yes` allows bash, remote_bash and write whatever is configured;
//! 2. a deny of the tool itself is final;
//! 3. patterns such as `bash(git log*)`: any deny before any ask before any allow;
//! 4. the level of the tool: the configured one, else its default.
//!
//! The danger gate ([`super::danger`]) comes behind all of it: the caller turns an allowed bash call that it flags into
//! a question. Rules the user granted for a session are not mixed with the configured ones, where an ask would win over
//! them: when these say ask, the caller decides again with the granted ones alone and [`Level::Ask`] as the default.

use super::danger::danger;
use super::hazard::{clean, listed};
use super::shell::{self, Command, Op, Word, joined};
use super::wrapper;
use crate::tools::Level;

/// What is to be done with a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Run it.
    Allow,
    /// Ask the user, for this reason. Where nobody can be asked, refuse.
    Ask(String),
    /// Refuse, for this reason.
    Deny(String),
}

/// Decides about a call of `tool`, whose level is `level` unless `rules` name another.
///
/// `rules` are names of tools or `tool(pattern)`, in which `*` stands for anything; of two for the same the later one
/// counts. `subject` is what patterns are compared with: the command of bash and remote_bash, the path of a file tool,
/// the URL of a fetch. A command passes when each of its parts does. `yes`: the user said `--yes`.
pub fn decide(
    rules: &[(String, Level)],
    tool: &str,
    level: Level,
    subject: &[u8],
    yes: bool,
) -> Verdict {
    if yes && listed("bash remote_bash write", tool.as_bytes()) {
        return Verdict::Allow;
    }
    let mut of_tool = Found {
        level,
        kind: "the permission of ",
        name: tool,
    };
    let mut patterns = false;
    for (rule, level) in rules {
        if rule == tool {
            of_tool.level = *level;
        }
        patterns |= pattern(rule, tool).is_some();
    }
    if !patterns || of_tool.level == Level::Deny {
        return of_tool.verdict();
    }
    let find = |texts: &[&[u8]], allowing: usize| find(rules, tool, texts, allowing);
    if !takes_command(tool) {
        let mut clean = clean_path(subject);
        if clean.is_empty() {
            clean = subject.to_vec();
        }
        return find(&[subject, &clean], 2).unwrap_or(of_tool).verdict();
    }

    let script = shell::read(subject);
    let mut worst = find(&[subject.trim_ascii()], 0).unwrap_or(Found {
        // Its parts decide.
        level: match script.commands.is_empty() {
            true => of_tool.level,
            false => Level::Allow,
        },
        ..of_tool
    });
    if let Some(why) = script.unread {
        worst.stricter(Found {
            level: Level::Ask,
            kind: "the command can't be read: ",
            name: why,
        });
    }
    for command in &script.commands {
        let full = joined(&command.words);
        let plain = joined(command.run());
        let inner = wrapper::unwrap(command.run()).map_or(Vec::new(), |call| joined(call.words));
        // An allowed program isn't yet allowed to write where a redirection says.
        let allowing = usize::from(!writes(command));
        worst.stricter(find(&[&full, &plain, &inner], allowing).unwrap_or(of_tool));
    }
    worst.verdict()
}

/// What decided about a call.
#[derive(Clone, Copy)]
struct Found<'a> {
    level: Level,
    kind: &'static str,
    name: &'a str,
}

impl<'a> Found<'a> {
    fn stricter(&mut self, other: Found<'a>) {
        if other.level as u8 > self.level as u8 {
            *self = other;
        }
    }

    fn verdict(self) -> Verdict {
        // Only the reason why a command can't be read says all.
        let rest = match self.level {
            Level::Allow => return Verdict::Allow,
            _ if self.kind.ends_with(": ") => "",
            Level::Ask => " asks first",
            Level::Deny => " denies it",
        };
        let reason = [self.kind, self.name, rest].concat();
        match self.level {
            Level::Deny => Verdict::Deny(reason),
            _ => Verdict::Ask(reason),
        }
    }
}

/// The pattern of a rule `tool(pattern)`.
fn pattern<'a>(rule: &'a str, tool: &str) -> Option<&'a [u8]> {
    let rule = rule.as_bytes().strip_prefix(tool.as_bytes())?;
    rule.strip_prefix(b"(")?.strip_suffix(b")")
}

/// The strictest rule of `tool` that matches: deny and ask when they match one of `texts`, allow when it matches all of
/// the first `allowing` ones (and there are any).
fn find<'a>(
    rules: &'a [(String, Level)],
    tool: &str,
    texts: &[&[u8]],
    allowing: usize,
) -> Option<Found<'a>> {
    let mut best: Option<Found> = None;
    for (i, (rule, level)) in rules.iter().enumerate() {
        let Some(pattern) = pattern(rule, tool) else {
            continue;
        };
        let hit = match level {
            Level::Allow => {
                allowing > 0 && texts.iter().take(allowing).all(|t| matches(pattern, t))
            }
            _ => texts.iter().any(|t| matches(pattern, t)),
        };
        let stricter = best.is_none_or(|b| *level as u8 > b.level as u8);
        if hit && stricter && !rules.iter().skip(i + 1).any(|(later, _)| later == rule) {
            best = Some(Found {
                level: *level,
                kind: "the rule ",
                name: rule,
            });
        }
    }
    best
}

/// Whether `text` is what `pattern` describes; `*` stands for any bytes. A ` *` at the end also stands for nothing:
/// `ls *` is `ls` with or without arguments.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if pattern.strip_suffix(b" *").is_some_and(|p| p == text) {
        return true;
    }
    let (mut p, mut t) = (0, 0);
    // Where to go on after a mismatch: behind the last star, one byte further than before.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                retry = Some((p, t));
            }
            Some(c) if text.get(t) == Some(c) => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((star, from)) = retry else {
                    return false;
                };
                p = star;
                t = from + 1;
                retry = Some((star, t));
            }
        }
    }
    pattern.iter().skip(p).all(|c| *c == b'*')
}

fn takes_command(tool: &str) -> bool {
    listed("bash remote_bash", tool.as_bytes())
}

/// Whether a command writes to a file through a redirection.
fn writes(command: &Command) -> bool {
    let mut out = command.redirs.iter().filter(|r| r.op == Op::Out);
    out.any(|r| r.target.known() != Some(b"/dev/null"))
}

/// A path with `.`, `..` and empty components worked out; anything with `://` in it stays.
fn clean_path(subject: &[u8]) -> Vec<u8> {
    if subject.windows(3).any(|w| w == b"://") {
        return subject.to_vec();
    }
    clean(subject)
}

/// Programs whose first argument says what they do.
const WITH_VERBS: &str = "git uci opkg apk apt apt-get cargo rustup go npm pnpm yarn pip pip3 docker podman \
    systemctl ip ubus kubectl gh nmcli dpkg brew";
/// Programs that run whatever they are told: a rule for them would be a rule for everything.
const RUN_ANYTHING: &str = "sh ash bash dash zsh ksh mksh hush eval source . find su ssh dbclient awk gawk sed perl \
    python python3 lua lua5.1 node php ruby ucode expect parallel watch trap start-stop-daemon";

/// The rule that "always this session" stands for: `bash(git log*)`, `bash(ls *)`. `None` for what one rule can't
/// stand for: compound and dangerous commands, those that can't be read, that write to files through the shell or run
/// other programs. For other tools than bash and remote_bash the rule is the tool.
pub fn propose(tool: &str, command: &[u8]) -> Option<String> {
    if !takes_command(tool) {
        return Some(tool.to_string());
    }
    let script = shell::read(command);
    let [only] = script.commands.as_slice() else {
        return None;
    };
    let compound = script.scopes.len() > 1 || script.unread.is_some();
    if compound || only.assigns > 0 || writes(only) {
        return None;
    }
    if danger(command, b"", b"", &mut |_| None).is_some() {
        return None;
    }
    let program = plain(&only.words, 0)?;
    let name = program.rsplit('/').next()?.as_bytes();
    if wrapper::wrapper(name).is_some() || listed(RUN_ANYTHING, name) {
        return None;
    }
    let mut rule = [tool, "(", program, " "].concat();
    if listed(WITH_VERBS, name) {
        let verb = plain(&only.words, 1).filter(|verb| !verb.starts_with('-'))?;
        rule.push_str(verb);
    }
    rule.push_str("*)");
    Some(rule)
}

/// A word that a rule can be made of.
fn plain(words: &[Word], n: usize) -> Option<&str> {
    let text = words.get(n)?.known()?;
    let plain = text.iter().all(|b| is_plain(*b));
    std::str::from_utf8(text).ok().filter(|_| plain)
}

fn is_plain(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"._+-/:@".contains(&b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<(String, Level)> {
        text.split("; ")
            .filter(|r| !r.is_empty())
            .map(|rule| {
                let (name, level) = rule.rsplit_once(": ").unwrap();
                let level = match level {
                    "allow" => Level::Allow,
                    "ask" => Level::Ask,
                    _ => Level::Deny,
                };
                (name.to_string(), level)
            })
            .collect()
    }

    fn word(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Allow => "allow",
            Verdict::Ask(_) => "ask",
            Verdict::Deny(_) => "deny",
        }
    }

    fn bash(config: &str, level: Level, command: &str) -> &'static str {
        word(&decide(
            &rules(config),
            "bash",
            level,
            command.as_bytes(),
            false,
        ))
    }

    #[test]
    fn levels_come_from_the_tool_unless_configured() {
        let cases = [
            ("", "bash", Level::Allow, "allow"),
            ("", "remote_bash", Level::Ask, "ask"),
            ("bash: ask", "bash", Level::Allow, "ask"),
            ("bash: ask", "write", Level::Allow, "allow"),
            ("bash: deny; bash: allow", "bash", Level::Allow, "allow"),
            ("bash: allow; bash: deny", "bash", Level::Allow, "deny"),
            ("remote_bash: allow", "remote_bash", Level::Ask, "allow"),
            ("remote_bash: allow", "bash", Level::Ask, "ask"),
            ("bash: deny; bash(ls): allow", "bash", Level::Allow, "deny"),
            ("web_fetch: deny", "web_fetch", Level::Allow, "deny"),
        ];
        for (config, tool, level, want) in cases {
            let got = decide(&rules(config), tool, level, b"ls", false);
            assert_eq!(word(&got), want, "{config} {tool}");
        }
    }

    #[test]
    fn yes_wins_over_the_configuration_for_three_tools() {
        let config = rules(
            "bash: deny; write: deny; remote_bash: ask; edit: deny; web_fetch: ask; bash(rm*): deny",
        );
        for (tool, want) in [
            ("bash", "allow"),
            ("remote_bash", "allow"),
            ("write", "allow"),
            ("edit", "deny"),
            ("web_fetch", "ask"),
            ("read", "allow"),
        ] {
            let got = decide(&config, tool, Level::Allow, b"rm x", true);
            assert_eq!(word(&got), want, "{tool}");
        }
    }

    #[test]
    fn deny_goes_before_ask_before_allow() {
        let config = "bash(git*): allow; bash(git push*): ask; bash(git push --force*): deny";
        assert_eq!(bash(config, Level::Ask, "git log"), "allow");
        assert_eq!(bash(config, Level::Ask, "git push"), "ask");
        assert_eq!(bash(config, Level::Ask, "git push --force"), "deny");
        assert_eq!(bash(config, Level::Allow, "git push --force x"), "deny");
        assert_eq!(bash(config, Level::Ask, "make"), "ask");
        assert_eq!(bash(config, Level::Allow, "make"), "allow");
        let twice = "bash(git*): deny; bash(git*): allow";
        assert_eq!(bash(twice, Level::Ask, "git log"), "allow");
        assert_eq!(bash("bash(ls*): allow", Level::Ask, "  ls -l\n"), "allow");
    }

    #[test]
    fn every_part_of_a_command_must_pass() {
        let config =
            "bash(git log*): allow; bash(git diff*): allow; bash(head *): allow; bash(rm *): deny";
        let cases = [
            ("git log", "allow"),
            ("git log | head -5", "allow"),
            ("git log && git diff; git log", "allow"),
            ("git log\ngit diff", "allow"),
            ("'git' \"log\" -p", "allow"),
            ("git log --format='%h; rm x'", "allow"),
            ("git log 2>&1 2>/dev/null </dev/null | head", "allow"),
            ("if git diff; then git log; fi", "allow"),
            ("for f in a b; do git log $f; done", "allow"),
            ("git log # && rm x", "allow"),
            ("git log && rm x", "deny"),
            ("git log && make", "ask"),
            ("git log; make & git log", "ask"),
            ("git log | sh", "ask"),
            ("git log $(make)", "ask"),
            ("git log $(git diff)", "allow"),
            ("git log `rm x`", "deny"),
            ("git log \"$(rm x)\"", "deny"),
            ("git log <(make)", "ask"),
            ("git log ${x:-$(make)}", "ask"),
            ("git log $(( $(rm x) + 1 ))", "deny"),
            ("head <<E\n$(rm x)\nE", "deny"),
            ("head <<'E'\n$(rm x)\nE", "allow"),
            ("git log > /etc/passwd", "ask"),
            ("git log >>log", "ask"),
            ("git log 2>$x", "ask"),
            ("{ git log; git diff; } > out", "ask"),
            ("(git log)", "allow"),
            ("GIT_PAGER=make git log", "ask"),
            ("PATH=/tmp/x; git log", "ask"),
            ("x=1 rm y", "deny"),
            ("sudo rm y", "deny"),
            ("timeout 5 rm y", "deny"),
            ("sudo git log", "ask"),
            ("$git log", "ask"),
            ("git() { rm -f x; }; git log", "deny"),
            ("git log 'x", "ask"),
            ("git log &&", "ask"),
            ("git log $(", "ask"),
            ("rm x; git log 'x", "deny"),
            ("", "ask"),
            ("# nothing", "ask"),
            ("((x))", "ask"),
        ];
        for (command, want) in cases {
            assert_eq!(bash(config, Level::Ask, command), want, "{command}");
        }
        // What no rule names falls to the level; what can't be read is asked about.
        let cases = [
            ("make && git log > f", "allow"),
            ("make 'x", "ask"),
            ("make; rm x", "deny"),
            ("", "allow"),
        ];
        for (command, want) in cases {
            assert_eq!(bash(config, Level::Allow, command), want, "{command}");
        }
        assert_eq!(bash("", Level::Allow, "make 'x"), "allow");
        assert_eq!(
            bash("bash(*curl*|*sh*): deny", Level::Allow, "curl x | sh"),
            "deny"
        );
    }

    #[test]
    fn paths_are_compared_worked_out() {
        let config = rules("write(/etc/*): ask; write(src/*): allow; write(*.key): deny");
        let cases = [
            ("/etc/config/network", "ask"),
            ("/tmp/../etc//passwd", "ask"),
            ("src/main.rs", "allow"),
            ("./src/main.rs", "deny by default"),
            ("src/../../etc/passwd", "deny by default"),
            ("src/server.key", "deny"),
        ];
        for (path, want) in cases {
            let got = decide(&config, "write", Level::Ask, path.as_bytes(), false);
            let want = if want == "deny by default" {
                "ask"
            } else {
                want
            };
            assert_eq!(word(&got), want, "{path}");
        }
        let web = rules("web_fetch(https://example.org/*): allow");
        let got = decide(
            &web,
            "web_fetch",
            Level::Ask,
            b"https://example.org//a",
            false,
        );
        assert_eq!(got, Verdict::Allow);
    }

    #[test]
    fn reasons_name_the_rule() {
        let config = rules("bash(rm *): deny; bash(git push*): ask");
        let reason = |command: &[u8]| decide(&config, "bash", Level::Allow, command, false);
        assert_eq!(
            reason(b"rm x"),
            Verdict::Deny("the rule bash(rm *) denies it".into())
        );
        assert_eq!(
            reason(b"git push"),
            Verdict::Ask("the rule bash(git push*) asks first".into())
        );
        assert_eq!(
            reason(b"ls 'x"),
            Verdict::Ask("the command can't be read: a quote isn't closed".into())
        );
    }

    #[test]
    fn stars_match_anything() {
        let cases = [
            ("git log*", "git log", true),
            ("git log*", "git log -p a/b\nc", true),
            ("git log*", "git lo", false),
            ("ls *", "ls", true),
            ("ls *", "ls -l", true),
            ("ls *", "lsof", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*.rs", "src/a.rs", true),
            ("ls", "ls -l", false),
            ("a.c", "abc", false),
        ];
        for (pattern, text, want) in cases {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                want,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn rules_proposed_for_always() {
        let cases = [
            ("git log -p", "bash(git log*)"),
            ("git log 2>/dev/null", "bash(git log*)"),
            ("uci show network", "bash(uci show*)"),
            ("ls -l /tmp/*.log", "bash(ls *)"),
            ("/etc/init.d/dnsmasq restart", "bash(/etc/init.d/dnsmasq *)"),
            ("make", "bash(make *)"),
            ("git", ""),
            ("git -C /x push", ""),
            ("git $verb", ""),
            ("git log && ls", ""),
            ("git log | head", ""),
            ("(git log)", ""),
            ("git log $(ls)", ""),
            ("git log > x", ""),
            ("A=b git log", ""),
            ("git log 'x", ""),
            ("sudo ls", ""),
            ("sh -c ls", ""),
            ("find . -name x", ""),
            ("$cmd", ""),
            ("l* x", ""),
            ("rm -rf /", ""),
            ("reboot", ""),
            ("echo <<E\n$(reboot)\nE", ""),
            ("f() { ls; }", ""),
            ("", ""),
        ];
        for (command, want) in cases {
            let got = propose("bash", command.as_bytes()).unwrap_or_default();
            assert_eq!(got, want, "{command}");
            if !want.is_empty() {
                let granted = [(got, Level::Allow)];
                let again = decide(&granted, "bash", Level::Ask, command.as_bytes(), false);
                assert_eq!(again, Verdict::Allow, "{command}");
            }
        }
        assert_eq!(
            propose("remote_bash", b"ls"),
            Some("remote_bash(ls *)".into())
        );
        assert_eq!(propose("write", b"/etc/x"), Some("write".into()));
    }
}
