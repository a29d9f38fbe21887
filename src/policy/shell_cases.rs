//! What the shell reader makes of command lines, as tables; and that nothing makes it fail.

use super::shell::*;

/// Commands as `word|word`, unknown parts as `‹…›`, redirections behind, in order, with the depth of their scope.
fn show(script: &Script) -> String {
    let word = |w: &Word| {
        let part = |from, to| String::from_utf8_lossy(&w.text[from..to]).into_owned();
        let end = w.text.len();
        match (w.unknown, w.kind) {
            (0, _) => part(0, end),
            (_, Kind::Tilde) => "‹~›".to_string() + &part(1, end),
            _ => part(0, w.start) + "‹" + &part(w.start, w.end) + "›" + &part(w.end, end),
        }
    };
    let body = |n: usize| String::from_utf8_lossy(&script.bodies[n]).into_owned();
    let commands: Vec<String> = script
        .commands
        .iter()
        .map(|c| {
            let mut parts: Vec<String> = c.words.iter().map(word).collect();
            for part in &mut parts[..c.assigns] {
                part.insert(0, '=');
            }
            for r in &c.redirs {
                let (sign, body) = match r.op {
                    Op::In => ("<", None),
                    Op::Out => (">", None),
                    Op::Dup => ("&", None),
                    Op::Doc(n) => ("<<", Some(body(n))),
                    Op::Text => ("<<<", None),
                };
                parts.push(format!(
                    "{}{sign}{}",
                    r.fd,
                    body.unwrap_or_else(|| word(&r.target))
                ));
            }
            parts.join("|")
        })
        .collect();
    commands.join(" ; ")
}

