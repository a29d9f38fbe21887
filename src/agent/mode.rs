//! Modes: a toolset and a sentence for the model. The toolset is enforced twice, in the list offered and again at the
//! call, for a restriction that lives only in a prompt is none.

use crate::sys::fs;
use crate::tools::{Class, Tool};

/// A way of working.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Everything.
    #[default]
    Code,
    /// Reads everything, writes only Markdown.
    Architect,
    /// Reads only.
    Ask,
    /// Everything, hunting a fault.
    Debug,
    /// Everything, splitting work up.
    Orchestrator,
    /// `--plan`: reads only, unattended.
    Plan,
}

/// Name, value and what the model is told, which is nothing for the usual mode.
const MODES: &[(&str, Mode, &str)] = &[
    ("code", Mode::Code, ""),
    (
        "architect",
        Mode::Architect,
        "Mode architect: read anything, write only Markdown files (.md, .markdown, .txt). Produce plans and documents, not code changes.\n",
    ),
    (
        "ask",
        Mode::Ask,
        "Mode ask: answer questions; nothing can be changed.\n",
    ),
    (
        "debug",
        Mode::Debug,
        "Mode debug: find the cause first. Reproduce, form hypotheses, test them one by one, then fix the cause.\n",
    ),
    (
        "orchestrator",
        Mode::Orchestrator,
        "Mode orchestrator: split the work into small independent tasks, do them one after the other and check each.\n",
    ),
    (
        "plan",
        Mode::Plan,
        "Only reading tools are available: research, then give a plan or an answer.\n",
    ),
];

impl Mode {
    /// The mode of that name.
    pub fn from_name(name: &str) -> Option<Mode> {
        MODES.iter().find(|m| m.0 == name).map(|m| m.1)
    }

    /// All names a user can give, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        MODES.iter().map(|m| m.0)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        MODES.iter().find(|m| m.1 == self).map_or("code", |m| m.0)
    }

    /// What the model is told about it.
    pub fn text(self) -> &'static str {
        MODES.iter().find(|m| m.1 == self).map_or("", |m| m.2)
    }

    /// Whether the mode has this tool.
    pub fn has(self, tool: &Tool) -> bool {
        match self {
            Mode::Code | Mode::Debug | Mode::Orchestrator => true,
            Mode::Ask | Mode::Plan => tool.class == Class::ReadOnly,
            Mode::Architect => tool.class != Class::Serial,
        }
    }

    /// Why the mode does not let a tool write to `path` (absolute), if it doesn't. The file the path leads to counts, not
    /// its name: a link `notes.md` to a program is a program.
    pub fn refuses_write(self, path: &[u8]) -> Option<&'static str> {
        if self != Mode::Architect {
            return None;
        }
        let real = fs::real_target(path);
        let name = real.rsplit(|&b| b == b'/').next().unwrap_or_default();
        let ok = name.iter().rposition(|&b| b == b'.').is_some_and(|dot| {
            dot > 0
                && ["md", "markdown", "txt"]
                    .iter()
                    .any(|e| name[dot + 1..].eq_ignore_ascii_case(e.as_bytes()))
        });
        (!ok).then_some("architect mode writes only Markdown files (.md, .markdown, .txt)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architect_writes_only_what_really_is_markdown() {
        let dir = std::env::temp_dir().join(format!("cluade-mode-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("prog.sh"), "x").unwrap();
        std::os::unix::fs::symlink("prog.sh", dir.join("link.md")).unwrap();
        std::os::unix::fs::symlink("new.sh", dir.join("dangling.md")).unwrap();
        let path = |name: &str| dir.join(name).to_string_lossy().into_owned().into_bytes();
        for (name, allowed) in [
            ("a.md", true),
            ("A.MD", true),
            ("b.markdown", true),
            ("c.txt", true),
            ("d.rs", false),
            (".md", false),
            ("md", false),
            ("link.md", false),
            ("dangling.md", false),
            ("x.md/../prog.sh", false),
        ] {
            assert_eq!(
                Mode::Architect.refuses_write(&path(name)).is_none(),
                allowed,
                "{name}"
            );
            assert_eq!(Mode::Code.refuses_write(&path(name)), None);
        }
    }
}
