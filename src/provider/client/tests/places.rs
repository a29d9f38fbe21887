//! Fallbacks, keys, a network that comes back, lists of models, costs.

use super::*;
use crate::config::{KeyStrategy, Price};
use crate::provider::Usage;

#[test]
fn a_fallback_stays_for_a_while() {
    let (mut world, mut eyes) = World::letters("bg");
    let mut client = Client::new(&config(1, 1), None).unwrap();
    let first = client.origin();
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert_eq!(
        (client.model(), client.base_url().as_str()),
        ("other", "http://b.example/v1")
    );
    assert_ne!(client.origin(), first);
    world.now += 299_000;
    ask(&mut client, &mut world, &mut eyes).unwrap();
    world.now += 2_000;
    ask(&mut client, &mut world, &mut eyes).unwrap();
    assert_eq!(world.steps(), "a:first b:- b:- a:first");
    assert_eq!(client.origin(), first);
    assert!(
        world
            .notices()
            .contains("going on with other at http://b.example/v1"),
        "{}",
        world.notices()
    );

    // When the fallback fails too, the first one is asked again; the error tells of both.
    let (mut world, mut eyes) = World::letters("bgbb");
    let mut client = Client::new(&config(1, 1), None).unwrap();
    ask(&mut client, &mut world, &mut eyes).unwrap();
    let got = ask(&mut client, &mut world, &mut eyes).unwrap_err();
    assert_eq!(world.steps(), "a:first b:- b:- a:first");
    assert!(got.message.contains("before that"), "{}", got.message);
}

#[test]
fn a_fallback_gets_neither_thinking_nor_keys_of_another_place() {
    let (mut world, mut eyes) = World::letters("bbg");
    let mut both = config(1, 1);
    both.fallback.push(Fallback {
        base_url: "http://a.example/v1/".into(),
        model: "small".into(),
        api_key: String::new(),
    });
    let mut client = Client::new(&both, None).unwrap();
    let messages = [
        &br#"{"role":"user","content":"hello"}"#[..],
        br#"{"role":"assistant","content":"x","reasoning_content":"private"}"#,
        br#"{"role":"user","content":"go"}"#,
    ]
    .map(|json| Message {
        json,
        origin: client.origin(),
    });
    client
        .complete_over(&mut world, &messages, None, &[], &mut eyes)
        .unwrap();
    assert_eq!(world.steps(), "a:first b:- a:first");
    let sent: Vec<bool> = world.bodies.iter().map(|b| b.contains("private")).collect();
    assert_eq!(sent, [true, false, false]);
}

#[test]
fn a_lost_network_is_waited_for_in_the_middle_of_a_run() {
    let mut patient = config(1, 0);
    patient.offline_wait = 25;
    let retries = "a:first w1000 a:first w2000 a:first w4000 a:first";
    for (script, steps, class) in [
        (
            "gllllng",
            "a:first RETRIES w10000 a:first w10000 a:first",
            None,
        ),
        // A network that is back is no reason for less patience with the server.
        (
            "glllltg",
            "a:first RETRIES w10000 a:first w1000 a:first",
            None,
        ),
        (
            "glllllll",
            "a:first RETRIES w10000 a:first w10000 a:first w5000 a:first",
            Some(Class::Transient),
        ),
        ("gtttt", "a:first RETRIES", Some(Class::Transient)),
    ] {
        let (mut world, mut eyes) = World::letters(script);
        let mut client = Client::new(&patient, None).unwrap();
        ask(&mut client, &mut world, &mut eyes).unwrap();
        let got = ask(&mut client, &mut world, &mut eyes);
        assert_eq!(world.steps(), steps.replace("RETRIES", retries), "{script}");
        assert_eq!(got.err().map(|f| f.class), class, "{script}");
        let told = world.notices().matches("for the network").count();
        assert_eq!(told, usize::from(script != "gtttt"), "{}", world.notices());
    }
}

