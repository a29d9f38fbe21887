//! edit: exact text replaced by other text; only the matched bytes change.

use super::bigedit::pass;
use super::editcall::{Edit, Found, LINES_NAMED, edits_of, push_label, push_lines};
use super::nearlines::Nearest;
use super::target::{Target, push_count};
use super::textmatch::{self, Level as Match};
use super::{Class, Ctx, Level, Output, Tool};
use crate::json::Value;
use crate::sys::fs::{self, File};
use std::io;

/// The tool.
pub static TOOL: Tool = Tool {
    name: "edit",
    description: "Replace text in a file. oldString must match exactly one place (or set replaceAll). edits: several replacements, all or none.",
    properties: r#"{"filePath":{"type":"string"},"oldString":{"type":"string"},"newString":{"type":"string"},"replaceAll":{"type":"boolean"},"edits":{"type":"array","items":{"type":"object","properties":{"oldString":{"type":"string"},"newString":{"type":"string"},"replaceAll":{"type":"boolean"}},"required":["oldString","newString"]}}}"#,
    required: &["filePath"],
    class: Class::WritesPath,
    level: Level::Allow,
    writes: Some("filePath"),
    label: "filePath",
    run: Some(run),
};

/// Files up to this size are matched in memory, at all levels; larger ones only exactly, as a stream.
const SMALL: u64 = 1 << 20;

fn run(ctx: &mut Ctx, args: &Value) -> Output {
    edit(ctx, args).unwrap_or_else(|refused| refused)
}

fn edit(ctx: &mut Ctx, args: &Value) -> Result<Output, Output> {
    let target = Target::new(args, "filePath", ctx.cwd)?;
    let edits = edits_of(args)?;
    let meta = target.stat(false)?;
    let real = target.real()?;
    target.check_fresh(ctx.seen, &real, &meta)?;
    let job = Job {
        target: &target,
        edits: &edits,
        real: &real,
    };
    let mut out = b"edited ".to_vec();
    out.extend_from_slice(&target.shown);
    out.extend_from_slice(b": ");
    if meta.size > SMALL {
        let mut found = Vec::new();
        let overlap = File::open(&real)
            .and_then(|mut file| pass(&mut file, &edits, &mut found, None))
            .map_err(|e| target.failed(e))?;
        let mut total = Found::default();
        for (i, (edit, mut found)) in edits.iter().zip(found).enumerate() {
            if found.count == 0 || found.count > 1 && !edit.all {
                return Err(job.refuse(i, &mut found, Match::Exact, true));
            }
            total.count += found.count;
            total.lines.extend_from_slice(&found.lines);
        }
        if overlap {
            return Err(target.error("the edits overlap; nothing was changed. Merge them into one"));
        }
        push_report(&mut out, &mut total, 0);
        target.save(ctx, &real, Some(&meta), &mut |old, sink| match old {
            Some(old) => pass(old, &edits, &mut Vec::new(), Some(sink)).map(|_| ()),
            None => Ok(()),
        })?;
    } else {
        let new = job.apply(&mut out)?;
        target.save(ctx, &real, Some(&meta), &mut |_, sink| sink(&new))?;
    }
    Ok(Output::ok(out))
}

/// `N replacements at lines …`, and how they matched: bit n of `levels` stands for a note.
fn push_report(out: &mut Vec<u8>, total: &mut Found, levels: u8) {
    push_count(out, total.count as u64, "replacement");
    push_lines(out, total);
    for (i, note) in textmatch::NOTES.iter().enumerate().skip(1) {
        if levels >> i & 1 != 0 {
            out.extend_from_slice(b"; ");
            out.extend_from_slice(note.as_bytes());
        }
    }
}

struct Job<'a> {
    target: &'a Target,
    edits: &'a [Edit],
    real: &'a [u8],
}

