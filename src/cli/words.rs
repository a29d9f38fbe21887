//! The reserved first words and their verbs, as a table.

/// A verb of a reserved word.
pub struct Verb {
    /// The verb; empty for a word that stands alone.
    pub name: &'static str,
    /// Its arguments in the help.
    pub usage: &'static str,
    /// Fewest arguments.
    pub min: u8,
    /// Most arguments; 255 is any number.
    pub max: u8,
    /// Its own options, and whether they take a value.
    pub options: &'static [(&'static str, bool)],
}

/// A first word that is no prompt.
pub struct Word {
    /// The word.
    pub name: &'static str,
    /// Its verbs; the first one is meant when none is given and it needs no arguments.
    pub verbs: &'static [Verb],
}

const ANY: u8 = u8::MAX;

const fn verb(name: &'static str, usage: &'static str, min: u8, max: u8) -> Verb {
    with_options(name, usage, min, max, &[])
}

const fn with_options(
    name: &'static str,
    usage: &'static str,
    min: u8,
    max: u8,
    options: &'static [(&'static str, bool)],
) -> Verb {
    Verb {
        name,
        usage,
        min,
        max,
        options,
    }
}

/// Every reserved word.
pub static WORDS: &[Word] = &[
    Word {
        name: "sessions",
        verbs: &[
            verb("list", "", 0, 0),
            verb("show", "ID", 1, 1),
            verb("search", "WORD...", 1, ANY),
            verb("export", "ID", 1, 1),
            verb("import", "FILE", 1, 1),
            verb("fork", "ID", 1, 1),
            verb("rename", "ID TITLE...", 2, ANY),
            verb("prune", "DAYS", 1, 1),
        ],
    },
    Word {
        name: "checkpoint",
        verbs: &[
            verb("list", "", 0, 0),
            verb("restore", "ID", 1, 1),
            verb("restore-run", "ID", 1, 1),
        ],
    },
    Word {
        name: "rules",
        verbs: &[verb("list", "", 0, 0)],
    },
    Word {
        name: "modes",
        verbs: &[verb("list", "", 0, 0)],
    },
    Word {
        name: "skill",
        verbs: &[
            verb("list", "", 0, 0),
            with_options(
                "import",
                "SOURCE [--dry-run] [--force] [--link] [--dest DIR]",
                1,
                1,
                &[
                    ("dry-run", false),
                    ("force", false),
                    ("link", false),
                    ("dest", true),
                ],
            ),
        ],
    },
    Word {
        name: "marketplace",
        verbs: &[verb("", "SOURCE", 1, 1)],
    },
    Word {
        name: "mcp",
        verbs: &[
            verb("list", "", 0, 0),
            with_options(
                "add",
                "NAME --url URL | NAME --command CMD [-- ARG...]",
                1,
                ANY,
                &[
                    ("url", true),
                    ("command", true),
                    ("env", true),
                    ("header", true),
                ],
            ),
            verb("test", "[NAME]", 0, 1),
            verb("remove", "NAME", 1, 1),
        ],
    },
    Word {
        name: "doctor",
        verbs: &[with_options(
            "",
            "[--endpoint]",
            0,
            0,
            &[("endpoint", false)],
        )],
    },
];
