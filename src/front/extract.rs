//! `-x`: the last fenced block of an answer.

/// The inside of the last fenced code block (CommonMark §4.5: three or more backticks or tildes, closed by at least as
/// many of the same), each line with its end. An unclosed block runs to the end. `None` without a block.
pub fn last_block(answer: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    let mut open: Option<(u8, usize, usize, Vec<u8>)> = None;
    for line in answer.split_inclusive(|&b| b == b'\n') {
        let text = line.trim_ascii_end();
        let indent = text.iter().take_while(|&&b| b == b' ').count();
        let rest = &text[indent..];
        let mark = rest.first().copied().filter(|b| matches!(b, b'`' | b'~'));
        let run = mark.map_or(0, |m| rest.iter().take_while(|&&b| b == m).count());
        match &mut open {
            None => {
                // A backtick fence has no backtick in its info string.
                let info_ok = mark == Some(b'~') || !rest[run..].contains(&b'`');
                if let Some(mark) = mark
                    && run >= 3
                    && info_ok
                {
                    open = Some((mark, run, indent, Vec::new()));
                }
            }
            Some((fence, length, _, block))
                if mark == Some(*fence) && run >= *length && rest.len() == run =>
            {
                found = Some(std::mem::take(block));
                open = None;
            }
            Some((_, _, indent, block)) => {
                let cut = line.iter().take_while(|&&b| b == b' ').count().min(*indent);
                block.extend_from_slice(&line[cut..]);
            }
        }
    }
    match open {
        Some((.., block)) => Some(block),
        None => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_fenced_block() {
        let cases: &[(&str, Option<&str>)] = &[
            ("no block", None),
            ("a\n```sh\nls\n```\nb", Some("ls\n")),
            ("```\none\n```\n~~~\ntwo\n~~~\n", Some("two\n")),
            ("````\n```\ninner\n```\n````", Some("```\ninner\n```\n")),
            ("```\nopen", Some("open")),
            ("```\n```", Some("")),
            (
                "- x\n  ```\n  in\n    deeper\n  ```\n",
                Some("in\n  deeper\n"),
            ),
            ("`` ` ``` no ``` fence", None),
            ("```a`b\nx", None),
            ("```\r\nx\r\n```\r\n", Some("x\r\n")),
        ];
        for (answer, want) in cases {
            assert_eq!(
                last_block(answer.as_bytes()),
                want.map(|w| w.as_bytes().to_vec()),
                "{answer:?}"
            );
        }
    }
}