impl Job<'_> {
    /// All edits of a small file one after the other, each on what the one before made. Returns the new content and
    /// reports on it.
    fn apply(&self, report: &mut Vec<u8>) -> Result<Vec<u8>, Output> {
        let most = 2 * SMALL as usize;
        let read = fs::read_small(self.real, most).and_then(|text| match text.len() < most {
            true => Ok(text),
            // It grows while we look.
            false => Err(io::ErrorKind::FileTooLarge.into()),
        });
        let mut text = read.map_err(|e| self.target.failed(e))?;
        let mut total = Found::default();
        let (mut levels, mut changed) = (0, false);
        for (i, edit) in self.edits.iter().enumerate() {
            let matches = textmatch::find(&text, &edit.old, edit.all);
            let mut found = Found {
                count: matches.spans.len(),
                lines: Vec::new(),
            };
            for span in matches.spans.iter().take(LINES_NAMED) {
                found.lines.push(textmatch::line_of(&text, span.0));
            }
            if found.count == 0 || matches.ambiguous(edit.all) {
                return Err(self.refuse(i, &mut found, matches.level, false));
            }
            total.count += found.count;
            total.lines.append(&mut found.lines);
            levels |= 1 << matches.level as u8;
            let mut new = Vec::with_capacity(text.len() + edit.new.len() + 64);
            let mut from = 0;
            for &(start, end) in &matches.spans {
                new.extend_from_slice(text.get(from..start).unwrap_or_default());
                matches.fit(&text, start, &edit.old, &edit.new, &mut new);
                from = end;
            }
            new.extend_from_slice(text.get(from..).unwrap_or_default());
            changed |= new != text;
            text = new;
        }
        if !changed {
            let text = b"the edit changes nothing: the text is so already";
            return Err(self.target.error(text));
        }
        push_report(report, &mut total, levels);
        Ok(text)
    }

    /// Why edit `i`, whose text was found in no place or in too many, isn't made.
    fn refuse(&self, i: usize, found: &mut Found, level: Match, large: bool) -> Output {
        let mut out = Vec::new();
        push_label(&mut out, i, self.edits.len());
        if found.count > 0 {
            out.extend_from_slice(b"oldString matches ");
            push_count(&mut out, found.count as u64, "place");
            out.push(b',');
            push_lines(&mut out, found);
            out.extend_from_slice(b"; add lines around it to name one");
            if level <= Match::Newlines {
                out.extend_from_slice(b", or set replaceAll");
            }
        } else if let Some(edit) = self.edits.get(i) {
            out.extend_from_slice(b"oldString was not found");
            if large {
                out.extend_from_slice(
                    b" (files over 1 MiB are matched exactly, all edits against the file as it is)",
                );
            }
            Nearest::report(self.real, &edit.old, &mut out);
        }
        self.target.error(&out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Writer;
    use crate::tools::scene::Scene;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn args(path: &str, old: &str, new: &str, all: bool) -> String {
        let mut w = Writer::new();
        w.open(b'{').key("filePath").str(path);
        w.key("oldString").str(old).key("newString").str(new);
        w.key("replaceAll").bool(all).close(b'}');
        String::from_utf8(w.out).unwrap()
    }

    fn list(path: &str, edits: &[(&str, &str, bool)]) -> String {
        let mut w = Writer::new();
        w.open(b'{').key("filePath").str(path);
        w.key("edits").open(b'[');
        for (old, new, all) in edits {
            w.open(b'{').key("oldString").str(old);
            w.key("newString").str(new);
            w.key("replaceAll").bool(*all).close(b'}');
        }
        w.close(b']').close(b'}');
        String::from_utf8(w.out).unwrap()
    }

    #[test]
    fn results_say_what_was_done() {
        for (content, old, new, all, after, want) in [
            (
                "a\nb\nc\n",
                "b",
                "x\ny",
                false,
                "a\nx\ny\nc\n",
                "edited f: 1 replacement at line 2",
            ),
            (
                "a a\na\n",
                "a",
                "b",
                true,
                "b b\nb\n",
                "edited f: 3 replacements at lines 1, 2",
            ),
            (
                "one",
                "one",
                "",
                false,
                "",
                "edited f: 1 replacement at line 1",
            ),
            (
                "a\r\nb\r\n",
                "a\nb",
                "c\nd",
                false,
                "c\r\nd\r\n",
                "edited f: 1 replacement at line 1; matched ignoring CRLF and LF",
            ),
            (
                "x\na  \nb",
                "a\nb",
                "c",
                false,
                "x\nc",
                "edited f: 1 replacement at line 2; matched ignoring trailing blanks",
            ),
            (
                "if\n\ta\n\tb\nfi\n",
                "    a\n    b\n",
                "    a\n        c\n",
                false,
                "if\n\ta\n\t\tc\nfi\n",
                "edited f: 1 replacement at line 2; matched with other indentation, newString indented likewise",
            ),
        ] {
            let mut scene = Scene::new();
            scene.put("f", content);
            assert_eq!(scene.ok(&TOOL, &args("f", old, new, all)), want);
            assert_eq!(scene.get("f"), after.as_bytes());
        }
        let mut scene = Scene::new();
        scene.put("f", "a\n".repeat(12));
        assert_eq!(
            scene.ok(&TOOL, &args("f", "a", "b", true)),
            "edited f: 12 replacements at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..."
        );
    }

    #[test]
    fn untouched_bytes_stay() {
        // Everything that is not text, or not by the rules, around the place.
        let before = b"\xEF\xBB\xBF\xFF\xFE\0caf\xE9\r\n\rmixed\n\n\r\n  \t ";
        let after = b" \r\ntail\r\r\n\n  no end \t";
        let mut scene = Scene::new();
        let path = scene.put("f", [&before[..], b"OLD", after].concat());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        symlink("f", scene.path("one")).unwrap();
        symlink(scene.path("one"), scene.path("two")).unwrap();
        scene.ok(&TOOL, &args("two", "OLD", "NEW", false));
        assert_eq!(scene.get("f"), [&before[..], b"NEW", after].concat());
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o755);
        assert!(scene.path("one").is_symlink() && scene.path("two").is_symlink());
        std::fs::hard_link(&path, scene.path("hard")).unwrap();
        scene.ok(&TOOL, &args("hard", "NEW", "NEWER", false));
        assert_eq!(scene.get("f"), [&before[..], b"NEWER", after].concat());
        assert_eq!(scene.names(), ["f", "hard", "one", "two"]);
    }

    #[test]
    fn failures_name_the_remedy() {
        let mut scene = Scene::new();
        scene.put(
            "f",
            "config lan\n\toption ip '1'\nconfig wan\n\toption ip '2'\n",
        );
        for (old, new, want) in [
            (
                "option",
                "x",
                "f: oldString matches 2 places, at lines 2, 4; add lines around it to name one, or set replaceAll",
            ),
            ("x", "x", "oldString and newString are the same"),
            (
                "",
                "x",
                "oldString is empty; write makes or overwrites whole files",
            ),
            (
                "option ip '3'",
                "x",
                "f: oldString was not found. Nearest lines:\n2: \toption ip '1'\n4: \toption ip '2'",
            ),
            (
                "config wan\n\toption ip '3'\n",
                "x",
                "f: oldString was not found. Nearest lines:\n3: config wan\n1: config lan",
            ),
            (
                "%%%",
                "x",
                "f: oldString was not found; no line resembles it",
            ),
            (
                "config  lan",
                "",
                "f: oldString was not found. Nearest lines:\n1: config lan\n3: config wan",
            ),
        ] {
            assert_eq!(scene.error(&TOOL, &args("f", old, new, false)), want);
        }
        let got = scene.error(&TOOL, &args("g", "a", "b", false));
        assert_eq!(got, "g: No such file or directory");
        let got = scene.error(&TOOL, r#"{"filePath":"f","oldString":"a"}"#);
        assert_eq!(got, "newString is missing (it may be empty)");
        let got = scene.error(&TOOL, r#"{"filePath":"f"}"#);
        assert_eq!(got, "oldString is missing");
        let got = scene.error(&TOOL, &args(".", "a", "b", false));
        assert_eq!(got, ".: is a directory");
        let got = scene.error(&TOOL, &args("/dev/null", "a", "b", false));
        assert_eq!(got, "/dev/null: is a device, not a file");
        scene.put("crlf", "a\r\nb\r\n");
        let got = scene.error(&TOOL, &args("crlf", "a\nb", "a\r\nb", false));
        assert_eq!(
            got,
            "crlf: the edit changes nothing: the text is so already"
        );
    }

    #[test]
    fn several_edits_are_all_or_nothing() {
        let mut scene = Scene::new();
        scene.put("f", "one\ntwo\ntwo\n");
        let got = scene.ok(
            &TOOL,
            &list(
                "f",
                &[
                    ("one", "1\n1", false),
                    ("two", "2", true),
                    ("1\n2", "3", false),
                ],
            ),
        );
        assert_eq!(got, "edited f: 4 replacements at lines 1, 3, 4, 2");
        assert_eq!(scene.get("f"), b"1\n3\n2\n");
        let got = scene.error(
            &TOOL,
            &list("f", &[("1", "x", false), ("nope", "y", false)]),
        );
        assert_eq!(
            got,
            "f: edit 2 of 2: oldString was not found; no line resembles it"
        );
        let got = scene.error(&TOOL, &list("f", &[("1", "x", false), ("", "y", false)]));
        assert_eq!(
            got,
            "edit 2 of 2: oldString is empty; write makes or overwrites whole files"
        );
        assert_eq!(scene.get("f"), b"1\n3\n2\n");
        // The forms models make of it.
        for (edits, want) in [
            (
                r#""edits":[{"oldString":"1","newString":"a"}],"oldString":"","newString":"""#,
                "a\n3\n2\n",
            ),
            (r#""edits":[],"oldString":"a","newString":"c""#, "c\n3\n2\n"),
            (r#""edits":"","oldString":"c","newString":"d""#, "d\n3\n2\n"),
            (
                r#""edits":[{"oldString":"2","newString":"e"}],"oldString":"d","newString":"1""#,
                "1\n3\ne\n",
            ),
        ] {
            scene.ok(&TOOL, &format!(r#"{{"filePath":"f",{edits}}}"#));
            assert_eq!(scene.get("f"), want.as_bytes(), "{edits}");
        }
        let got = scene.error(&TOOL, r#"{"filePath":"f","edits":"[{"}"#);
        assert_eq!(
            got,
            "edits must be an array of {oldString, newString, replaceAll}"
        );
    }

    #[test]
    fn a_change_by_somebody_else_stops_an_edit() {
        let mut scene = Scene::new();
        scene.put("f", "a b c");
        scene.ok(&TOOL, &args("f", "a", "x", false));
        scene.ok(&TOOL, &args("f", "b", "y", false));
        scene.put("f", "x y z");
        let got = scene.error(&TOOL, &args("f", "x", "q", false));
        assert!(
            got.starts_with("f: changed on disk since you last saw it"),
            "{got}"
        );
        assert_eq!(scene.get("f"), b"x y z");
        scene.ok(&crate::tools::read::TOOL, r#"{"filePath":"f"}"#);
        scene.ok(&TOOL, &args("f", "x", "q", false));
        // Only a part was read: it still counts as seen, and unchanged.
        scene.put("g", "1\n2\n3\n");
        scene.ok(&crate::tools::read::TOOL, r#"{"filePath":"g","limit":1}"#);
        scene.ok(&TOOL, &args("g", "3", "4", false));
    }

    /// A file over a megabyte, CRLF, with marks at the places given.
    fn large(scene: &Scene, marks: &[(usize, &str)]) -> String {
        let mut lines: Vec<String> = (0..120_000).map(|i| format!("row {i}")).collect();
        for &(line, text) in marks {
            lines[line - 1] = text.to_string();
        }
        let text = lines.join("\r\n");
        scene.put("f", &text);
        text
    }

    #[test]
    fn large_files_are_edited_as_a_stream() {
        let mut scene = Scene::new();
        let text = large(&scene, &[(5, "MARK"), (60_000, "OTHER"), (119_000, "MARK")]);
        let got = scene.error(&TOOL, &args("f", "MARK", "x", false));
        assert_eq!(
            got,
            "f: oldString matches 2 places, at lines 5, 119000; add lines around it to name one, or set replaceAll"
        );
        let got = scene.error(&TOOL, &args("f", "MARQ", "x", false));
        assert_eq!(
            got,
            "f: oldString was not found (files over 1 MiB are matched exactly, all edits against the file as it is). \
             Nearest lines:\n5: MARK\n119000: MARK\n43786: row 43785"
        );
        let got = scene.ok(
            &TOOL,
            &list(
                "f",
                &[
                    ("OTHER\r\nrow 60000", "o\nther", false),
                    ("MARK", "m", true),
                ],
            ),
        );
        assert_eq!(got, "edited f: 3 replacements at lines 60000, 5, 119000");
        let want = text
            .replace("MARK", "m")
            .replace("OTHER\r\nrow 60000", "o\nther");
        assert!(scene.get("f") == want.as_bytes());
        // A model that names no CR gets the file's line ends.
        scene.ok(&TOOL, &args("f", "row 7", "a\nb", true));
        let want = want.replace("row 7", "a\r\nb");
        assert!(scene.get("f") == want.as_bytes());
        assert_eq!(scene.names(), ["f"]);
        let got = scene.error(
            &TOOL,
            &list(
                "f",
                &[
                    ("row 11\r\nrow 12\r\n", "x", false),
                    ("12\r\nrow 13\r\n", "y", false),
                ],
            ),
        );
        assert_eq!(
            got,
            "f: the edits overlap; nothing was changed. Merge them into one"
        );
        assert!(scene.get("f") == want.as_bytes());
        assert_eq!(scene.names(), ["f"]);
    }

    #[test]
    fn large_files_with_links_and_failures() {
        use crate::sys::fs::fault;
        let mut scene = Scene::new();
        let text = large(&scene, &[(100_000, "MARK")]);
        std::fs::hard_link(scene.path("f"), scene.path("g")).unwrap();
        scene.ok(&TOOL, &args("f", "MARK", "a longer mark", false));
        let text = text.replace("MARK", "a longer mark");
        assert!(scene.get("g") == text.as_bytes());
        scene.ok(&TOOL, &args("g", "a longer mark", "m", false));
        let text = text.replace("a longer mark", "m");
        assert!(scene.get("f") == text.as_bytes());
        let new = text.replace("row 99998\r\nm", "n");
        for at in (1..400).step_by(7) {
            let plan = fault::Plan {
                at,
                only: None,
                errno: libc::ENOSPC,
                forever: false,
            };
            let edit = args("f", "row 99998\r\nm", "n", false);
            let (out, failed) = fault::during(plan, || scene.run(&TOOL, &edit));
            if out.ok {
                assert!(!failed && scene.get("f") == new.as_bytes());
                assert_eq!(scene.names(), ["f", "g"]);
                return;
            }
            assert!(scene.get("f") == text.as_bytes(), "call {at}");
            assert_eq!(scene.names(), ["f", "g"], "call {at}");
        }
        panic!("never done");
    }
}
