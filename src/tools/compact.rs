//! The compact tool: the model replaces the conversation by its own summary. The agent carries it out.

use super::{Class, Level, Tool};

/// The table's row.
pub static TOOL: Tool = Tool {
    name: "compact",
    description: "Free context: replace the conversation so far by your summary (goal, progress, decisions, open points, \
facts needed later). Use at milestones or when told that the context fills up.",
    properties: r#"{"summary":{"type":"string"}}"#,
    required: &["summary"],
    class: Class::ReadOnly,
    level: Level::Allow,
    writes: None,
    label: "",
    run: None,
};