#[test]
fn keys_by_strategy() {
    for (strategy, steps) in [
        (KeyStrategy::FillFirst, "a:first a:first a:first a:first"),
        (KeyStrategy::RoundRobin, "a:first a:second a:third a:first"),
        (KeyStrategy::LeastUsed, "a:first a:second a:third a:first"),
    ] {
        let mut pooled = config(3, 0);
        pooled.key_strategy = strategy;
        let (mut world, mut eyes) = World::letters("");
        let mut client = Client::new(&pooled, None).unwrap();
        for _ in 0..4 {
            ask(&mut client, &mut world, &mut eyes).unwrap();
        }
        assert_eq!(world.steps(), steps);
    }
    // A key without money isn't tried again while there are others.
    let (mut world, mut eyes) = World::letters("b");
    let mut client = Client::new(&config(2, 0), None).unwrap();
    for _ in 0..3 {
        ask(&mut client, &mut world, &mut eyes).unwrap();
    }
    assert_eq!(world.steps(), "a:first a:second a:second a:second");
}

#[test]
fn lists_of_models() {
    let wanted = ["a", "b"].map(String::from).to_vec();
    for body in [
        r#"{"object":"list","data":[{"id":"b"},{"id":"a"},{"id":"b"},{"x":1}]}"#,
        r#"{"models":[{"name":"b","model":"c"},{"name":"a"}]}"#,
        r#"[{"id":"b"},"a"]"#,
    ] {
        let (mut world, mut eyes) = World::new(vec![http(200, body)]);
        let mut client = Client::new(&config(1, 0), None).unwrap();
        let got = client.list_models_over(&mut world, &mut eyes).unwrap();
        assert_eq!(got, wanted, "{body}");
        assert_eq!(world.urls, ["GET http://a.example/v1/models"]);
        assert!(world.bodies[0].is_empty());
        let names: Vec<&str> = world.headers[0].iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(
            names,
            ["Accept", "Accept-Encoding", "User-Agent", "Authorization"]
        );
    }
    for (then, class, part) in [
        (fault('a'), Class::Auth, "OPENAI_API_KEY"),
        (
            http(200, "<html><title>Login</title>"),
            Class::Fatal,
            "no list of models",
        ),
        (http(200, "{}"), Class::Fatal, "http://a.example/v1/models"),
        (fault('l'), Class::Transient, "broken"),
        (fault('i'), Class::Cancelled, ""),
    ] {
        let (mut world, mut eyes) = World::new(vec![then]);
        let mut client = Client::new(&config(1, 0), None).unwrap();
        let got = client.list_models_over(&mut world, &mut eyes).unwrap_err();
        assert_eq!(got.class, class, "{}", got.message);
        assert!(got.message.contains(part), "{}", got.message);
    }
    let mut bare = config(1, 0);
    bare.base_url = "http://a.example".into();
    let (mut world, mut eyes) = World::new(vec![http(404, ""), http(200, r#"{"data":[]}"#)]);
    let mut client = Client::new(&bare, None).unwrap();
    assert_eq!(
        client.list_models_over(&mut world, &mut eyes),
        Ok(Vec::new())
    );
    assert_eq!(world.urls[1], "GET http://a.example/v1/models");
}

#[test]
fn costs() {
    let mut priced = config(0, 0);
    priced.prices.push(Price {
        model: "main".into(),
        input: 280_000,
        cached: 28_000,
        output: 420_000,
    });
    let client = Client::new(&priced, None).unwrap();
    let usage = Usage {
        prompt: 100_000,
        completion: 1_000,
        cached: 90_000,
    };
    // 10,000 × 0.28 + 90,000 × 0.028 + 1,000 × 0.42 a million = 0.00574
    assert_eq!(client.cost(&usage), Some(5_740));
    let huge = Usage {
        prompt: u64::MAX,
        completion: u64::MAX,
        cached: u64::MAX,
    };
    assert!(client.cost(&huge).is_some());
    priced.model = "unpriced".into();
    assert_eq!(Client::new(&priced, None).unwrap().cost(&usage), None);
}

#[test]
fn a_bad_url_is_told_at_once() {
    let mut bad = config(0, 1);
    bad.fallback[0].base_url = "b.example".into();
    let e = Client::new(&bad, None).err().unwrap();
    assert!(
        e.contains("fallback, number 1") && e.contains("http://"),
        "{e}"
    );
}