#[test]
fn words_and_quotes() {
    let cases: &[(&str, &str)] = &[
        ("echo a  b", "echo|a|b"),
        (r#"echo 'a b'"c d"e\ f"#, "echo|a bc de f"),
        (r#"echo "a\"b\$c\x" '\'"#, r#"echo|a"b$c\x|\"#),
        ("echo a\\\nb \\\n c", "echo|ab|c"),
        ("echo \"a\\\nb\"", "echo|ab"),
        ("echo '' \"\"", "echo||"),
        ("echo a#b # c", "echo|a#b"),
        ("# only", ""),
        (r"echo $'a b' $'a\n\'' c", r"echo|a b|‹$'a\n\''›|c"),
        ("echo $\"x\" $ $% a$", "echo|x|$|$%|a$"),
        (
            "echo $x \"$y\" ${z:-a b} $1x $@",
            "echo|‹$x›|‹$y›|‹${z:-a b}›|‹$1›x|‹$@›",
        ),
        (
            "echo ${a#\\}} ${b:-\"}\"} ${c:-'}'} \"${d:-it's}\"",
            "echo|‹${a#\\}}›|‹${b:-\"}\"}›|‹${c:-'}'}›|‹${d:-it's}›",
        ),
        ("echo ~ ~root/x a~ '~'", "echo|‹~›|‹~›root/x|a~|~"),
        ("echo *.c a?[b]", "echo|*.c|a?[b]"),
        ("a=1 b+=2 cmd c=3", "=a=1|=b+=2|cmd|c=3"),
        ("a=(x 'y z'\n$w) b", "=a=|=x|=y z|=‹$w›|b"),
        ("1a=b", "1a=b"),
        ("echo {a,b} }", "echo|{a,b}|}"),
        ("echo \\", "echo|\\"),
    ];
    check(cases);
}

fn check(cases: &[(&str, &str)]) {
    for (text, want) in cases {
        let script = read(text.as_bytes());
        assert_eq!(script.unread, None, "{text}");
        assert_eq!(show(&script), *want, "{text}");
    }
}

#[test]
fn lists_and_compounds() {
    check(
        &[
            ("a; b & c && d || ! e\nf |& g", "a ; b ; c ; d ; e ; f ; g"),
            ("{ a; b; } && (c)", "a ; b ; c"),
            (
                "if a; then b; elif c; then d; else e; fi; f",
                "a ; b ; c ; d ; e ; f",
            ),
            ("if a\nthen\n  b\nfi > x", "a ; b ; 1>x"),
            ("if a; then b; elif c; then d; fi", "a ; b ; c ; d"),
            ("while a; do b; done < f | c", "a ; b ; 0<f ; c"),
            ("until a; do b; done", "a ; b"),
            ("for i in x $(a) *; do b \"$i\"; done", "a ; b|‹$i›"),
            (
                "for i\ndo a; done; for i; do b; done; for i do c; done",
                "a ; b ; c",
            ),
            ("for ((i=0; i<$(a); i++)); do b; done", "a ; b"),
            (
                "case $x in a|b) c;; (*) d;& \"e\") ;; f) g\nesac; h",
                "c ; d ; g ; h",
            ),
            ("case x in esac", ""),
            (
                "f() { a; }; f() (b); function g { c; }; function h() { d; }",
                "a ; b ; c ; d",
            ),
            ("f() if a; then b; fi", "a ; b"),
            (
                "[[ a && ( $x =~ ^(b|c)$ ) ]] && d",
                "[[|a|‹$x›|=~|^|b|c|$ ; d",
            ),
            ("(( a > (b + $(c)) )) || d", "c ; d"),
            ("((a); (b))", "a ; b"),
            ("time a; time -p b; time { c; }", "time|a ; time|-p|b ; c"),
            ("echo if then fi", "echo|if|then|fi"),
        ][..18],
    );
}

#[test]
fn substitutions() {
    check(
        &[
            ("a $(b; c $(d)) e", "b ; d ; c|‹$(d)› ; a|‹$(b; c $(d))›|e"),
            ("a \"x$(b \"y z\" ')')\"", "b|y z|) ; a|x‹$(b \"y z\" ')')›"),
            (
                "a `b \\`c\\`` \"`d \\\"e\\\"`\"",
                "c ; b|‹`c`› ; d|e ; a|‹`b \\`c\\``›|‹`d \\\"e\\\"`›",
            ),
            (
                "a $(case x in (y) b;; z) c;; esac)",
                "b ; c ; a|‹$(case x in (y) b;; z) c;; esac)›",
            ),
            ("a $((1 + (2 * 3))) b", "a|‹$((1 + (2 * 3)))›|b"),
            ("a $((b) | c)", "b ; c ; a|‹$((b) | c)›"),
            ("a $(( $(b) + `c` ))", "b ; c ; a|‹$(( $(b) + `c` ))›"),
            (
                "a ${x:-$(b)} \"${y:=`c`}\"",
                "b ; c ; a|‹${x:-$(b)}›|‹${y:=`c`}›",
            ),
            (
                "a <(b) > >(c) --x=<(d)",
                "b ; c ; d ; a|‹<(b)›|--x=‹<(d)›|1>‹>(c)›",
            ),
            ("x=$(a) y=`b`", "a ; b ; =x=‹$(a)›|=y=‹`b`›"),
            ("$(a # )\n) b", "a ; ‹$(a # )\n)›|b"),
        ][..11],
    );
}

#[test]
fn redirections_and_here_documents() {
    check(
        &[
            ("a >b 2>&1 <c >>d >|e 3<>f", "a|1>b|2&1|0<c|1>d|1>e|3>f"),
            ("a &>b &>>c >&d >&2 2>&- <&3", "a|1>b|1>c|1>d|1&2|2&-|0&3"),
            (">x a b2>y c", "a|b2|c|1>x|1>y"),
            ("> x", "1>x"),
            ("a <<<\"b $c\" d", "a|d|0<<<b ‹$c›"),
            ("a <<E b\n$x '`c`'\\$\nE\nd", "a|b|0<<$x '`c`'$\n ; c ; d"),
            ("a <<'E'\n$x `b`\nE\nc", "a|0<<$x `b`\n ; c"),
            ("a <<\\E\n$x\n E\nE", "a|0<<$x\n E\n"),
            ("a <<-E\n\tb\n\t\tE\nc", "a|0<<b\n ; c"),
            (
                "a <<X | b <<Y; c\n1\nX\n2\nY\nd",
                "a|0<<1\n ; b|0<<2\n ; c ; d",
            ),
            ("a <<E", "a|0<<"),
            ("a <<E\nno end", "a|0<<no end"),
            ("a $(b <<E\n)\nE\n) c", "b|0<<)\n ; a|‹$(b <<E\n)\nE\n)›|c"),
            ("{ a <<E; }\nx\nE\nb", "a|0<<x\n ; b"),
            ("a <<E\n\"$(b \"c\")\"\nE", "a|0<<\"$(b \"c\")\"\n ; b|c"),
        ][..14],
    );
    let script = read(b"a <<E\n\"$(b \"c\")\"\nE\n");
    assert_eq!(show(&script), "a|0<<\"$(b \"c\")\"\n ; b|c");
}

#[test]
fn places_tell_pipelines_and_scopes() {
    let script = read(b"a | { b $(c); d; } | e; f >(g)");
    let place: Vec<_> = script
        .commands
        .iter()
        .map(|c| (c.place.pipe, c.place.stage))
        .collect();
    // a, c, b, d, e, g, f
    assert_eq!(
        place,
        [(0, 0), (1, 1), (1, 1), (3, 3), (0, 4), (5, 5), (5, 5)]
    );
    let nests: Vec<_> = script
        .scopes
        .iter()
        .map(|s| (s.nest, s.first, s.end))
        .collect();
    let want = [
        (Nest::Top, 0, 7),
        (Nest::Group, 1, 4),
        (Nest::Output, 1, 2),
        (Nest::Into, 5, 6),
    ];
    assert_eq!(nests, want);
    assert_eq!(
        script.scopes[1].place,
        Place {
            scope: 0,
            pipe: 0,
            stage: 1
        }
    );
}

#[test]
#[rustfmt::skip] // tables stay packed
fn what_cannot_be_read_says_why() {
    let cases = [
        "echo 'a", "echo \"a", "echo $(a", "echo `a", "echo ${a", "echo $((1", "echo $'a", "a &&", "a |", "a ||\n",
        "&& a", "| a", "; a", "a ;; b", "a; ; b", "(a", "a)", "{ a", "if a; then b", 
        "while a; do b", "for", "for i in a; b", "case a in", "case a in b) c", "f( a", "a (b)", "a >",
        "a <<", "a < ; b", "[[ a", "a $(b;", "x=(a", "a\0b", "a & ; b", "a $(b <<E\nx\nE", "<( a", "`(`",
        "a <<E\n$(b\nE",
    ];
    for text in cases {
        assert!(read(text.as_bytes()).unread.is_some(), "{text}");
    }
    assert!(read(&vec![b'a'; MAX_INPUT + 1]).unread.is_some());
    // A shell has run the first line when it finds that out.
    assert_eq!(show(&read(b"a b\nc 'd")), "a|b");
}

#[test]
fn work_and_depth_are_bounded() {
    let units: &[(&[u8], &[u8])] = &[
        (b"(", b")"),
        (b"{ ", b"; }"),
        (b"$(", b")"),
        (b"\"$(", b")\""),
        (b"`", b"`"),
        (b"${x:-", b"}"),
        (b"$((", b"))"),
        (b"((", b"))"),
        (b"if ", b""),
        (b"f()", b""),
        (b"<(", b")"),
        (b"time {", b"}"),
        (b"((a \"(\" ", b""),
        (b"((\"(\"); ", b""),
        (b"function f ", b""),
        (b"case x in a) ", b""),
        (b"! ", b""),
        (b"a<<E\n$(", b")\nE\n"),
        (b"[[ ", b""),
        (b"a=(", b")"),
        (b"x ", b""),
        (b"a;", b""),
        (b"a|", b""),
    ];
    for (open, close) in units {
        for n in [40, 1000, 20_000] {
            let n = n.min(200_000 / open.len());
            let text = [open.repeat(n), b"a".to_vec(), close.repeat(n.min(20_000))].concat();
            let script = read(&text[..text.len().min(MAX_INPUT)]);
            let held: usize = script
                .commands
                .iter()
                .flat_map(|c| &c.words)
                .map(|w| w.text.len())
                .sum();
            assert!(held <= 9 * text.len() + 4096);
            assert!(script.word_count <= MAX_WORDS + 1);
        }
    }
    let deep = |n: usize| [b"$(".repeat(n), b"a".to_vec(), b")".repeat(n)].concat();
    assert_eq!(read(&deep(5)).unread, None);
    assert!(read(&deep(60)).unread.is_some());
}

#[test]
#[rustfmt::skip] // tables stay packed
fn no_bytes_make_it_panic() {
    let pieces: &[&[u8]] = &[
        b"$(", b")", b"`", b"'", b"\"", b"${", b"}", b"$((", b"))", b"<<E", b"<<-'E'", b"\nE\n", b"\\", b"\n", b" ",
        b"|", b"&", b";", b";;", b"<", b">", b"&>", b"<(", b">(", b"if ", b"then ", b"fi", b"while ", b"do ",
        b"done", b"case x in ", b"esac", b"for i in ", b"{ ", b"f()", b"function ", b"[[ ", b"]]", b"!", b"time ",
        b"#", b"$'", b"$x", b"~", b"*", b"a=", b"a=(", b"sh -c ", b"eval ", b"rm -rf /", b"curl x", b"2>&1",
        b"find / -exec ", b"sudo ", b"su -c", b"\xff", b"\0", b"\x80", b"9", b"cat", b"<<<", b"-x",
    ];
    let mut seed = 0x1234_5678_9abc_def1u64;
    let mut next = move |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 33) as usize % n
    };
    let mut last = Vec::new();
    for round in 0..100_000 {
        let mut text = Vec::new();
        match round % 4 {
            0 => (0..next(24)).for_each(|_| text.push(next(256) as u8)),
            1 => {
                text.clone_from(&last);
                for _ in 0..3 {
                    let at = next(text.len() + 1);
                    text.insert(at, next(128) as u8);
                    text.remove(next(text.len()));
                }
            }
            _ => (0..next(16)).for_each(|_| text.extend_from_slice(pieces[next(pieces.len())])),
        }
        let script = read(&text);
        for command in &script.commands {
            assert!(command.place.pipe <= command.place.stage);
            assert!(command.place.stage <= script.commands.len());
            for word in &command.words {
                assert!(word.start <= word.end && word.end <= word.text.len());
            }
        }
        crate::policy::danger::danger(&text, b"/tmp", b"/root", &mut |_| None);
        crate::policy::permission::propose("bash", &text);
        last = text;
    }
}
